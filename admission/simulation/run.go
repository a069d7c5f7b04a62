package simulation

import (
	"math"
	"slices"

	"sluice/admission"
)

// Run is what happened, second by second: index i is the second from i to i+1.
type Run struct {
	Scenario Scenario
	// Admitted is per line; the others are of all pools together. Busy is in workers.
	Admitted                  [][]float64
	Completed, Refused, Busy  []float64
	Backlog, Capacity, Budget []float64 // at the end of the second
	Conversion                []float64 // of the first line, as believed
	waits                     []wait
}

type wait struct{ at, took float64 }

func newRun(s Scenario) *Run {
	n := int(math.Ceil(s.Seconds)) + 1
	r := &Run{Scenario: s}
	for range s.Lines {
		r.Admitted = append(r.Admitted, make([]float64, n))
	}
	for _, series := range []*[]float64{&r.Completed, &r.Refused, &r.Busy, &r.Backlog, &r.Capacity, &r.Budget, &r.Conversion} {
		*series = make([]float64, n)
	}
	return r
}

func (r *Run) admitted(at float64, line, n int) { r.Admitted[line][int(at)] += float64(n) }
func (r *Run) completed(at float64, n int)      { r.Completed[int(at)] += float64(n) }
func (r *Run) refused(at float64)               { r.Refused[int(at)]++ }
func (r *Run) began(at, took float64)           { r.waits = append(r.waits, wait{at, took}) }
func (r *Run) rates(at float64, x admission.Rates) {
	r.Capacity[int(at)], r.Budget[int(at)] = x.Capacity, x.Budget
	r.Conversion[int(at)] = x.Lines[r.Scenario.Lines[0].Name].Conversion
}

// busy adds the time that n workers worked, to each second its part.
func (r *Run) busy(from, to float64, n int) {
	for from < to && n > 0 {
		end := min(to, math.Floor(from)+1)
		r.Busy[int(from)] += float64(n) * (end - from)
		from = end
	}
}

// note reads the backlog at the end of a second.
func (p *plant) note() {
	second := int(math.Round(p.now)) - 1
	for _, q := range p.pools {
		q.expire()
		q.advance()
		p.record.Backlog[second] += float64(len(q.waiting))
	}
	p.record.Backlog[second] += float64(p.returning)
}

func (r *Run) finish() {
	n := int(r.Scenario.Seconds)
	for i := range r.Admitted {
		r.Admitted[i] = r.Admitted[i][:n]
	}
	for _, series := range []*[]float64{&r.Completed, &r.Refused, &r.Busy, &r.Backlog, &r.Capacity, &r.Budget, &r.Conversion} {
		*series = (*series)[:n]
	}
}

// mean is that of a series over the seconds from and up to to.
func mean(series []float64, from, to int) float64 {
	sum := 0.0
	for _, x := range series[from:to] {
		sum += x
	}
	return sum / float64(to-from)
}

// Wait is a percentile of what orders waited that got their worker between two
// times, in seconds; 0 if none did.
func (r *Run) Wait(percentile float64, from, to int) float64 {
	var took []float64
	for _, w := range r.waits {
		if w.at >= float64(from) && w.at < float64(to) {
			took = append(took, w.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(percentile*float64(len(took))))]
}

// workers is how many work in a second.
func (r *Run) workers(second int) float64 {
	n := 0
	for _, q := range r.Scenario.Pools {
		if float64(second) >= q.Joins && (q.Dies == 0 || float64(second) < q.Dies) {
			n += q.Workers
		}
	}
	return float64(n)
}

// Phase is a part of a scenario that begins with a change and is judged.
type Phase struct {
	Name     string
	From, To float64
	// Closed is what the same pools finish per second when orders never run out.
	Closed float64
	// Allow is after how many seconds it is judged, 0 for 10.
	Allow float64
}

func (ph Phase) allow() int {
	if ph.Allow == 0 {
		return 10
	}
	return int(ph.Allow)
}

// Verdict is how a phase went.
type Verdict struct {
	Phase
	// Gone is when the backlog that the change brought was down to what may wait, and
	// Settled when from then on, for ten seconds, the orders per second were 90 % of
	// the closed loop's and 95 % of the waits within the target; both in seconds after
	// the change, Settled below 0 if never.
	Gone, Settled float64
	// Peak is the largest backlog, in orders, and Worst the longest wait for a worker.
	Peak, Worst float64
	// Throughput is the share of the closed loop's, Utilisation that of the workers'
	// time, over the 20 s that follow the allowed time after the change or, if later, after
	// the backlog is gone; P50 and P95 are the waits then.
	Throughput, Utilisation, P50, P95 float64
	// Least and Most are the lowest and the highest admissions per second, of five
	// seconds together; Before is the mean until the backlog is gone.
	Least, Most, Before float64
}

// Judge looks at a phase.
func (r *Run) Judge(ph Phase) Verdict {
	v := Verdict{Phase: ph, Settled: -1}
	from, to := int(ph.From), int(ph.To)
	all := make([]float64, len(r.Completed))
	for _, line := range r.Admitted {
		for i, n := range line {
			all[i] += n
		}
	}
	v.Peak = slices.Max(r.Backlog[from:to])
	v.Worst = r.Wait(1, from, to)
	gone := r.gone(from, to, ph.Closed)
	v.Gone = float64(gone - from)
	if gone > from {
		v.Before = mean(all, from+3, max(from+4, gone-1))
	}
	v.Least = math.Inf(1)
	for i := from; i+5 <= to; i++ {
		rate := mean(all, i, i+5)
		v.Least, v.Most = min(v.Least, rate), max(v.Most, rate)
	}
	for i := from; i+10 <= to; i++ {
		if mean(r.Completed, i, i+10) >= 0.9*ph.Closed && r.Wait(0.95, i, i+10) <= waitTarget {
			v.Settled = float64(i - from)
			break
		}
	}
	if a := gone + ph.allow(); a+20 <= to {
		v.Throughput = mean(r.Completed, a, a+20) / ph.Closed
		v.Utilisation = mean(r.Busy, a, a+20) / r.workers(a)
		v.P50, v.P95 = r.Wait(0.5, a, a+20), r.Wait(0.95, a, a+20)
	}
	return v
}

// gone is the second from which on a backlog larger than what may wait, if there
// is one, is there no more.
func (r *Run) gone(from, to int, closed float64) int {
	limit := max(2, closed*waitTarget)
	for i := from; i < min(from+5, to); i++ {
		if r.Backlog[i] <= limit {
			continue
		}
		for ; i < to; i++ {
			if r.Backlog[i] <= limit {
				return i + 1
			}
		}
		return to
	}
	return from
}
