package admission

import (
	"maps"
	"math"
	"slices"
	"time"

	"sluice/queue"
)

// LineState is what the rates need to know of one line.
type LineState struct {
	Weight int64
	// Waits is true if somebody waits there who could be let in: the line is
	// open, not paused and not recovering.
	Waits bool
	// Override is the operator's rate, or nil.
	Override *float64
	// Demand is how many admissions per second the line used lately; a line that
	// could have used more, because it was not empty, has Full set.
	Demand float64
	Full   bool
	// Cohorts and Lag are the line's own record of who came to order.
	Cohorts []queue.Cohort
	Lag     time.Duration
	At      time.Time // the store's time of these figures
}

// LineRate is how fast one line may let visitors in.
type LineRate struct {
	Rate  float64 // admissions per second
	Why   queue.LimitedBy
	Share float64 // of the capacity, 0 to 1
	Outlook
}

// Rates is how the capacity is given out, with every figure that led to it.
type Rates struct {
	// Capacity is the sum of the live processes', in orders per second.
	Capacity float64
	// InPipe is how many orders wait for a worker or are expected of those let
	// in; Target is how many there should be.
	InPipe, Target float64
	// Budget is how many orders per second are called for: the capacity and what
	// brings InPipe to the Target.
	Budget float64
	Lines  map[string]LineRate
}

const (
	// settle is the time in which what is missing in the pipe, or too much in it, is
	// made up for. It must be longer than the figures are late: by a snapshot and a
	// report, together more than a second.
	settle = 2 * time.Second
	// limitedBelow is the share of the capacity below which a budget counts as
	// bounded by the backlog.
	limitedBelow = 0.8
	// claim is how much more than it used lately a line that nobody had to wait in
	// may use, and probe the share of its fair part that it keeps in any case.
	claim, probe = 1.2, 0.02
)

// ShareOut gives the capacity of the live processes to the lines: a pure function
// of what all processes see alike, so that no two of them disagree.
//
// It is a base-stock rule: the orders in the pipe, waiting for a worker or expected
// of those let in, are held at the target, which is what passes through the pipe at
// full capacity (Little 1961) and half of what may wait. Whoever is let in counts at
// once and not only when the order comes, as in a Smith predictor; so nothing is let
// in twice because it was not seen yet.
func ShareOut(reports []Report, lines map[string]LineState) Rates {
	out := Rates{Lines: make(map[string]LineRate, len(lines))}
	waiting := 0.0 // orders that may wait for a worker
	for _, r := range reports {
		if r.Orders == nil || queue.ValidRate(r.Orders.Capacity) != nil {
			continue
		}
		out.Capacity += r.Orders.Capacity
		out.InPipe += float64(max(0, r.Orders.Backlog) + max(0, r.Orders.Returning))
		waiting += stock(r.Orders.Capacity, r.Orders.Workers, r.Orders.WaitTarget, r.Orders.BacklogLimit)
	}
	shares := claims(lines)
	for _, c := range shares {
		out.InPipe += c.outlook.Pending
	}
	out.Target = waiting
	for i, flow := range fill(out.Capacity, shares) {
		if out.Capacity > 0 {
			shares[i].share = flow / out.Capacity
		}
		out.Target += flow * shares[i].outlook.underway
	}
	out.Budget = max(0, out.Capacity+(out.Target-out.InPipe)/settle.Seconds())
	if out.Capacity == 0 {
		out.Target, out.Budget = 0, 0
	}
	why := queue.LimitedByCapacity
	if out.Budget < limitedBelow*out.Capacity {
		why = queue.LimitedByBacklog
	}
	for i, flow := range fill(out.Budget, shares) {
		c := shares[i]
		rate := LineRate{Rate: flow / c.outlook.Conversion, Why: why, Share: c.share, Outlook: c.outlook}
		if c.override != nil {
			rate.Rate, rate.Why = *c.override, queue.LimitedByOverride
		}
		rate.Rate = min(rate.Rate, queue.MaxRate)
		out.Lines[c.id] = rate
	}
	return out
}

// lineClaim is what one line asks for, in orders per second.
type lineClaim struct {
	id       string
	weight   float64
	uses     float64 // infinite for a line in which people wait
	override *float64
	outlook  Outlook
	share    float64
}

// claims are those of all lines, in the order of their names: sums of floats depend
// on their order, and all processes must come to the same.
func claims(lines map[string]LineState) []lineClaim {
	var cs []lineClaim
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		l := lines[id]
		c := lineClaim{id: id, weight: float64(max(1, l.Weight)), outlook: outlookOf(l)}
		c.uses = claim * max(0, finite(l.Demand)) * c.outlook.Conversion
		if l.Waits && l.Full {
			c.uses = math.Inf(1)
		}
		if l.Override != nil {
			override := min(finite(*l.Override), queue.MaxRate)
			c.override, c.uses = &override, min(c.uses, override*c.outlook.Conversion)
		}
		cs = append(cs, c)
	}
	return cs
}

// fill gives out so many orders per second: first what operators have decided, then
// by weight. A line that cannot use its part gets what it can, and the others
// theirs of the rest; what nobody can use is there for all by weight, so that who
// comes to an empty line need not wait.
func fill(total float64, cs []lineClaim) []float64 {
	flows := make([]float64, len(cs))
	var open []int // not satisfied yet
	weights, rest := 0.0, total
	for i, c := range cs {
		if c.override != nil {
			flows[i] = min(c.uses, rest)
			rest -= flows[i]
			continue
		}
		open = append(open, i)
		weights += c.weight
	}
	fair, all := rest, open
	least := func(i int) float64 { return max(cs[i].uses, probe*fair*cs[i].weight/weights) }
	for left := weights; len(open) > 0 && rest > 0; {
		level := rest / left
		more := open[:0:0]
		for _, i := range open {
			if least(i) > level*cs[i].weight {
				more = append(more, i)
				continue
			}
			flows[i] = least(i)
			rest -= flows[i]
			left -= cs[i].weight
		}
		if len(more) == len(open) {
			for _, i := range open {
				flows[i] = level * cs[i].weight
			}
			return flows
		}
		open = more
	}
	for _, i := range all {
		flows[i] += max(0, rest) * cs[i].weight / weights
	}
	return flows
}
