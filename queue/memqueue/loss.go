package memqueue

import (
	"time"

	"sluice/queue"
)

// judge finds out whether a genuine ticket proves that the line has lost its
// memory: it is of a later epoch, which is adopted, or older than the line, which
// has no record of it.
func (l *Line) judge(t queue.Ticket, now int64) {
	switch {
	case t.Epoch > l.epoch:
		l.lose(now)
		l.beginEpoch(t.Epoch)
		l.redraw(now)
	case !l.quiet && t.Epoch == l.epoch && t.EnteredAt.UnixMicro() < l.created && !l.recorded(t, now):
		l.lose(now)
	}
}

func (l *Line) recorded(t queue.Ticket, now int64) bool {
	if _, aliased := l.aliases[t.ID]; aliased {
		return true
	}
	if _, over := l.endOf(t.ID, now); over {
		return true
	}
	h := l.holders[t.Subject]
	return h != nil && h.ticketID == t.ID
}

// lose holds admission back, once per incarnation, until everybody who was told
// to wait can have come back.
func (l *Line) lose(now int64) {
	if l.lostAt != 0 {
		return
	}
	told := l.opts.Told.Longest()
	if l.opts.Known != nil {
		told = max(told, l.opts.Known.Longest)
	}
	hold := min(told+l.opts.RecoveryHold, queue.MaxHold)
	// In whole ms, rounded up, as others are told of it.
	l.lostAt, l.holdUntil = now, ceilMS(now+hold.Microseconds())
}

func ceilMS(us int64) int64 { return (us + 999) / 1000 * 1000 }

// ahead reports whether a time of the schedule is still to come.
func ahead(t *time.Time, now int64) bool { return t != nil && now < t.UnixMicro() }
