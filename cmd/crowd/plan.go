package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// arrival is how the visitors come.
type arrival string

const (
	arriveSpike    arrival = "spike"    // all at once, as fast as the connections allow
	arriveRamp     arrival = "ramp"     // more and more, from none
	arriveConstant arrival = "constant" // evenly
	arriveEarly    arrival = "early"    // evenly, and all before the line opens
)

func (a arrival) validate() error {
	switch a {
	case arriveSpike, arriveRamp, arriveConstant, arriveEarly:
		return nil
	}
	return fmt.Errorf("--arrival must be spike, ramp, constant or early, not %q", string(a))
}

// at is when visitor i of n arrives, from the start. It never decreases with i:
// those to come need no place among the timers.
func (a arrival) at(i, n int, over time.Duration) time.Duration {
	share := float64(i) / float64(n)
	switch a {
	case arriveSpike:
		return 0
	case arriveRamp: // the rate grows evenly, so the number grows with the square
		share = math.Sqrt(share)
	}
	return time.Duration(share * float64(over))
}

// habits are what a crowd is like; each visitor's plan is drawn from them.
type habits struct {
	Patience    time.Duration // mean; 0 waits for ever
	CloseShare  float64
	ReturnShare float64 // of those who close
	ReturnAfter time.Duration
	Reenter     float64
	Order       float64
	Think       time.Duration // mean
}

// plan is what one visitor is going to do, drawn at birth: it depends on the
// seed and the visitor's number alone, not on how the run goes.
type plan struct {
	patience    time.Duration // 0: endless
	returnAfter time.Duration // 0: who closes the tab never returns
	think       time.Duration
	// closeAt is the part of the first position at which the tab is closed; 0 is
	// never. How long a wait will be is not known, but positions fall evenly: a
	// random part of the position is a random moment of the wait.
	closeAt  float32
	orders   bool
	reenters bool
}

func planOf(seed uint64, i int, h habits) plan {
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	// Every draw is made for everybody, so that changing one habit leaves the
	// others' draws as they are.
	var p plan
	closes, closeAt := r.Float64() < h.CloseShare, max(1e-6, r.Float32())
	returns, returnAfter := r.Float64() < h.ReturnShare, around(r, h.ReturnAfter)
	p.patience = around(r, h.Patience)
	p.orders = r.Float64() < h.Order
	p.think = around(r, h.Think)
	p.reenters = r.Float64() < h.Reenter
	if closes {
		p.closeAt = closeAt
		if returns {
			p.returnAfter = max(time.Millisecond, returnAfter)
		}
	}
	return p
}

// around is a random time with the given mean: mostly shorter, sometimes much
// longer, but never more than ten times, so that a run has an end.
func around(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(r.ExpFloat64(), 10) * float64(mean))
}
