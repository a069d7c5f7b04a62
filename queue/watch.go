package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// watchDeadline bounds one reading of the store.
const watchDeadline = time.Second

// Watch keeps the latest snapshot of a line, how the line moves, and the
// store's clock, so that the path of a request asks the store nothing for them.
// A process runs one per line. While the store is away the last view stands and
// its Age grows.
type Watch struct {
	line  Line
	every time.Duration
	log   *slog.Logger
	clock *clock

	view atomic.Pointer[View]
	read atomic.Pointer[time.Time] // the last reading that succeeded, or the start; monotonic

	// reading is held during a reading: readings are one after the other, so a
	// view is never replaced by an older one, and the fields below have one user.
	reading chan struct{}
	meter   meter
	told    forecasts
	outage  Outage
}

// View is a line at one moment, how it has been moving, and how true the estimates
// made of that came.
type View struct {
	Snapshot
	Movement Movement
	Accuracy Accuracy
}

// NewWatch makes a watch that reads the line at the given interval once it runs.
func NewWatch(line Line, every time.Duration, log *slog.Logger) *Watch {
	w := &Watch{
		line: line, every: every, log: log.With("line", line.ID()),
		clock: newClock(), reading: make(chan struct{}, 1),
	}
	now := time.Now()
	w.read.Store(&now)
	return w
}

// Run reads the line at once and then at the interval until ctx ends; then it
// returns nil. A failed reading does not stop it; it is logged when the store
// goes away and when it is back, not each time.
func (w *Watch) Run(ctx context.Context) error {
	ticks := time.NewTicker(w.every)
	defer ticks.Stop()
	for {
		_ = w.Refresh(ctx) // logged by it
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// Refresh takes one reading that begins after the call; whoever just changed
// the line's settings uses it to obey them at once. It takes at most a second.
func (w *Watch) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	defer cancel()
	select {
	case w.reading <- struct{}{}:
		defer func() { <-w.reading }()
	case <-ctx.Done():
		return fmt.Errorf("queue: waiting to read line %q: %w", w.line.ID(), ctx.Err())
	}
	sent := time.Now()
	s, err := w.line.Snapshot(ctx)
	received := time.Now()
	if err != nil {
		// A reading that was cut off because its caller gave up says nothing about
		// the store.
		if !errors.Is(ctx.Err(), context.Canceled) {
			w.note(err)
		}
		return fmt.Errorf("queue: reading line %q: %w", w.line.ID(), err)
	}
	w.clock.observe(sent, received, s.At)
	w.noteLoss(s)
	view := View{Snapshot: s, Movement: w.meter.observe(s)}
	view.Accuracy = w.told.observe(view)
	w.view.Store(&view)
	w.read.Store(&received)
	w.note(nil)
	return nil
}

// View is the latest reading; ok is false before the first.
func (w *Watch) View() (v View, ok bool) {
	if p := w.view.Load(); p != nil {
		return *p, true
	}
	return View{}, false
}

// Latest is the latest reading, the zero view before the first. It is for the path of every
// request, and copies nothing: it is everybody's, and not to be changed.
func (w *Watch) Latest() *View {
	if p := w.view.Load(); p != nil {
		return p
	}
	return &View{}
}

// Mode is what the operator has set, in the latest reading or since; [ModeNormal] before
// the first. It is for the path of every request, and copies nothing.
func (w *Watch) Mode() Mode {
	if p := w.view.Load(); p != nil {
		return p.Settings.Mode
	}
	return ModeNormal
}

// Adopt puts later settings than those of the latest reading into the view: what an
// operator says while the store is away. A reading that began before may show the old
// ones once more.
func (w *Watch) Adopt(s Settings) {
	for {
		old := w.view.Load()
		if old == nil || old.Settings.Revision >= s.Revision {
			return
		}
		next := *old
		next.Settings = s
		if w.view.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Age is the time since the last reading that succeeded, or since the watch was
// made.
func (w *Watch) Age() time.Duration { return time.Since(*w.read.Load()) }

// Now is the store's time, from this process's monotonic clock and the offset
// learnt from the readings; before the first one it is the local time.
func (w *Watch) Now() time.Time { return w.clock.now() }

// noteLoss logs that a loss began to hold the line, and that the hold is over.
func (w *Watch) noteLoss(s Snapshot) {
	last, _ := w.View() // the zero view before the first is of no hold
	switch held := last.HoldUntil.After(last.At); {
	case s.Recovering() && !held:
		w.log.Warn("the line's store has lost its memory; nobody is let in until everybody could have come back", "until", s.HoldUntil)
	case !s.Recovering() && held:
		w.log.Info("the hold after the loss is over")
	}
}

func (w *Watch) note(err error) {
	w.outage.Note(w.log, err, "the line's store does not answer; the last view stands", "the line's store answers again")
}
