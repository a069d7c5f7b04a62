// Package history keeps what an operator wants to see of the last quarter of an hour, a
// value a second, in this process: nothing of it outlives the process or is shared.
//
// A line costs 18 KB, whoever waits in it; what all lines share costs 25 KB, and 3.6 KB
// more for each order process (at most 32 of them) and each problem code.
package history

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/admission"
	"sluice/queue"
)

const (
	// stale is the age from which a reading counts as none.
	stale = 3 * time.Second
	// mostProcesses bounds the order processes that are told apart.
	mostProcesses = 32
)

// Line is a line as a [Recorder] reads it.
type Line struct {
	ID string
	// View is its latest reading, and Age how old that is.
	View func() (queue.View, bool)
	Age  func() time.Duration
}

// Config is what a [Recorder] reads. All of it must answer at once.
type Config struct {
	// Now is the time of the lines.
	Now func() time.Time
	// Lines are those there are; they may become more.
	Lines func() []Line
	// Overview is what the admission knows; nil is nothing.
	Overview func() admission.Overview
	// Codes are those of the problems that are counted, and Problems how many of each
	// were answered so far, in the same order.
	Codes    []string
	Problems func() []uint64
}

// Recorder keeps the history. Safe for concurrent use.
type Recorder struct {
	cfg Config

	mu          sync.Mutex
	first, last int64            // seconds, of what is kept; last is before first while nothing is; guarded by mu
	lines       map[string]*line // guarded by mu
	orders      orders           // guarded by mu
	problems    []*series        // by code; guarded by mu
	counted     []uint64         // of each code at the last sample; guarded by mu
}

// New makes one that has seen nothing yet.
func New(cfg Config) *Recorder {
	r := &Recorder{cfg: cfg, last: -1, lines: map[string]*line{}, orders: newOrders(), counted: make([]uint64, len(cfg.Codes))}
	for range cfg.Codes {
		r.problems = append(r.problems, newSeries())
	}
	return r
}

// Run takes a sample in the middle of each second until ctx ends; then it returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		now := r.cfg.Now()
		timer := time.NewTimer(now.Truncate(time.Second).Add(1500 * time.Millisecond).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		r.sample(r.cfg.Now().Unix())
	}
}

// sample takes in the second that is now. One that has been is left alone; where the
// clock went back, or everything kept is too old, the history begins anew.
func (r *Recorder) sample(second int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := second - r.last
	if empty := r.last < r.first; empty || passed < 0 || passed >= Seconds {
		r.first, passed = second, Seconds
	} else if passed == 0 {
		return
	}
	from := second - passed + 1
	r.last, r.first = second, max(r.first, second-Seconds+1)
	for _, s := range r.all() {
		s.clear(from, passed)
	}
	for _, l := range r.cfg.Lines() {
		if r.lines[l.ID] == nil {
			r.lines[l.ID] = newLine()
		}
		r.lines[l.ID].sample(second, l)
	}
	if r.cfg.Overview != nil {
		r.orders.sample(second, r.cfg.Overview())
	}
	for i, total := range r.cfg.Problems() {
		// Over a second that had no sample the sum is told as of the one that has.
		r.problems[i].set(second, float64(total-r.counted[i]))
		r.counted[i] = total
	}
}

// all are the series that there are. The caller holds mu.
func (r *Recorder) all() []*series {
	all := slices.Concat(r.problems, r.orders.all())
	for _, l := range r.lines {
		all = append(all, l.all()...)
	}
	return all
}

// Columns is the history of one line from a second on, in the form in which it is
// told. All columns are equally long.
type Columns struct {
	Line   string `json:"line"`
	StepMS int64  `json:"step_ms"`
	From   int64  `json:"from"` // Unix time of the first values, in ms
	lineColumns
	orderColumns
	// Problems are how many were answered in each second, of the codes that were at all.
	Problems map[string]Column `json:"errors"`
}

// Since is the history of a line after a time, in Unix ms. Of a line that is new, or not
// there, nothing is known.
func (r *Recorder) Since(id string, after int64) Columns {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.first
	if after >= first*1000 {
		first = min(after/1000, r.last) + 1
	}
	l := r.lines[id]
	if l == nil {
		l = newLine()
	}
	out := Columns{
		Line: id, StepMS: 1000, From: first * 1000,
		lineColumns: l.columns(first, r.last), orderColumns: r.orders.columns(first, r.last),
		Problems: map[string]Column{},
	}
	for i, code := range r.cfg.Codes {
		if s := r.problems[i]; s.any(func(v float32) bool { return v > 0 }) {
			out.Problems[code] = s.column(first, r.last)
		}
	}
	return out
}

// orders is what all lines share: the order side, by its reports.
type orders struct {
	capacity, workers, busy, backlog, p50, p95, p99 *series
	processes                                       map[string]*series
}

func newOrders() orders {
	return orders{
		capacity: newSeries(), workers: newSeries(), busy: newSeries(), backlog: newSeries(),
		p50: newSeries(), p95: newSeries(), p99: newSeries(), processes: map[string]*series{},
	}
}

func (o *orders) all() []*series {
	fixed := []*series{o.capacity, o.workers, o.busy, o.backlog, o.p50, o.p95, o.p99}
	return slices.AppendSeq(fixed, maps.Values(o.processes))
}

func (o *orders) sample(second int64, now admission.Overview) {
	maps.DeleteFunc(o.processes, func(_ string, s *series) bool { return !s.any(known) })
	if now.Age >= stale {
		return
	}
	var workers, busy, backlog int
	var slowest admission.Percentiles
	for _, report := range now.Reports {
		p := report.Orders
		if p == nil {
			continue
		}
		workers, busy, backlog = workers+p.Workers, busy+p.Busy, backlog+p.Backlog
		slowest.P50, slowest.P95, slowest.P99 = max(slowest.P50, p.Work.P50), max(slowest.P95, p.Work.P95), max(slowest.P99, p.Work.P99)
		if o.processes[report.Process] == nil && len(o.processes) < mostProcesses {
			o.processes[report.Process] = newSeries()
		}
		if s := o.processes[report.Process]; s != nil {
			s.set(second, p.Capacity)
		}
	}
	o.capacity.set(second, now.Rates.Capacity)
	o.workers.set(second, float64(workers))
	o.busy.set(second, float64(busy))
	o.backlog.set(second, float64(backlog))
	if slowest.P99 > 0 { // else no order was made lately
		o.p50.set(second, ms(slowest.P50))
		o.p95.set(second, ms(slowest.P95))
		o.p99.set(second, ms(slowest.P99))
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

type orderColumns struct {
	Capacity  Column            `json:"capacity"`
	Workers   Column            `json:"workers"`
	Busy      Column            `json:"busy"`
	Backlog   Column            `json:"backlog"`
	OrderMS   latencyColumns    `json:"order_ms"`
	Processes map[string]Column `json:"processes"`
}

type latencyColumns struct {
	P50 Column `json:"p50"`
	P95 Column `json:"p95"`
	P99 Column `json:"p99"`
}

func (o *orders) columns(first, last int64) orderColumns {
	out := orderColumns{
		Capacity: o.capacity.column(first, last), Workers: o.workers.column(first, last),
		Busy: o.busy.column(first, last), Backlog: o.backlog.column(first, last),
		OrderMS:   latencyColumns{o.p50.column(first, last), o.p95.column(first, last), o.p99.column(first, last)},
		Processes: make(map[string]Column, len(o.processes)),
	}
	for name, s := range o.processes {
		out.Processes[name] = s.column(first, last)
	}
	return out
}
