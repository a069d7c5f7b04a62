// Package simulation is the admission without a network and without a clock: lines,
// visitors and order pools as a list of events in virtual time, steered by the real
// control law and the real division of the capacity. It shows what they do when a
// database becomes slow, stalls, or changes its mind, and draws the pictures of
// docs/control.md.
//
// All times are in seconds since the beginning. A run depends on its scenario alone.
package simulation

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// What is the same in all scenarios, and in the service by default.
const (
	tick       = 0.1  // between two batches
	jitter     = 2.0  // over which a batch's not-before is spread
	poll       = 1.2  // the longest time until a visitor hears of the admission
	viewEvery  = 0.25 // between two snapshots of a line
	roundEvery = 1.0  // between two rounds of law, register and division
	retryAfter = 1.0  // what a refused order is told; up to half of it more is taken
	waitTarget = 0.5
)

// Scenario is a story to be played.
type Scenario struct {
	Name, Title string
	Seconds     float64
	Pools       []Pool
	Lines       []Line
	// Instances is how many queue processes work out the rates, each in its own
	// phase and with its own views; the tick's batch is given by any of them.
	Instances int
	// Late is by how many seconds more than usual views are late, each by chance
	// between 0 and this.
	Late float64
	Seed uint64
	// Log draws it on a logarithmic scale.
	Log bool
	// Phases are the parts of the story that are judged.
	Phases []Phase
}

// Pool is the order side of one process.
type Pool struct {
	Workers int
	// Time is how long a worker needs for a group of n orders begun at a time.
	Time func(r *rand.Rand, at float64, n int) float64
	// GroupCap is the most orders in a group; 0 is one by one.
	GroupCap int
	// Hot is true if all orders are of one product: one group is at work at a time, of
	// all that wait, and the other workers have nothing that they may take.
	Hot bool
	// Joins and Dies are when; Dies 0 is never.
	Joins, Dies float64
	// Backlog and Deadline are those of the service if 0.
	Backlog  int
	Deadline float64
}

// Line is one line and its visitors.
type Line struct {
	Name   string
	Weight int64
	// Crowd is how many visitors per second enter; nil is a line that never ends.
	Crowd func(at float64) float64
	// Conversion is the share of those let in at a time that will order; nil is all.
	Conversion func(at float64) float64
	// Think is what a visitor takes from knowing the admission to ordering, above
	// jitter and poll; nil is nothing.
	Think  func(r *rand.Rand) float64
	Paused func(at float64) bool
}

type event struct {
	at  float64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}

// plant is a run under way.
type plant struct {
	s     Scenario
	rand  *rand.Rand
	now   float64
	queue events
	seq   int

	returning int // refused, and about to try again
	pools     []*pool
	lines     []*line
	instances []*instance
	register  map[string]admission.Report
	record    *Run
}

// start is the time 0 of the clock that the law sees.
var start = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)

func clock(at float64) time.Time {
	return start.Add(time.Duration(math.Round(at * 1e9)))
}

func (p *plant) at(t float64, do func()) {
	p.seq++
	heap.Push(&p.queue, event{max(t, p.now), p.seq, do})
}

// every does something at a phase and from there on at an interval.
func (p *plant) every(phase, interval float64, do func()) {
	p.at(phase, func() {
		do()
		p.every(p.now+interval, interval, do)
	})
}

// Play plays a scenario.
func Play(s Scenario) *Run {
	p := &plant{
		s:        s,
		rand:     rand.New(rand.NewPCG(s.Seed, 1)),
		register: map[string]admission.Report{},
		record:   newRun(s),
	}
	for i, spec := range s.Lines {
		p.lines = append(p.lines, &line{spec: spec, index: i})
	}
	for i, spec := range s.Pools {
		q := newPool(p, spec, i)
		p.pools = append(p.pools, q)
		p.every(spec.Joins+0.13*float64(i), roundEvery, q.round)
	}
	for i := range max(1, s.Instances) {
		in := newInstance(p)
		p.instances = append(p.instances, in)
		phase := 0.3 + 0.37*float64(i)
		p.every(phase/4, viewEvery, in.look)
		p.every(phase, roundEvery, in.round)
	}
	p.every(0.35, tick, p.admit)
	p.every(1, 1, p.note)
	for p.queue.Len() > 0 {
		e := heap.Pop(&p.queue).(event)
		if e.at > s.Seconds {
			break
		}
		p.now = e.at
		e.do()
	}
	p.record.finish()
	return p.record
}

// line is a line of the run.
type line struct {
	spec     Line
	index    int
	waiting  float64
	cohorts  []queue.Cohort
	lag      float64
	carry    float64
	admitted int64
	hungry   bool // the last batch was smaller because nobody waited
}

// admit gives the tick's batch of every line.
func (p *plant) admit() {
	in := p.instances[p.rand.IntN(len(p.instances))]
	for _, l := range p.lines {
		waiting := math.Inf(1)
		if l.spec.Crowd != nil {
			l.waiting += l.spec.Crowd(p.now) * tick
			waiting = math.Floor(l.waiting)
		}
		if l.spec.Paused != nil && l.spec.Paused(p.now) {
			continue
		}
		rate := in.rates.Lines[l.spec.Name].Rate
		l.carry = min(l.carry+rate*tick, max(1, 2*rate*tick))
		n := math.Floor(l.carry)
		l.hungry = waiting < n || waiting == 0
		n = min(n, waiting)
		l.carry -= n
		if l.spec.Crowd != nil {
			l.waiting -= n
		}
		p.letIn(l, int(n))
	}
}

// letIn spreads the visitors of a batch over the jitter, as the line does.
func (p *plant) letIn(l *line, n int) {
	if n == 0 {
		return
	}
	second := clock(p.now).Unix()
	if k := len(l.cohorts); k == 0 || l.cohorts[k-1].Second != second {
		l.cohorts = append(l.cohorts, queue.Cohort{Second: second})
		if len(l.cohorts) > queue.MaxCohorts {
			l.cohorts = l.cohorts[1:]
		}
	}
	l.cohorts[len(l.cohorts)-1].Admitted += int64(n)
	l.admitted += int64(n)
	p.record.admitted(p.now, l.index, n)
	admitted := p.now
	for i := range n {
		if l.spec.Conversion != nil && p.rand.Float64() >= l.spec.Conversion(p.now) {
			continue
		}
		lag := jitter*(float64(i)+p.rand.Float64())/float64(n) + poll*p.rand.Float64()
		if l.spec.Think != nil {
			lag += l.spec.Think(p.rand)
		}
		p.at(p.now+lag, func() {
			l.arrived(second, p.now-admitted)
			p.order()
		})
	}
}

// arrived notes that somebody of a cohort has come to order.
func (l *line) arrived(second int64, lag float64) {
	if l.lag == 0 {
		l.lag = lag
	}
	l.lag += (lag - l.lag) / 32
	for i := len(l.cohorts) - 1; i >= 0; i-- {
		if l.cohorts[i].Second == second {
			l.cohorts[i].Arrived++
			return
		}
	}
}

// order sends an order to one of the processes that take them.
func (p *plant) order() {
	var up []*pool
	for _, q := range p.pools {
		if q.up() {
			up = append(up, q)
		}
	}
	if len(up) == 0 || !up[p.rand.IntN(len(up))].take() {
		p.retry()
	}
}

// retry sends the order of somebody refused again.
func (p *plant) retry() {
	p.record.refused(p.now)
	p.returning++
	p.at(p.now+retryAfter*(1+p.rand.Float64()/2), func() {
		p.returning--
		p.order()
	})
}

// instance is a process that answers polls and works out the rates.
type instance struct {
	p        *plant
	views    map[string]admission.LineState
	admitted map[string]int64 // at the last round
	rates    admission.Rates
}

func newInstance(p *plant) *instance {
	return &instance{p: p, views: map[string]admission.LineState{}, admitted: map[string]int64{}}
}

// look takes a snapshot of each line; it arrives when it arrives.
func (in *instance) look() {
	for _, l := range in.p.lines {
		paused := l.spec.Paused != nil && l.spec.Paused(in.p.now)
		view := admission.LineState{
			Weight:  l.spec.Weight,
			Waits:   (l.spec.Crowd == nil || l.waiting >= 1) && !paused,
			Demand:  float64(l.admitted), // made a rate in round
			Full:    !l.hungry,
			Cohorts: append([]queue.Cohort(nil), l.cohorts...),
			Lag:     time.Duration(l.lag * 1e9),
			At:      clock(in.p.now),
		}
		in.p.at(in.p.now+in.p.rand.Float64()*in.p.s.Late, func() { in.views[l.spec.Name] = view })
	}
}

// round is what a controller does once a second.
func (in *instance) round() {
	var reports []admission.Report
	for _, q := range in.p.pools {
		if r, ok := in.p.register[q.name]; ok && clock(in.p.now).Sub(r.At) < admission.StaleAfter {
			reports = append(reports, r)
		}
	}
	states := map[string]admission.LineState{}
	for name, v := range in.views {
		admitted := int64(v.Demand)
		v.Demand = float64(admitted-in.admitted[name]) / roundEvery
		in.admitted[name] = admitted
		states[name] = v
	}
	in.rates = admission.ShareOut(reports, states)
	if in == in.p.instances[0] {
		in.p.record.rates(in.p.now, in.rates)
	}
}
