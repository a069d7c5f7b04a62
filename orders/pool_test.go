package orders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

// runningPool is a pool inside a synctest bubble, stopped when the test ends.
func runningPool(t *testing.T, opts PoolOptions) (p *Pool, stop func()) {
	t.Helper()
	p, err := NewPool(opts, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return p, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func sleepWork(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("a refused unit of work ran")
		return nil
	}
}

func TestPoolRunsNoMoreThanItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 3, Backlog: 100, Deadline: time.Minute})
		var now, most atomic.Int64
		start := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				err := p.Do(t.Context(), func(context.Context) error {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 || time.Since(start) != 10*time.Second {
			t.Errorf("%d at once, in %v", most.Load(), time.Since(start))
		}
		stop()
	})
}

func TestPoolIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 1, Backlog: 100, Deadline: time.Minute})
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_ = p.Do(t.Context(), func(context.Context) error {
					order = append(order, i)
					time.Sleep(time.Second)
					return nil
				})
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("order %v", order)
		}
		stop()
	})
}

func TestPoolRefusesAtOnceWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 1, Backlog: 2, Deadline: time.Minute})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = p.Do(t.Context(), sleepWork(time.Second)) })
		}
		synctest.Wait()
		start := time.Now()
		if err := p.Do(t.Context(), never(t)); !errors.Is(err, ErrOverloaded) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		s := p.Stats()
		if s.Busy != 1 || s.Backlog != 2 || s.Refused != 1 || s.BacklogPeak != 2 {
			t.Errorf("stats %+v", s)
		}
		wg.Wait()
		stop()
	})
}

func TestPoolDeadlineBoundsTheWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 1, Backlog: 1, Deadline: 10 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.Do(t.Context(), sleepWork(time.Hour)); err != nil {
				t.Errorf("a long unit of work: %v", err)
			}
		})
		synctest.Wait()
		start := time.Now()
		if err := p.Do(t.Context(), never(t)); !errors.Is(err, ErrOverloaded) || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// The abandoned one has left the backlog: there is room for another.
		if n := p.Stats().Backlog; n != 0 {
			t.Errorf("backlog %d", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Do(ctx, never(t)); !errors.Is(err, ErrOverloaded) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended context: %v", err)
		}
		wg.Wait()
		stop()
	})
}

func TestPoolRefusesAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 1, Backlog: 1, Deadline: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Do(ctx, never(t)); !errors.Is(err, ErrOverloaded) {
			t.Error(err)
		}
		stop()
	})
}

func TestPoolSurvivesPanics(t *testing.T) {
	var logged bytes.Buffer
	p, err := NewPool(PoolOptions{Workers: 1, Deadline: time.Second}, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the worker is free again each time
		if err := p.Do(t.Context(), func(context.Context) error { panic("out of paper") }); err == nil || errors.Is(err, ErrOverloaded) {
			t.Fatalf("panic became %v", err)
		}
	}
	if text := logged.String(); !strings.Contains(text, "out of paper") || !strings.Contains(text, "TestPoolSurvivesPanics") {
		t.Errorf("log without the panic and its stack: %s", text)
	}
	want := errors.New("work failed")
	if err := p.Do(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
		t.Errorf("the work's own error became %v", err)
	}
}

// TestPoolStops has one at work and three waiting: the one goes on to its end,
// the others are told in the same instant.
func TestPoolStops(t *testing.T) {
	for name, byContext := range map[string]bool{"by Stop": false, "by its context": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, stop := runningPool(t, PoolOptions{Workers: 1, Backlog: 5, Deadline: time.Minute})
				var done, refused atomic.Int64
				running := make(chan struct{})
				go func() {
					_ = p.Do(t.Context(), func(context.Context) error {
						close(running)
						time.Sleep(4 * time.Second)
						done.Add(1)
						return nil
					})
				}()
				<-running
				for range 3 {
					go func() {
						if err := p.Do(t.Context(), never(t)); errors.Is(err, ErrStopping) && !errors.Is(err, ErrOverloaded) {
							refused.Add(1)
						}
					}()
				}
				synctest.Wait()
				start := time.Now()
				stopped := make(chan struct{})
				if !byContext {
					p.Stop()
					p.Stop() // changes nothing
				}
				go func() { stop(); close(stopped) }()
				synctest.Wait()
				if refused.Load() != 3 || p.Stats().Backlog != 0 || p.Stats().Refused != 3 || time.Since(start) != 0 {
					t.Errorf("%d refused after %v, %+v", refused.Load(), time.Since(start), p.Stats())
				}
				if err := p.Do(t.Context(), never(t)); !errors.Is(err, ErrStopping) {
					t.Errorf("a newcomer to a stopped pool: %v", err)
				}
				<-stopped
				if done.Load() != 1 || time.Since(start) != 4*time.Second {
					t.Errorf("%d done, drained in %v", done.Load(), time.Since(start))
				}
			})
		})
	}
}

// TestPoolUnderRaces lets deadlines, contexts and workers meet at the same
// instants and checks that each submission ran exactly if it was not refused.
func TestPoolUnderRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 4, Backlog: 20, Deadline: 5 * time.Millisecond})
		const n = 2000
		var ran, kept, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(rand.IntN(n/2)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(8))*time.Millisecond)
				defer cancel()
				mine := false
				err := p.Do(ctx, func(context.Context) error {
					mine = true
					ran.Add(1)
					time.Sleep(time.Duration(1+rand.IntN(4)) * time.Millisecond)
					if i%100 == 0 {
						panic("now and then")
					}
					return nil
				})
				switch {
				case errors.Is(err, ErrOverloaded) && !mine:
					refused.Add(1)
				case !errors.Is(err, ErrOverloaded) && mine:
					kept.Add(1)
				default:
					t.Errorf("ran %v but got %v", mine, err)
				}
			})
		}
		wg.Wait()
		s := p.Stats()
		if ran.Load() != kept.Load() || ran.Load()+refused.Load() != n || refused.Load() == 0 {
			t.Errorf("%d ran, %d kept, %d refused of %d", ran.Load(), kept.Load(), refused.Load(), n)
		}
		if s.Completed != ran.Load() || s.Refused != refused.Load() || s.Busy != 0 || s.Backlog != 0 {
			t.Errorf("stats %+v", s)
		}
		stop()
	})
}

func TestPoolStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 2, Backlog: 5, Deadline: time.Minute})
		if s := p.Stats(); s.Work != (Latency{}) || s.BusyTime != 0 || s.Workers != 2 || s.BacklogLimit != 5 {
			t.Errorf("unused: %+v", s)
		}
		for range 3 {
			go func() { _ = p.Do(t.Context(), sleepWork(2*time.Second)) }()
		}
		time.Sleep(time.Second)
		if s := p.Stats(); s.Busy != 2 || s.Backlog != 1 || s.BusyTime != 2*time.Second {
			t.Errorf("at 1 s: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := p.Stats(); s.Busy != 1 || s.Completed != 2 || s.BusyTime != 5*time.Second {
			t.Errorf("at 3 s: %+v", s)
		}
		time.Sleep(2 * time.Second)
		s := p.Stats()
		if s.BusyTime != 6*time.Second || s.Work.Count != 3 || s.Wait.Count != 3 {
			t.Errorf("at 5 s: %+v", s)
		}
		near(t, "work p50", s.Work.P50, 2*time.Second)
		near(t, "wait max", s.Wait.Max, 2*time.Second)
		if s.Wait.P50 > time.Millisecond {
			t.Errorf("wait p50 %v", s.Wait.P50)
		}
		time.Sleep(time.Minute)
		if s := p.Stats(); s.Work.Count != 0 || s.Work.P99 != 0 {
			t.Errorf("a minute later: %+v", s.Work)
		}
		stop()
	})
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*98/100 || got > want*102/100 {
		t.Errorf("%s %v, want about %v", what, got, want)
	}
}

func TestPoolOptions(t *testing.T) {
	_, err := NewPool(PoolOptions{Workers: 0, Backlog: -1, Deadline: 0}, discard)
	for _, word := range []string{"workers", "backlog", "deadline"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is not named by: %v", word, err)
		}
	}
}

func BenchmarkPool(b *testing.B) {
	for _, workers := range []int{1, 50} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			p, err := NewPool(PoolOptions{Workers: workers, Backlog: 10_000, Deadline: time.Minute}, discard)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(100)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := p.Do(b.Context(), func(context.Context) error { return nil }); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
