package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// world is what a recorder sees: tests change it.
type world struct {
	view     queue.View
	seen     bool
	age      time.Duration
	overview admission.Overview
	problems []uint64
}

func newWorld() *world {
	return &world{
		seen: true, problems: make([]uint64, 2),
		view: queue.View{Snapshot: queue.Snapshot{
			Line: "default", At: time.Unix(1000, 0), LimitedBy: queue.LimitedByCapacity, Settings: queue.Settings{Mode: queue.ModeNormal},
		}},
	}
}

func (w *world) recorder(now func() time.Time) *Recorder {
	return New(Config{
		Now: now,
		Lines: func() []Line {
			return []Line{{"default", func() (queue.View, bool) { return w.view, w.seen }, func() time.Duration { return w.age }}}
		},
		Overview: func() admission.Overview { return w.overview },
		Codes:    []string{"overloaded", "sold_out"},
		Problems: func() []uint64 { return slices.Clone(w.problems) },
	})
}

// steps samples second after second; change may do something before each.
func (w *world) steps(r *Recorder, change ...func(*queue.View)) {
	for _, c := range change {
		w.view.At = w.view.At.Add(time.Second)
		c(&w.view)
		r.sample(w.view.At.Unix())
	}
}

func is(t *testing.T, what string, got Column, want ...float64) {
	t.Helper()
	same := slices.EqualFunc(got, want, func(g float32, w float64) bool {
		return math.IsNaN(float64(g)) && math.IsNaN(w) || math.Abs(float64(g)-w) < .001
	})
	if !same {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var null = math.NaN()

func nothing(*queue.View) {}

func TestFiguresOfALine(t *testing.T) {
	w := newWorld()
	r := w.recorder(nil)
	w.steps(r,
		func(v *queue.View) { v.Waiting, v.Rate = 100, 20 },
		func(v *queue.View) { v.Waiting, v.Admitted = 105, 20 },                       // 25 came
		func(v *queue.View) { v.Waiting, v.Away, v.Left, v.GivenUp = 100, 3, 2, 0 },   // nobody
		func(v *queue.View) { v.Away, v.GivenUp, v.Rate = 1, 2, 10.5 },                // two were given up
		func(v *queue.View) { v.Accuracy = queue.Accuracy{Recent: 2, Error: .25} },    // what was told came out
		func(v *queue.View) { v.Admitted, v.Bypassed, v.Waiting = 530, 500, 90 },      // who was let in without the store is told
		func(v *queue.View) { v.Settings.Mode = queue.ModeBypass },                    // nothing
		func(v *queue.View) { v.Admitted, v.Bypassed = v.Admitted+30, v.Bypassed+30 }, // thirty in a bypass
	)
	h := r.Since("default", 0)
	is(t, "waiting", h.Waiting, 100, 105, 100, 100, 100, 90, 90, 90)
	is(t, "arrivals", h.ArrivalsPerSecond, null, 25, 0, 0, 0, null, 0, 30)
	is(t, "admitted", h.AdmittedPerSecond, null, 20, 0, 0, 0, null, 0, 30)
	is(t, "rate", h.Rate, 20, 20, 20, 10.5, 10.5, 10.5, 10.5, 10.5)
	is(t, "estimate error", h.EstimateError, null, null, null, null, .25, .25, .25, .25)
	if h.From != 1001_000 || h.StepMS != 1000 || h.Line != "default" {
		t.Errorf("%+v", h)
	}
}

// Where the counters begin anew, or nobody knows them, nothing is told.
func TestWhatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(w *world) func(*queue.View)
		waits, counts bool // whether the figures of the second are told
	}{
		"nothing": {func(*world) func(*queue.View) { return nothing }, true, true},
		"a restart": {func(*world) func(*queue.View) {
			return func(v *queue.View) { v.Epoch, v.Waiting = 7, v.Waiting+900 }
		}, true, false},
		"a loss": {func(*world) func(*queue.View) { return func(v *queue.View) { v.Created = v.At } }, true, false},
		"a recovery": {func(*world) func(*queue.View) {
			return func(v *queue.View) { v.HoldUntil = v.At.Add(1); v.Waiting += 5000 }
		}, true, false},
		"counters that went back": {func(*world) func(*queue.View) {
			return func(v *queue.View) { v.Admitted, v.Waiting = v.Admitted-1, v.Waiting+9 }
		}, true, false},
		"a store that does not answer": {func(w *world) func(*queue.View) { w.age = stale; return nothing }, false, false},
		"no view":                      {func(w *world) func(*queue.View) { w.seen = false; return nothing }, false, false},
		"the same view":                {func(*world) func(*queue.View) { return func(v *queue.View) { v.At = v.At.Add(-time.Second) } }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			r := w.recorder(nil)
			w.view.Waiting, w.view.Admitted = 10, 5
			w.steps(r, nothing)
			w.view.At = w.view.At.Add(time.Second)
			second := w.view.At.Unix()
			c.change(w)(&w.view)
			r.sample(second)
			h := r.Since("default", 0)
			if told := known(h.Waiting[1]); told != c.waits {
				t.Errorf("waiting is told: %v", told)
			}
			if told := known(h.ArrivalsPerSecond[1]); told != c.counts || told != known(h.AdmittedPerSecond[1]) {
				t.Errorf("arrivals are told: %v", told)
			}
		})
	}
}

// After an outage the sum of all of it is not what came in its last second.
func TestAfterAnOutage(t *testing.T) {
	w := newWorld()
	r := w.recorder(nil)
	w.steps(r, nothing, nothing)
	w.age = time.Minute
	for range 10 {
		r.sample(w.view.At.Unix() + 1)
	}
	w.age = 0
	w.view.At = w.view.At.Add(9 * time.Second)
	w.view.Admitted += 10_000
	w.steps(r, nothing, func(v *queue.View) { v.Admitted += 3 })
	h := r.Since("default", 0)
	is(t, "admitted", h.AdmittedPerSecond, null, 0, null, null, null, null, null, null, null, null, null, null, 3)
}

func TestFiguresOfTheOrders(t *testing.T) {
	w := newWorld()
	r := w.recorder(nil)
	process := func(name string, capacity float64, p99 time.Duration) admission.Report {
		return admission.Report{Process: name, Orders: &admission.OrdersReport{
			Capacity: capacity, Workers: 10, Busy: 4, Backlog: 3, Work: admission.Percentiles{P50: p99 / 4, P95: p99 / 2, P99: p99},
		}}
	}
	of := func(reports ...admission.Report) func(*queue.View) {
		return func(*queue.View) {
			w.overview.Reports, w.overview.Rates.Capacity = reports, 0
			for _, r := range reports {
				if r.Orders != nil {
					w.overview.Rates.Capacity += r.Orders.Capacity
				}
			}
		}
	}
	w.steps(r, of(process("a", 100, 0)), of(process("a", 90, 40*time.Millisecond), admission.Report{Process: "queue"}, process("b", 50.5, 100*time.Millisecond)),
		of(process("b", 60, 8*time.Millisecond)),
		func(*queue.View) { w.overview.Age = stale }, func(*queue.View) { w.overview.Age = 0; of()(nil) })
	h := r.Since("default", 0)
	is(t, "capacity", h.Capacity, 100, 140.5, 60, null, 0)
	is(t, "workers", h.Workers, 10, 20, 10, null, 0)
	is(t, "busy", h.Busy, 4, 8, 4, null, 0)
	is(t, "backlog", h.Backlog, 3, 6, 3, null, 0)
	is(t, "p50", h.OrderMS.P50, null, 25, 2, null, null)
	is(t, "p95", h.OrderMS.P95, null, 50, 4, null, null)
	is(t, "p99", h.OrderMS.P99, null, 100, 8, null, null)
	if len(h.Processes) != 2 {
		t.Fatalf("%v", h.Processes)
	}
	is(t, "a", h.Processes["a"], 100, 90, null, null, null)
	is(t, "b", h.Processes["b"], null, 50.5, 60, null, null)

	for i := range Seconds {
		w.steps(r, of(process(fmt.Sprint("start ", i), 1, 0)))
	}
	if h = r.Since("default", 0); len(h.Processes) != mostProcesses || h.Processes["a"] != nil {
		t.Errorf("%d processes", len(h.Processes))
	}
}

func TestErrors(t *testing.T) {
	w := newWorld()
	r := w.recorder(nil)
	w.steps(r, nothing, func(*queue.View) { w.problems[1] = 5 }, nothing, func(*queue.View) { w.problems[1] += 2 })
	h := r.Since("default", 0)
	if len(h.Problems) != 1 {
		t.Errorf("%v", h.Problems)
	}
	is(t, "sold_out", h.Problems["sold_out"], 0, 5, 0, 2)
	for range Seconds {
		w.steps(r, nothing)
	}
	if h = r.Since("default", 0); len(h.Problems) != 0 {
		t.Errorf("of 15 minutes ago: %v", h.Problems)
	}
}

// Whoever asks again gets what is new, and no more than 15 minutes.
func TestSince(t *testing.T) {
	w := newWorld()
	r := w.recorder(nil)
	if h := r.Since("default", 0); len(h.Waiting) != 0 {
		t.Errorf("before the first second: %v", h.Waiting)
	}
	count := func(v *queue.View) { v.Waiting++ }
	w.steps(r, count, count, count)
	for after, want := range map[int64][]float64{
		math.MinInt64: {1, 2, 3}, 0: {1, 2, 3}, 1000_999: {1, 2, 3}, 1001_000: {2, 3}, 1001_999: {2, 3}, 1002_000: {3}, 1003_000: {}, 1003_999: {}, 1004_000: {}, math.MaxInt64: {},
	} {
		h := r.Since("default", after)
		is(t, fmt.Sprint("after ", after), h.Waiting, want...)
		if h.From != 1000*(1004-int64(len(want))) {
			t.Errorf("after %d: from %d", after, h.From)
		}
	}
	for range Seconds + 10 {
		w.steps(r, count)
	}
	h := r.Since("default", 0)
	last := float32(Seconds + 13)
	if len(h.Waiting) != Seconds || h.Waiting[0] != last-Seconds+1 || h.Waiting[Seconds-1] != last || h.From != (1000+14)*1000 {
		t.Errorf("%d values from %d: %v … %v", len(h.Waiting), h.From, h.Waiting[0], h.Waiting[len(h.Waiting)-1])
	}
	if h := r.Since("nosuch", 0); len(h.Waiting) != Seconds || known(h.Waiting[0]) {
		t.Error("of a line that is not there something is known")
	}
	// Seconds that were slept through are not those of a quarter of an hour ago.
	w.view.At = w.view.At.Add(4 * time.Second)
	w.steps(r, count)
	is(t, "after a gap", r.Since("default", h.From+(Seconds-2)*1000).Waiting, float64(last), null, null, null, null, float64(last)+1)
	// A clock that went back, or far ahead, begins anew.
	for _, jump := range []time.Duration{2 * time.Hour, -time.Hour, -3 * time.Second} {
		w.view.At = w.view.At.Add(jump)
		w.steps(r, count, count)
		h = r.Since("default", 0)
		is(t, jump.String(), h.Waiting, float64(w.view.Waiting)-1, float64(w.view.Waiting))
		if h.From != 1000*(w.view.At.Unix()-1) {
			t.Errorf("%s: from %d", jump, h.From)
		}
	}
}

func TestColumnJSON(t *testing.T) {
	got, err := json.Marshal(Column{1, unknown, .12345, -0.25, 1e6, float32(math.Inf(1)), 16_000_001})
	if err != nil || string(got) != "[1,null,0.123,-0.25,1000000,null,16000001]" {
		t.Errorf("%s, %v", got, err)
	}
	if got, _ := json.Marshal(Column(nil)); string(got) != "[]" {
		t.Errorf("%s", got)
	}
}

// Each second has its sample, whatever the phase in which it began.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123 * time.Millisecond)
		w := newWorld()
		r := w.recorder(time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		began := time.Now().Unix()
		time.Sleep(20 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h := r.Since("default", 0)
		if len(h.Waiting) < 19 || h.From > 1000*(began+1) {
			t.Errorf("%d samples from %d", len(h.Waiting), h.From-1000*began)
		}
		for i, v := range h.Waiting {
			if !known(v) {
				t.Errorf("second %d has none", i)
			}
		}
	})
}

// What the package says that it costs.
func TestMemory(t *testing.T) {
	if size := 4 * Seconds * len(newLine().all()); size != 18_000 {
		t.Errorf("a line takes %d bytes", size)
	}
	o := newOrders()
	if size := 4 * Seconds * len(o.all()); size != 25_200 {
		t.Errorf("what all share takes %d bytes", size)
	}
}
