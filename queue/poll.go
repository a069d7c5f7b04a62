package queue

import (
	"math"
	"time"
)

const (
	// pollMax bounds what a visitor is told, jitter included.
	pollMax = 60 * time.Second
	// pollJitter is how far an interval is moved to each side: enough for polls
	// that began together to drift apart within a few rounds.
	pollJitter = 0.2
)

// pollTiers are the wishes: how often a visitor up to a position polls when
// there is room. The last tier is split in two of the same wish so that a
// stretch falls on those far from the head, who have the time.
var pollTiers = []struct {
	upTo  int64   // the last position of the tier
	every float64 // s
}{
	{100, 1},
	{1000, 3},
	{10_000, 5},
	{math.MaxInt64, 5},
}

// PollAfter is how long the visitor at position (1 is next) of waiting visitors
// should wait before the next poll: 1 s up to position 100, 3 s up to 1000,
// else 5 s, stretched so that all of them together poll at most budget times a
// second (0 is no budget), and ± 20 % of jitter from r in [0, 1). The answer is
// between 0.8 s and 60 s; the budget cannot be kept when even that is too much.
//
// The budget is given out from the head: each tier has its wish if those behind
// it can still poll at the longest interval, else what they leave. The stretch
// thus falls on the far end first and reaches the head last, and an interval
// never shrinks with the position.
//
// wait is how long the visitor will wait at least ([View.Soonest]), 0 if that is not
// known. Nobody
// is told more than about half of it, or 1 s if that is more: whoever is let in
// learns it soon, and whoever has gone shows it before their turn. This goes over
// the budget, by no more than each visitor polling twice more whenever their wait
// has halved, from the tier's interval on: a few polls on the way to the head.
func PollAfter(position, waiting int64, wait time.Duration, budget, r float64) time.Duration {
	interval := pollInterval(max(1, position), max(1, position, waiting), budget)
	if wait > 0 {
		interval = min(interval, max(1, wait.Seconds()/2))
	}
	return jittered(interval, r)
}

// pollInterval is the interval before jitter, in seconds.
func pollInterval(position, waiting int64, budget float64) float64 {
	const longest = float64(pollMax/time.Second) / (1 + pollJitter)
	if !(budget > 0) {
		budget = math.Inf(1)
	}
	var before int64 // positions in the tiers before this one
	for _, tier := range pollTiers {
		last := min(tier.upTo, waiting)
		count, behind := float64(last-before), float64(waiting-last)
		interval := longest
		if room := budget - behind/longest; room > 0 {
			interval = min(longest, max(tier.every, count/room))
		}
		if position <= last {
			return interval
		}
		budget -= count / interval
		before = last
	}
	return longest // not reached: the last tier has no end
}

// scheduledEvery is how often a visitor of a draw asks when there is room, in s.
const scheduledEvery = 5.0

// PollScheduled is how long a visitor of a draw with so many tickets should wait
// for the next poll when the line opens after opensIn: 5 s, stretched so that all
// of them together poll at most budget times a second (0 is no budget), and ±
// 20 % of jitter from r in [0, 1). The answer is between 0.8 s and 60 s; the
// budget cannot be kept when even that is too much.
//
// The last poll before the opening leads to one after it: at a moment drawn from
// the time that the budget needs for one poll of each, as far as the 60 s reach, so
// that the opening is no stampede. Nobody gains by asking first, since places are
// drawn.
func PollScheduled(opensIn time.Duration, waiting int64, budget, r float64) time.Duration {
	longest := float64(pollMax/time.Second) / (1 + pollJitter)
	each := 0.0 // how long one poll of each takes, s
	if budget > 0 {
		each = float64(max(1, waiting)) / budget
	}
	every := min(longest, max(scheduledEvery, each))
	// The last poll is the one from which the jitter could lead past the opening; but
	// while the 60 s leave no room to spread the next, another round is better.
	last := min(every*(1+pollJitter), max(every*(1-pollJitter), pollMax.Seconds()-each))
	if opensIn.Seconds() > last {
		return jittered(every, r)
	}
	opensIn = max(0, opensIn)
	spread := min(max(1, each), (pollMax - opensIn).Seconds())
	return max(opensIn+seconds(r*spread), jittered(1, r))
}

// jittered moves an interval in seconds by up to a fifth to each side.
func jittered(interval, r float64) time.Duration {
	return seconds(interval * (1 - pollJitter + 2*pollJitter*r))
}
