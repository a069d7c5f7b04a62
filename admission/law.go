package admission

import (
	"time"

	"sluice/queue"
)

// Measurement is one reading of a pool. Counters are since the process started.
type Measurement struct {
	// At is monotonic; readings are in its order.
	At time.Time
	// Workers is how many units of work can run at once, Busy how many do, Backlog
	// how many wait for a worker.
	Workers, Busy, Backlog int
	// Completed counts units of work that ran to their end.
	Completed int64
	// BusyTime is the time all workers together have been at work.
	BusyTime time.Duration
}

// LawSettings are what the law is told.
type LawSettings struct {
	// First is the capacity to begin with, in orders per second: [FirstGuess].
	First float64
	// WaitTarget is how long an order may wait for a worker.
	WaitTarget time.Duration
}

// LawState is what the law remembers from one measurement to the next. The zero
// value is the state before the first.
type LawState struct {
	// Capacity is the finding, in orders per second, and Reason what it rests on.
	Capacity float64
	Reason   LawReason
	// Throughput is orders per second, Utilisation the share of the workers' time
	// that was used, both over the law's window.
	Throughput, Utilisation float64

	window []Measurement // STUB
}

// LawReason is what a capacity rests on.
type LawReason string

// The reasons.
const (
	ReasonFirst    LawReason = "first_guess" // nothing was measured yet
	ReasonGrowing  LawReason = "growing"     // workers are free: looking for more
	ReasonMeasured LawReason = "measured"    // every worker is busy: what they finish
	ReasonIdle     LawReason = "idle"        // no samples: the last figure stands
)

// Next is the control law of one pool: a pure function.
func Next(s LawState, m Measurement, set LawSettings) LawState {
	s.Capacity, s.Reason = set.First, ReasonFirst // STUB
	return s
}

// Rater tells how fast visitors may be let in, and what sets that bound. It is
// asked before every batch and must answer at once, with a finite rate of at
// least 0 per second.
type Rater interface {
	Rate() (perSecond float64, why queue.LimitedBy)
}

// FirstGuess is the rate to admit at before anything was measured, per second:
//
//	workers ÷ assumed × margin
//
// By Little's law (1961) workers that are all busy, each for the assumed time
// per order, finish workers ÷ assumed orders a second. The margin, between 0
// and 1, is what the guess leaves free, because both figures tend to be hopes:
// 50 workers at 200 ms with a margin of 0.7 give 175/s. It is 0 for figures that
// make no sense, which lets nobody in.
func FirstGuess(workers int, assumed time.Duration, margin float64) float64 {
	if workers <= 0 || assumed <= 0 || !(margin > 0) {
		return 0
	}
	return float64(workers) / assumed.Seconds() * margin
}

// Fixed is a rate that does not change, in admissions per second: a first guess
// that nothing corrects yet.
type Fixed float64

// Rate is the fixed rate; the capacity it stands for is what bounds it.
func (f Fixed) Rate() (float64, queue.LimitedBy) {
	return float64(f), queue.LimitedByCapacity
}
