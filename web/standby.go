package web

import (
	"errors"
	"math/rand/v2"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// leastBlocked is the least that a visitor of a blocked line is told to wait.
const leastBlocked = 2 * time.Second

// away reports whether the line's store is known to be away. Then the last view is all
// there is, and better than nothing.
func (l *line) away() bool { return l.standby != nil && l.standby.Away() }

// mode is the mode in force, which is the operator's unless the store is away.
func (l *line) mode(view *queue.View) queue.Mode {
	if l.standby != nil {
		return l.standby.Mode()
	}
	return view.Settings.Mode
}

// limitedBy is what keeps the line from letting more in: what stands in front of it, if
// it is that which answers, else what bounded the last batch.
func (l *line) limitedBy(view queue.View) string {
	if mode := l.mode(&view); mode.Bypassed() {
		return string(mode)
	}
	return string(view.LimitedBy)
}

// visitorError is [queueError] to a visitor. A crowd that is blocked keeps asking, all of
// it, so it is told to come back as those at the tail would be; and since it was told,
// nobody of it is taken for silent or gone until then.
func (s *Server) visitorError(l *line, doing string, err error) error {
	if !errors.Is(err, admission.ErrBlocked) {
		return queueError(doing, err)
	}
	view, _ := l.watch.View()
	poll := queue.PollAfter(view.Waiting, view.Waiting, 0, s.cfg.PollBudget(l.id), rand.Float64())
	poll = max(poll, spread(leastBlocked))
	l.attendance.Polled("", 0, poll)
	return retryAfter(err, poll)
}

// standbyJSON is what an operator knows of a line's store, and of what stands in front
// of it.
type standbyJSON struct {
	Store       string  `json:"store"`
	ViewAgeMS   int64   `json:"view_age_ms"`
	ModeInForce string  `json:"mode_in_force"`
	Warning     *string `json:"warning"`
	Bypassed    int64   `json:"bypassed"`
	Unrecorded  int64   `json:"unrecorded"`
}

const (
	storeThere = "there"
	storeAway  = "away"
)

// onlyHere warns an operator of what a change is while the store is away.
const onlyHere = "The line's store is away: the figures are the last known ones, and a change holds on this instance only until the store is back."

func (l *line) standbyFigures(view queue.View) standbyJSON {
	out := standbyJSON{Store: storeThere, ViewAgeMS: l.watch.Age().Milliseconds(), ModeInForce: string(l.mode(&view))}
	if l.standby != nil {
		stats := l.standby.Stats()
		out.Bypassed, out.Unrecorded = stats.Bypassed, stats.Unrecorded
	}
	if l.away() {
		out.Store, out.Warning = storeAway, optional(onlyHere)
	}
	return out
}
