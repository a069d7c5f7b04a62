package queue_test

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
	"sluice/queue/memqueue"
)

// hall is a line with everything that runs around it, and visitors who behave as
// people do.
type hall struct {
	line       queue.Line
	watch      *queue.Watch
	attendance *queue.Attendance
	rate       func(since time.Duration) float64 // admissions/s

	mu    sync.Mutex
	waits []wait // guarded by mu; of those who stayed and were told an estimate
	soon  int    // guarded by mu; admissions that were learnt within 10 s
}

// wait is what one visitor was told first, and what came of it.
type wait struct {
	told, low, high, remained time.Duration
}

// good is the promise: within a fifth or five seconds.
func (w wait) good() bool { return (w.told - w.remained).Abs() <= max(w.remained/5, 5*time.Second) }

// visitor is what somebody is going to do.
type visitor struct {
	arrives  time.Duration
	closes   float64       // at which part of the wait they close the tab; 1 is never
	comeBack time.Duration // how long after that they are back; 0 is never
}

func (h *hall) visit(ctx context.Context, v visitor) error {
	time.Sleep(v.arrives)
	st, err := h.line.Enter(ctx, queue.NewID(), nil)
	if err != nil {
		return err
	}
	ticket, entered, judged := st.Ticket, time.Now(), v.closes == 1
	closing := time.Duration(v.closes * float64(st.Position) / h.rate(v.arrives) * float64(time.Second))
	var first queue.Estimate
	var told time.Time
	for {
		switch st.State {
		case queue.Admitted:
			h.mu.Lock()
			if judged && !told.IsZero() {
				h.waits = append(h.waits, wait{first.Expected, first.Low, first.High, st.Admission.AdmittedAt.Sub(told)})
			}
			if time.Since(st.Admission.AdmittedAt) <= 10*time.Second {
				h.soon++
			}
			h.mu.Unlock()
			return h.line.Spend(ctx, []queue.Completion{{Subject: ticket.Subject, TicketID: ticket.ID}})
		case queue.Waiting:
		default: // an end
			return nil
		}
		view, _ := h.watch.View()
		e, ok := view.Estimate(st.Position)
		if ok && told.IsZero() {
			first, told = e, time.Now()
		}
		poll := queue.PollAfter(st.Position, st.Length, e.Expected, 0, rand.Float64())
		h.attendance.Polled(ticket.Subject, st.Position, poll)
		time.Sleep(poll)
		if v.closes < 1 && time.Since(entered) > closing {
			if v.comeBack == 0 {
				return nil
			}
			time.Sleep(v.comeBack)
			v.closes = 1
		}
		if st, err = h.line.Standing(ctx, ticket); err != nil {
			return err
		}
	}
}

// run lets everybody in and out, and ends when all have left.
func (h *hall) run(t *testing.T, crowd []visitor) {
	ctx, cancel := context.WithCancel(t.Context())
	var around, visits sync.WaitGroup
	around.Go(func() { _ = h.watch.Run(ctx) })
	around.Go(func() { _ = h.attendance.Run(ctx) })
	around.Go(func() {
		began, ticks := time.Now(), time.NewTicker(100*time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				if _, err := h.line.Admit(ctx, h.rate(time.Since(began)), queue.LimitedByCapacity); err != nil {
					t.Error(err)
				}
			}
		}
	})
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

// newHall is of an embedded line that lets in at the rate.
func newHall(t *testing.T, rate func(time.Duration) float64) *hall {
	t.Helper()
	told, log := new(queue.Told), slog.New(slog.DiscardHandler)
	opts := queue.DefaultOptions()
	opts.Told = told
	line, err := memqueue.New("default", opts)
	if err != nil {
		t.Fatal(err)
	}
	return &hall{
		line: line, watch: queue.NewWatch(line, 250*time.Millisecond, log),
		attendance: queue.NewAttendance(line, told, log), rate: rate,
	}
}

// leavers is a crowd that arrives evenly; three in ten close the tab at some
// moment of their wait, and a third of those are back after 20 s on average.
func leavers(n int, over time.Duration, rnd *rand.Rand) []visitor {
	crowd := make([]visitor, n)
	for i := range crowd {
		v := visitor{arrives: over * time.Duration(i) / time.Duration(n), closes: 1}
		if rnd.Float64() < 0.3 {
			v.closes = rnd.Float64()
			if rnd.Float64() < 1.0/3 {
				v.comeBack = time.Duration(rnd.ExpFloat64() * 20 * float64(time.Second))
			}
		}
		crowd[i] = v
	}
	return crowd
}

// TestFirstEstimate is the promise of the estimate: of those who stay, nine in ten
// are told a first figure within a fifth or five seconds of what their wait then
// is, although three in ten of those in front close the tab.
func TestFirstEstimate(t *testing.T) {
	for _, c := range []struct {
		name string
		rate func(since time.Duration) float64
	}{
		{"an even rate", func(time.Duration) float64 { return 60 }},
		{"long waits", func(time.Duration) float64 { return 30 }},
		{"a rate that is found, and shakes", func(since time.Duration) float64 {
			return min(60, 5+10*since.Seconds()) * (0.9 + 0.2*float64(since/time.Second*7919%11)/10)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall(t, c.rate)
				h.run(t, leavers(10_000, 2*time.Minute, rand.New(rand.NewPCG(1, 2))))
				h.judge(t, 0.90, 0.75)
			})
		})
	}
}

// judge asks for a share of good first estimates, and of waits within their range:
// with waits this short the range is the sharper of the two.
func (h *hall) judge(t *testing.T, share, inRange float64) {
	t.Helper()
	if len(h.waits) < 5000 {
		t.Fatalf("only %d waits to judge", len(h.waits))
	}
	good, within := 0, 0
	var off []float64
	for _, w := range h.waits {
		if w.good() {
			good++
		}
		if w.low <= w.remained && w.remained <= w.high {
			within++
		}
		off = append(off, (w.told - w.remained).Seconds())
	}
	slices.Sort(off)
	longest := slices.MaxFunc(h.waits, func(a, b wait) int { return cmp.Compare(a.remained, b.remained) }).remained
	n := float64(len(h.waits))
	at := func(q float64) float64 { return off[int(q*(n-1))] }
	t.Logf("%.0f waits of up to %.0f s: %.1f %% within 20 %% or 5 s; told minus waited: p5 %+.1f s, median %+.1f s, p95 %+.1f s; %.0f %% within their range",
		n, longest.Seconds(), 100*float64(good)/n, at(0.05), at(0.5), at(0.95), 100*float64(within)/n)
	if float64(good)/n < share {
		t.Errorf("%.1f %% of the first estimates were good, want %.0f %%", 100*float64(good)/n, 100*share)
	}
	if float64(within)/n < inRange {
		t.Errorf("%.1f %% of the waits were within their range, want %.0f %%", 100*float64(within)/n, 100*inRange)
	}
}
