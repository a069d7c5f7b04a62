package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/queue"
	"sluice/queue/memqueue"
)

// hall is a line with everything that runs around it, and visitors who behave as
// people do; those who stay order.
type hall struct {
	line       queue.Line
	watch      *queue.Watch
	attendance *queue.Attendance
	done       *admission.Completions
	till       *till
	runs       []func(context.Context) error

	mu    sync.Mutex
	waits []wait // guarded by mu; of those who stayed and were told an estimate
	soon  int    // guarded by mu; admissions that were learnt within 10 s
}

// newHall is of an embedded line that lets in at an operator's rate or, if that is 0,
// as fast as the control law finds that the workers at the till serve, from a first guess.
func newHall(t *testing.T, operators, guess float64, workers int) *hall {
	t.Helper()
	told, log := new(queue.Told), slog.New(slog.DiscardHandler)
	opts := queue.DefaultOptions()
	opts.Told = told
	line, err := memqueue.New("default", opts)
	if err != nil {
		t.Fatal(err)
	}
	if operators > 0 {
		override := &operators
		if _, err := line.Configure(t.Context(), queue.Patch{RateOverride: &override}); err != nil {
			t.Fatal(err)
		}
	}
	h := &hall{
		line: line, watch: queue.NewWatch(line, 250*time.Millisecond, log), attendance: queue.NewAttendance(line, told, log),
		done: admission.NewCompletions(func(string) queue.Line { return line }, log), till: &till{workers: workers},
	}
	controller := admission.NewController(admission.ControllerConfig{
		Register: admission.NewLocalRegister(), Process: "p", Queue: true, Log: log,
		Pool: &admission.Pool{
			Measure: h.till.measure, Describe: func(*admission.OrdersReport) {},
			Law: admission.LawSettings{First: guess, WaitTarget: 500 * time.Millisecond},
		},
		Lines: func() map[string]*queue.Watch { return map[string]*queue.Watch{"default": h.watch} },
	})
	ticker := admission.NewTicker(line, controller.Rater("default"), 100*time.Millisecond, log)
	h.runs = []func(context.Context) error{h.watch.Run, h.attendance.Run, h.done.Run, controller.Run, ticker.Run}
	return h
}

// orderTime is what one order takes a worker.
const orderTime = 500 * time.Millisecond

// till is so many workers who serve one order after the other, first come first served.
type till struct {
	workers int

	mu        sync.Mutex
	free      []time.Time // guarded by mu; when each busy worker is, or will be, free
	completed int64       // guarded by mu; as of the last reading, with what they took:
	worked    time.Duration
}

// order takes the next free worker, and returns when the order is done.
func (s *till) order() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins := time.Now()
	if n := len(s.free); n >= s.workers && s.free[n-s.workers].After(begins) {
		begins = s.free[n-s.workers]
	}
	s.free = append(s.free, begins.Add(orderTime))
	return begins.Add(orderTime)
}

// measure reads the till as the order pool is read.
func (s *till) measure() admission.Measurement {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.free) > 0 && !s.free[0].After(now) {
		s.free = s.free[1:]
		s.completed++
		s.worked += orderTime
	}
	m := admission.Measurement{
		At: now, Workers: s.workers, Busy: min(s.workers, len(s.free)), Backlog: max(0, len(s.free)-s.workers), BacklogLimit: 1000,
		Completed: s.completed, BusyTime: s.worked,
	}
	for _, done := range s.free[:m.Busy] {
		m.BusyTime += orderTime - done.Sub(now)
	}
	return m
}

// wait is what one visitor was told first, and what came of it.
type wait struct {
	arrived, told, low, high, remained time.Duration
}

// good is the promise: within a fifth or five seconds.
func (w wait) good() bool { return (w.told - w.remained).Abs() <= max(w.remained/5, 5*time.Second) }

// visitor is what somebody is going to do.
type visitor struct {
	arrives  time.Duration
	closes   float64       // at which part of the first position they close the tab; 0 is never
	comeBack time.Duration // how long after that they are back; 0 is never
}

func (h *hall) visit(ctx context.Context, v visitor) error {
	time.Sleep(v.arrives)
	st, err := h.line.Enter(ctx, queue.NewID(), nil)
	if err != nil {
		return err
	}
	ticket, judged, closing := st.Ticket, v.closes == 0, int64(v.closes*float64(st.Position))
	var first queue.Estimate
	var told time.Time
	for {
		switch st.State {
		case queue.Admitted:
			h.mu.Lock()
			if judged && !told.IsZero() {
				h.waits = append(h.waits, wait{v.arrives, first.Expected, first.Low, first.High, st.Admission.AdmittedAt.Sub(told)})
			}
			if time.Since(st.Admission.AdmittedAt) <= 10*time.Second {
				h.soon++
			}
			h.mu.Unlock()
			h.buy(st.Admission)
			return nil
		case queue.Waiting:
		default: // an end
			return nil
		}
		view, _ := h.watch.View()
		e, ok := view.Estimate(st.Position)
		if ok && told.IsZero() {
			first, told = e, time.Now()
		}
		pause := queue.PollAfter(st.Position, st.Length, view.Soonest(st.Position), 0, rand.Float64())
		h.attendance.Polled(ticket.Subject, st.Position, pause)
		if v.closes > 0 && st.Position <= closing {
			if v.comeBack == 0 {
				return nil
			}
			pause, v.closes = v.comeBack, 0
		}
		time.Sleep(pause)
		if st, err = h.line.Standing(ctx, ticket); err != nil {
			return err
		}
	}
}

// buy orders as soon as the admission is good, and waits for it.
func (h *hall) buy(a queue.Admission) {
	time.Sleep(time.Until(a.NotBefore))
	h.done.Arrived(a.Line, a.Subject, a.TicketID)
	time.Sleep(time.Until(h.till.order()))
	h.done.Committed(a.Line, a.Subject, a.TicketID)
}

// run lets everybody in and out, and ends when all have left.
func (h *hall) run(t *testing.T, crowd []visitor) {
	ctx, cancel := context.WithCancel(t.Context())
	var around, visits sync.WaitGroup
	for _, run := range h.runs {
		around.Go(func() { _ = run(ctx) })
	}
	for _, v := range crowd {
		visits.Go(func() {
			if err := h.visit(ctx, v); err != nil {
				t.Error(err)
			}
		})
	}
	visits.Wait()
	if s, err := h.line.Snapshot(ctx); err != nil {
		t.Error(err)
	} else {
		t.Logf("%d admitted, %d away; %.1f %% of the admissions were learnt within 10 s", s.Admitted, s.Away, 100*float64(h.soon)/float64(s.Admitted))
	}
	cancel()
	around.Wait()
}

// leavers is a crowd that arrives evenly; three in ten close the tab at some
// moment of their wait, and a third of those are back after 20 s on average.
func leavers(n int, over time.Duration, rnd *rand.Rand) []visitor {
	crowd := make([]visitor, n)
	for i := range crowd {
		v := visitor{arrives: over * time.Duration(i) / time.Duration(n)}
		if rnd.Float64() < 0.3 {
			v.closes = max(1e-6, rnd.Float64())
			if rnd.Float64() < 1.0/3 {
				v.comeBack = max(time.Millisecond, time.Duration(rnd.ExpFloat64()*20*float64(time.Second)))
			}
		}
		crowd[i] = v
	}
	return crowd
}

// TestFirstEstimate is the promise of the estimate: of those who stay, nineteen in
// twenty are told a first figure within a fifth or five seconds of what their wait then
// is, although three in ten of those in front close the tab; and the figures are too
// high as often as too low. At ten a second that are looked for chance weighs more.
func TestFirstEstimate(t *testing.T) {
	for _, c := range []struct {
		perSecond, guess float64 // without a guess the rate is an operator's
		good, inRange    float64
	}{
		{10, 0, 0.95, 0.65}, {20, 0, 0.95, 0.65}, {30, 0, 0.95, 0.75}, {60, 0, 0.95, 0.85},
		{10, 17, 0.90, 0.55}, {20, 14, 0.95, 0.65}, {20, 70, 0.95, 0.65}, {30, 50, 0.95, 0.65}, {60, 100, 0.95, 0.80},
	} {
		name, operators := fmt.Sprintf("%g a second", c.perSecond), c.perSecond
		if c.guess > 0 {
			name, operators = name+fmt.Sprintf(", found from %g", c.guess), 0
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHall(t, operators, c.guess, int(c.perSecond*orderTime.Seconds()))
				h.run(t, leavers(10_000, 2*time.Minute, rand.New(rand.NewPCG(1, 2))))
				h.judge(t, c.good, c.inRange)
			})
		})
	}
}

// judge asks for a share of good first estimates, for waits within their range (with
// waits this short the range is the sharper of the two), and for no bias.
func (h *hall) judge(t *testing.T, share, inRange float64) {
	t.Helper()
	if len(h.waits) < 5000 {
		t.Fatalf("only %d waits to judge", len(h.waits))
	}
	good, within := 0, 0
	var off, part []float64
	const group = 20 * time.Second
	groups := make(map[time.Duration][]float64)
	for _, w := range h.waits {
		if w.good() {
			good++
		}
		if w.low <= w.remained && w.remained <= w.high {
			within++
		}
		wrong := (w.told - w.remained).Seconds()
		off = append(off, wrong)
		part = append(part, wrong/max(1, w.remained.Seconds()))
		groups[w.arrived/group] = append(groups[w.arrived/group], wrong)
	}
	longest := slices.MaxFunc(h.waits, func(a, b wait) int { return cmp.Compare(a.remained, b.remained) }).remained
	n := float64(len(h.waits))
	t.Logf("%.0f waits of up to %.0f s: %.1f %% within 20 %% or 5 s; told minus waited: p5 %+.1f s, median %+.1f s (%+.1f %%), p95 %+.1f s; %.0f %% within their range",
		n, longest.Seconds(), 100*float64(good)/n, at(off, 0.05), at(off, 0.5), 100*at(part, 0.5), at(off, 0.95), 100*float64(within)/n)
	for _, begin := range slices.Sorted(maps.Keys(groups)) {
		t.Logf("arrived %s to %s: told minus waited: median %+.1f s", begin*group, (begin+1)*group, at(groups[begin], 0.5))
	}
	if float64(good)/n < share {
		t.Errorf("%.1f %% of the first estimates were good, want %.0f %%", 100*float64(good)/n, 100*share)
	}
	if float64(within)/n < inRange {
		t.Errorf("%.1f %% of the waits were within their range, want %.0f %%", 100*float64(within)/n, 100*inRange)
	}
	if math.Abs(at(off, 0.5)) > 2 && math.Abs(at(part, 0.5)) > 0.04 {
		t.Errorf("half of the first estimates are off by %+.1f s, %+.1f %%, or more in that direction", at(off, 0.5), 100*at(part, 0.5))
	}
}

// at is a quantile.
func at(samples []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(q*float64(len(sorted)-1))]
}
