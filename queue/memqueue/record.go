package memqueue

import (
	"context"

	"sluice/queue"
)

// Record implements [queue.Line]. The rules are those of redisqueue's record.lua,
// where they are explained.
func (l *Line) Record(_ context.Context, given []queue.Admission) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, a := range given {
		if a.Epoch > l.epoch {
			l.lose(now)
			l.beginEpoch(a.Epoch)
			l.redraw(now)
		}
		if a.Epoch == l.epoch {
			l.record(a, now)
		}
	}
	return nil
}

func (l *Line) record(a queue.Admission, now int64) {
	first := l.earliest(a.TicketID)
	e, over := l.endOf(first, now)
	spent := over && first == a.TicketID && e.state == queue.Spent && e.admitted == 0
	if over && !spent || l.admitted[first] != nil {
		return
	}
	l.counts.admitted++
	l.counts.bypassed++
	l.countCohort(a.AdmittedAt.Unix(), spent && e.arrived)
	if _, known := l.early[a.TicketID]; !known && a.Place > 0 && a.Place <= queue.MaxDrawn {
		l.early[a.TicketID] = 0
	}
	h := &holder{
		subject: a.Subject, ticketID: a.TicketID, place: a.Place, entered: l.early[a.TicketID],
		admission: &a, fetched: a.AdmittedAt.UnixMilli(), arrived: spent && e.arrived, bypassed: true,
	}
	if spent {
		l.rememberEnd(a.TicketID, h.ending(queue.Spent), now)
		return
	}
	other := l.holders[a.Subject]
	own := other == nil || l.settle(h, other, now)
	if own {
		delete(l.aliases, h.ticketID)
	}
	if ranOut(&a, now) {
		l.rememberEnd(a.TicketID, h.ending(queue.Expired), now)
		l.counts.expired++
	} else {
		l.inShop(h)
		if own {
			l.holders[a.Subject] = h
		}
	}
}

// settle settles what the visitor of an admission given without the line holds, and
// reports whether the admission is their own from now on.
func (l *Line) settle(h, other *holder, now int64) bool {
	switch another := other.ticketID != h.ticketID; {
	case another && other.place > queue.MaxDrawn && other.place/1000 >= h.admission.ExpiresAt.UnixMilli():
		return false
	case another && other.admission != nil && !ranOut(other.admission, now):
		return false
	case another:
		l.alias(other.ticketID, h.ticketID, now)
	}
	l.unplace(other)
	delete(l.holders, h.subject)
	return true
}
