package admission

import (
	"math"
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
	// BacklogLimit is the most that may wait; 0 is no limit.
	BacklogLimit int
	// Running is how many units of work the busy workers have in hand: with group
	// commit more than Busy. 0 stands for one each.
	Running int
	// Completed counts the visitors whose work ran to its end, Refused the units of
	// work that got no worker.
	Completed, Refused int64
	// BusyTime is the time all workers together have been at work, or could not be
	// though something waited: one that may not take what waits promises nothing.
	// RepeatTime is the time at work that came to nothing, for visitors who count already
	// or whom the database failed: somebody who repeats the same order takes a worker,
	// but neither is another one served nor shows what one costs. The order after a claim is part of what its
	// visitor costs.
	BusyTime, RepeatTime time.Duration
}

// LawSettings are what the law is told.
type LawSettings struct {
	// First is the capacity to begin with, in orders per second: [FirstGuess].
	First float64
	// WaitTarget is how long an order may wait for a worker.
	WaitTarget time.Duration
}

// LawState is what the law remembers from one measurement to the next. The zero
// value is the state before the first. It holds no pointers: a copy is a state of
// its own.
type LawState struct {
	// Capacity is the finding, in orders per second, and Reason what it rests on.
	Capacity float64
	Reason   LawReason
	// Throughput is orders per second, Utilisation the share of the workers' time
	// that was used, both over the law's window.
	Throughput, Utilisation float64

	// Returning is how many orders were refused so lately that they are on their way
	// back: they are a backlog that the pool does not see.
	Returning int

	past  [readings]Measurement // oldest first
	count int                   // how many of past are filled
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

const (
	// window is how far back the law looks: long enough that a pool of ten workers
	// at a second each has finished ten rounds.
	window = 10 * time.Second
	// spacing keeps the window in few readings, however often the law is asked.
	spacing  = 900 * time.Millisecond
	readings = int(window/spacing) + 2

	// saturated is the utilisation from which a pool counts as busy all the time.
	saturated = 0.98
	// headroom is how far above the workers' pace the law looks for more. The pace
	// of free workers is only a hint: with group commit it rises under load, with a
	// database that contends it falls.
	headroom = 1.2
	probing  = 1.1
	// stretch is how many times what was lately done the capacity may become: it
	// grows only while what it allows is used (as TCP's congestion window does, RFC
	// 2861), and orders follow their admissions by some doublings.
	stretch = 8
	// returnsWithin is the time in which a refused order comes again: it is told to
	// after a second.
	returnsWithin = 1500 * time.Millisecond
	// leastCapacity keeps a trickle of orders coming to a pool that finished none,
	// or nobody would ever find out that it works again.
	leastCapacity = 0.2
)

// Next is the control law of one pool: a pure function. It may be asked at any
// interval; once a second is meant.
//
// A pool whose workers are all busy, or that has a backlog, shows what it can do:
// the orders it finishes per second. One with free workers shows only that it can
// do more; how much more is found by slow start (Jacobson 1988): the capacity
// doubles every second until the workers are busy, but not beyond what their pace
// promises. A pool that finished nothing says nothing, and the last figure stands.
func Next(s LawState, m Measurement, set LawSettings) LawState {
	if s.count == 0 || m.Completed < s.past[s.count-1].Completed {
		s = LawState{Capacity: finite(set.First), Reason: ReasonFirst}
		s.keep(m)
		return s
	}
	last := s.past[s.count-1]
	step := m.At.Sub(last.At).Seconds()
	if step <= 0 {
		return s
	}
	s.read(m)
	rate, used := s.measured(m), utilisation(last, m)
	switch {
	case float64(m.Backlog) > stock(rate, m.Workers, set.WaitTarget, m.BacklogLimit)/4:
		s.Capacity, s.Reason = max(rate, leastCapacity), ReasonMeasured
	case used >= saturated:
		s.Capacity, s.Reason = max(s.grown(m, rate, headroom, step), leastCapacity), ReasonGrowing
	case m.Completed > s.past[0].Completed:
		s.Capacity, s.Reason = s.grown(m, s.pace(m), 1, step), ReasonGrowing
	case s.Reason != ReasonFirst:
		s.Reason = ReasonIdle
	}
	s.keep(m)
	return s
}

// stock is how many orders should wait for a worker at a capacity: half of what
// may, so that workers never run out of orders and waits stay within the target on
// both sides of it. Where an order takes longer than the target it is less, by the root
// of how many times as long: such a pool finishes its orders in lumps, for which those
// that come in between wait in any case. With all of it half of them waited longer than
// the target; with less, in proportion, a tenth of the workers' time was lost.
func stock(capacity float64, workers int, waitTarget time.Duration, limit int) float64 {
	target := max(0, waitTarget.Seconds())
	orders := capacity * target / 2
	if takes := float64(workers) / capacity; takes > target {
		orders *= math.Sqrt(target / takes)
	}
	if limit > 0 {
		orders = min(orders, float64(limit)/2)
	}
	return orders
}

// read fills in what the window shows.
func (s *LawState) read(m Measurement) {
	first := s.past[0]
	s.Throughput = float64(m.Completed-first.Completed) / m.At.Sub(first.At).Seconds()
	s.Utilisation = utilisation(first, m)
	s.Returning = int(max(0, m.Refused-s.before(m, returnsWithin).Refused))
}

// before is the reading that is at least so much older, or the oldest.
func (s *LawState) before(m Measurement, d time.Duration) Measurement {
	i := s.count - 1
	for i > 0 && m.At.Sub(s.past[i].At) < d {
		i--
	}
	return s.past[i]
}

// measured is what busy workers finish per second.
//
// Orders that are begun together end together: ten workers at 1.3 s each finish
// ten orders in one second and none in the next. So the figure is that of the whole
// window, unless a shorter stretch up to now disproves it: within a time t a pool of
// rate r with k orders in its hands finishes between r·t - k and r·t + k. That
// follows a change within a second or two and never mistakes a lump for one.
func (s *LawState) measured(m Measurement) float64 {
	rate, low, high := 0.0, 0.0, math.Inf(1)
	for i := s.count - 1; i >= 0; i-- {
		past := s.past[i]
		t := m.At.Sub(past.At).Seconds()
		done := float64(m.Completed - past.Completed)
		rate = done / t
		slack := float64(max(m.inHand(), past.inHand()))
		atLeast, atMost := (done-slack)/t, (done+slack)/t
		if atLeast > high || atMost < low {
			break // here it was another pool
		}
		rate, low, high = done/t, max(low, atLeast), min(high, atMost)
	}
	return min(max(rate, low), high)
}

// grown is the capacity a step of so many seconds after the last figure, of a pool
// whose workers promise a pace, or 0 for no promise. Up to the pace the capacity
// doubles every second. Beyond it goes by tenths, and only as far as there is room:
// there it is looked for, and a pool that has no more to give must not be overrun.
// It comes down in the same way, if the few who order show that the pool is slower
// than it was.
func (s *LawState) grown(m Measurement, pace, room, step float64) float64 {
	lately := s.before(m, spacing)
	done := float64(m.Completed-lately.Completed) / m.At.Sub(lately.At).Seconds()
	double, tenth := math.Exp2(step), math.Pow(probing, step)
	switch {
	case pace == 0:
		return s.Capacity
	case s.Capacity > headroom*pace:
		return max(headroom*pace, s.Capacity/double)
	case s.Capacity > room*pace:
		return max(room*pace, s.Capacity/tenth)
	case s.Capacity >= pace:
		return min(room*pace, s.Capacity*tenth)
	}
	return min(pace, s.Capacity*double, max(s.Capacity, stretch*done))
}

// pace is what the workers would finish per second if all were as fast as those at
// work lately, over the shortest time that holds a few orders of each; 0 if the
// window holds less than one of each.
func (s *LawState) pace(m Measurement) float64 {
	pace := 0.0
	for i := s.count - 1; i >= 0; i-- {
		done := m.Completed - s.past[i].Completed
		busy := m.BusyTime - s.past[i].BusyTime - (m.RepeatTime - s.past[i].RepeatTime)
		if done < int64(m.Workers) || busy <= 0 {
			continue
		}
		pace = float64(done) / busy.Seconds() * float64(m.Workers)
		if done >= 2*int64(m.Workers) {
			break
		}
	}
	return pace
}

// keep adds a reading to the window. Of readings that are close together the latest
// stands for all, but the one before stays, so that time passes.
func (s *LawState) keep(m Measurement) {
	for s.count > 1 && m.At.Sub(s.past[1].At) >= window {
		s.drop(0)
	}
	if s.count > 1 && m.At.Sub(s.past[s.count-2].At) < spacing {
		s.count--
	}
	if s.count == readings {
		s.drop(0)
	}
	s.past[s.count] = m
	s.count++
}

func (s *LawState) drop(i int) {
	copy(s.past[i:], s.past[i+1:s.count])
	s.count--
	s.past[s.count] = Measurement{}
}

// inHand is how many units of work the workers have begun and not finished.
func (m Measurement) inHand() int { return max(m.Busy, m.Running) }

// utilisation is the share of the workers' time that was used between two readings.
func utilisation(from, to Measurement) float64 {
	available := to.At.Sub(from.At).Seconds() * float64(to.Workers)
	if available <= 0 {
		return 0
	}
	return min(1, max(0, (to.BusyTime-from.BusyTime).Seconds()/available))
}

// finite is x, or 0 for what is no rate.
func finite(x float64) float64 {
	if queue.ValidRate(x) != nil {
		return 0
	}
	return x
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
