package memqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/queue"
)

// lagWeight is the weight of one arrival in the moving mean of the lag.
const lagWeight = 32

// Arrive implements [queue.Line].
func (l *Line) Arrive(_ context.Context, came []queue.Completion) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, c := range came {
		if h := l.admitted[c.TicketID]; h != nil {
			l.arrive(h, now)
		}
	}
	return nil
}

// arrive notes that an admission was brought to the order side, once.
func (l *Line) arrive(h *holder, now int64) {
	if h.arrived {
		return
	}
	h.arrived = true
	l.counts.arrived++
	if i, ok := l.findCohort(h.admission.AdmittedAt.Unix()); ok {
		l.cohorts[i].Arrived++
	}
	took := time.UnixMicro(now).Sub(h.admission.AdmittedAt)
	if !l.timed {
		l.lag, l.timed = took, true
	} else {
		l.lag += (took - l.lag) / lagWeight
	}
}

// countCohort counts one into the cohort of the second they were let in, unless so
// many later ones are kept that it is forgotten.
func (l *Line) countCohort(second int64, came bool) {
	i, ok := l.findCohort(second)
	if !ok {
		l.cohorts = slices.Insert(l.cohorts, i, queue.Cohort{Second: second})
	}
	l.cohorts[i].Admitted++
	if came {
		l.cohorts[i].Arrived++
	}
	l.cohorts = l.cohorts[max(0, len(l.cohorts)-queue.MaxCohorts):]
}

func (l *Line) findCohort(second int64) (int, bool) {
	return slices.BinarySearchFunc(l.cohorts, second, func(c queue.Cohort, second int64) int {
		return cmp.Compare(c.Second, second)
	})
}

// Spend implements [queue.Line].
func (l *Line) Spend(_ context.Context, used []queue.Completion) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, c := range used {
		if h := l.admitted[c.TicketID]; h != nil {
			l.arrive(h, now)
			l.endAdmission(h, queue.Spent, now)
			continue
		}
		l.spendEnded(c, now)
	}
	return nil
}

// spendEnded records the order of an admission that is not live: it ran out in
// this moment, its visitor left the line before they ordered, or the line lost
// its memory and they are back in it. The order stands in any case.
func (l *Line) spendEnded(c queue.Completion, now int64) {
	delete(l.slots, c.TicketID)
	e, over := l.endOf(c.TicketID, now)
	if over && e.state == queue.Spent {
		return
	}
	if h := l.holders[c.Subject]; h != nil && h.ticketID == c.TicketID {
		e.place = h.place
		l.end(h, queue.Spent, now)
	}
	if !e.arrived {
		l.counts.arrived++
	}
	e.state, e.arrived = queue.Spent, true
	l.rememberEnd(c.TicketID, e, now)
	l.counts.spent++
}
