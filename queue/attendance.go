package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// attendanceEvery is the time between two rounds.
	attendanceEvery = time.Second
	// sweepDeadline bounds one round. One that takes longer is given up, or the
	// next would be told late.
	sweepDeadline = time.Second
	// sealDeadline bounds one attempt to seal the draw, which reads every early
	// ticket.
	sealDeadline = 30 * time.Second
)

// Attendance is who polled a line at this process lately. A process that answers
// polls runs one per line; it tells the line once a second, in one call, whom of
// those near the head it heard, and has the line mark those nobody heard. It also
// seals the draw once the line has opened.
type Attendance struct {
	line Line
	told *Told
	log  *slog.Logger

	// zone is how many positions from the head matter, by the last round. Until
	// the first everybody counts who could.
	zone atomic.Int64

	mu    sync.Mutex
	heard map[string]time.Duration // what each was told; guarded by mu; at most MaxZone
}

// NewAttendance makes one that tells the line once it runs.
func NewAttendance(line Line, told *Told, log *slog.Logger) *Attendance {
	a := &Attendance{line: line, told: told, log: log.With("line", line.ID()), heard: map[string]time.Duration{}}
	a.zone.Store(MaxZone)
	return a
}

// Polled notes that a waiting subject polled from a position and was told when
// to ask next; position 0 is of somebody whose line has not opened. It is on the
// hot path: whoever is far from the head costs no lock. It keeps the subject,
// which must not be part of a request's buffer. A nil Attendance notes nothing.
//
// One mutex serves all: two cores that do nothing else note ten million subjects a
// second (BenchmarkPolled), two hundred times what they can answer.
func (a *Attendance) Polled(subject string, position int64, told time.Duration) {
	if a == nil {
		return
	}
	a.told.Note(told)
	if position < 1 || position > a.zone.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heard) < MaxZone {
		a.heard[subject] = told
	}
}

// Run tells the line once a second until ctx ends; then it returns nil. The seal
// has a goroutine of its own, since it may take long and a late round would take
// people for silent.
func (a *Attendance) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() {
		a.repeat(ctx, a.sweep,
			"the line's store does not answer; who is there is told later", "the line's store is told again who is there")
	})
	both.Go(func() {
		a.repeat(ctx, a.seal,
			"the draw cannot be sealed; it is tried again", "the draw can be sealed again")
	})
	both.Wait()
	return nil
}

// repeat does something at once and then once a second until ctx ends.
func (a *Attendance) repeat(ctx context.Context, do func(context.Context) error, began, ended string) {
	var outage Outage
	ticks := time.NewTicker(attendanceEvery)
	defer ticks.Stop()
	for {
		if err := do(ctx); !errors.Is(ctx.Err(), context.Canceled) {
			outage.Note(a.log, err, began, ended)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// sweep is one round. A round that fails keeps whom it would have told for the
// next one.
func (a *Attendance) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepDeadline)
	defer cancel()
	heard := a.take()
	swept, err := a.line.Sweep(ctx, heard)
	if err != nil {
		a.giveBack(heard)
		return err
	}
	a.zone.Store(swept.Zone)
	return nil
}

func (a *Attendance) seal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sealDeadline)
	defer cancel()
	return a.line.Seal(ctx)
}

// take returns who was heard since the last time and starts afresh.
func (a *Attendance) take() []Heard {
	a.mu.Lock()
	defer a.mu.Unlock()
	heard := make([]Heard, 0, len(a.heard))
	for subject, told := range a.heard {
		heard = append(heard, Heard{subject, told})
	}
	clear(a.heard)
	return heard
}

// giveBack puts visitors in again as far as there is room. Whoever has polled
// since then comes first; who does not fit is back in order with the next poll.
func (a *Attendance) giveBack(heard []Heard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range heard {
		if len(a.heard) >= MaxZone {
			return
		}
		if _, again := a.heard[h.Subject]; !again {
			a.heard[h.Subject] = h.Told
		}
	}
}
