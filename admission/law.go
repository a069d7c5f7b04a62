package admission

import (
	"time"

	"sluice/queue"
)

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
