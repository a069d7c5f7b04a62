package queue

import (
	"math"
	"time"
)

const (
	// movementMin is the least measured time an estimate is made from, and
	// movementSettled the least in all, also at an earlier pace, of a line that has to
	// find its pace: it begins with a guess and a correction, and until the first who
	// have gone are found silent it seems slower than it will be.
	movementMin     = 2 * time.Second
	movementSettled = 20 * time.Second
	// rangeWidth is how many standard deviations the range spans to each side:
	// nine visitors in ten should be let in within it.
	rangeWidth = 1.645
	// drift and grain (s) are the standard deviation of what no spread shows, from
	// simulated crowds.
	drift, grain = 0.02, 0.2
)

// Movement is how a line has been moving lately. The head moves by those who are
// let in and by those found gone, since both shorten the way of everybody behind
// them; the line also shrinks by those who give up, wherever they stand. Only time
// in which somebody waited counts, so that an idle line does not look like a slow
// one.
type Movement struct {
	// PerSecond is the pace of the head, in places per second: AdmittedPerSecond
	// and the places of those found gone that come with it.
	PerSecond float64
	// AdmittedPerSecond is how many are let in, per second.
	AdmittedPerSecond float64
	// Leaving is the share of those waiting who give up, per second.
	Leaving float64
	// Spread is the standard deviation of the places the head moved in one second.
	Spread float64
	// Measured is how much time pace and spread rest on, and Observed how much was
	// measured in all, also at an earlier pace; at most 30 s.
	Measured, Observed time.Duration
}

// Estimate is a wait as a range.
type Estimate struct {
	// Expected is the wait at the measured pace; nine waits in ten should end
	// between Low and High, if the line goes on as it did.
	Expected, Low, High time.Duration
}

// Estimate says how long the visitor at position (1 is next) will wait. ok is
// false until movement was measured for two seconds, and when nobody is let in:
// no figure is better than an invented one.
//
// The head takes r places a second, and of the p in front a share λ gives up per
// second: p falls by r + λp, so that T = ln(1 + λp ÷ r) ÷ λ, which is p ÷ r when
// nobody gives up.
//
// With spread s and measured time M, the places moved in T vary by s·√T around
// r·T (a random walk with drift), and r itself is only known to s ÷ √M, which is
// s·T ÷ √M after T. Divided by r the two give the standard deviation of the wait
// (first-order error propagation; as in the central limit theorem of renewal
// processes, Cox 1962):
//
//	σ = s ÷ r × √(T + T² ÷ M)
//
// The most even of lines promises nothing to the millisecond either: that the
// share of those who have gone is another one further behind, and when a tick
// falls, adds drift × T + grain.
func (m Movement) Estimate(position int64) (e Estimate, ok bool) {
	if position < 1 || m.Measured < movementMin || !(m.PerSecond > 0) {
		return Estimate{}, false
	}
	wait := float64(position) / m.PerSecond
	if m.Leaving > 0 {
		wait = math.Log1p(m.Leaving*wait) / m.Leaving
	}
	sigma := math.Hypot(m.Spread/m.PerSecond*math.Sqrt(wait+wait*wait/m.Measured.Seconds()), drift*wait+grain)
	return Estimate{
		Expected: seconds(wait),
		Low:      seconds(max(0, wait-rangeWidth*sigma)),
		High:     seconds(wait + rangeWidth*sigma),
	}, true
}

// Estimate says how long the visitor at position will wait if the line goes on as
// it did ([Movement.Estimate]). ok is false also while nobody can be let in, which
// nothing measured before says anything about: paused, passed by, not open, recovering;
// and in the first 20 seconds of a line whose pace is not an operator's.
func (v *View) Estimate(position int64) (e Estimate, ok bool) {
	if v.standsStill() || v.Settings.RateOverride == nil && v.Movement.Observed < movementSettled {
		return Estimate{}, false
	}
	return v.Movement.Estimate(position)
}

// standsStill reports whether nobody is let in whatever could be.
func (v *View) standsStill() bool {
	override := v.Settings.RateOverride
	return v.Settings.Paused || v.Settings.Mode.Bypassed() || v.At.Before(v.HoldUntil) || v.Settings.Phase(v.At) != PhaseOpen || override != nil && *override == 0
}

// Soonest is how soon the visitor at position could be let in: as fast as the head
// has moved, or as the rate of the last batch would move it, whichever is more. An
// estimate is honest about the past; who must not miss their turn goes by this. 0 if
// nothing is known, or nobody is let in.
func (v *View) Soonest(position int64) time.Duration {
	pace := max(v.Movement.PerSecond, v.Rate)
	if position < 1 || !(pace > 0) || v.standsStill() {
		return 0
	}
	return seconds(float64(position) / pace)
}

// seconds is s as a duration; what does not fit becomes the longest there is.
func seconds(s float64) time.Duration {
	if ns := s * float64(time.Second); ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return math.MaxInt64
}
