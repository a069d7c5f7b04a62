package memqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/queue"
)

// Export implements [queue.Line].
func (l *Line) Export(context.Context) ([]queue.Record, error) {
	records := l.records()
	slices.SortFunc(records, func(a, b queue.Record) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.TicketID, b.TicketID))
	})
	return records, nil
}

func (l *Line) records() []queue.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.expire(now)
	outcome := queue.Waiting
	if l.settings.Phase(time.UnixMicro(now)) == queue.PhaseScheduled {
		outcome = queue.Scheduled
	}
	records := make([]queue.Record, 0, len(l.holders)+len(l.ended))
	for _, h := range l.holders {
		if h.admission != nil {
			records = append(records, l.exported(h.ticketID, h.ending(queue.Admitted)))
		} else {
			records = append(records, l.exported(h.ticketID, ending{state: outcome, place: h.place}))
		}
	}
	for id, e := range l.ended {
		records = append(records, l.exported(id, e))
	}
	return l.withForgotten(records)
}

// withForgotten adds the early tickets of which nothing is known but that they took
// part in the draw.
func (l *Line) withForgotten(records []queue.Record) []queue.Record {
	if l.settings.Seed == "" || len(l.early) == 0 {
		return records
	}
	known := make(map[string]bool, len(records))
	for _, r := range records {
		known[r.TicketID] = true
	}
	for id := range l.early {
		if !known[id] {
			records = append(records, l.exported(id, ending{place: queue.DrawPlace(l.settings.Seed, id)}))
		}
	}
	return records
}

func (l *Line) exported(id string, e ending) queue.Record {
	r := queue.Record{
		TicketID: id, Place: e.place, Outcome: e.state,
		EnteredAt: milli(l.early[id]), AdmittedAt: milli(e.admitted), FetchedAt: milli(e.fetched),
		Bypassed: e.bypassed,
	}
	if r.EnteredAt.IsZero() && e.place > queue.MaxDrawn {
		r.EnteredAt = queue.EnteredAt(e.place)
	}
	return r
}

// milli is a time in ms, of which 0 is not known.
func milli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
