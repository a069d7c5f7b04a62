package together_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/together"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	most     = 100
	patience = 10 * time.Second
)

// Callers come while a call is on its way.
func TestCallsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = time.Second
		var calls [][]int
		broken := errors.New("broken")
		c := together.New(func(_ context.Context, some []int) error {
			calls = append(calls, slices.Clone(some))
			time.Sleep(takes)
			if slices.Contains(some, -1) {
				return broken
			}
			return nil
		}, most, patience)
		var all sync.WaitGroup
		do := func(ctx context.Context, what int, want error, after time.Duration) {
			begun := time.Now()
			all.Go(func() {
				if err := c.Do(ctx, what); !errors.Is(err, want) || time.Since(begun) != after {
					t.Errorf("%d: %v after %v, want %v after %v", what, err, time.Since(begun), want, after)
				}
			})
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), takes/2)
		defer cancel()
		do(t.Context(), 0, nil, takes) // alone, at once
		want := []int{}
		for n := 1; n <= most; n++ {
			if n%7 == 0 {
				do(short, n, context.DeadlineExceeded, takes/2)
				continue
			}
			do(t.Context(), n, nil, 2*takes)
			want = append(want, n)
		}
		do(t.Context(), -1, broken, 3*takes)
		do(t.Context(), -2, broken, 3*takes)
		all.Wait()
		do(t.Context(), 500, nil, takes)
		all.Wait()
		// In the order of arrival, and those who gave up were not called for.
		for i, want := range [][]int{{0}, want, {-1, -2}, {500}} {
			if len(calls) != 4 || !slices.Equal(calls[i], want) {
				t.Fatalf("calls %v, the %dth should be %v", calls, i, want)
			}
		}
	})
}

// A call ends in time though its callers have more of it; whoever gave up meanwhile is
// not waited for once more.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := together.New(func(ctx context.Context, _ []int) error {
			calls++
			<-ctx.Done()
			return fmt.Errorf("silent: %w", ctx.Err())
		}, most, patience)
		begun := time.Now()
		short, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		var all sync.WaitGroup
		for range 5 * most {
			all.Go(func() {
				if err := c.Do(short, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience/2 {
					t.Errorf("%v after %v", err, time.Since(begun))
				}
			})
		}
		all.Wait()
		if err := c.Do(t.Context(), 2); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 2*patience || calls != 2 {
			t.Errorf("%v after %v and %d calls", err, time.Since(begun), calls)
		}
	})
}

// Whoever is told that their call is over was in it, once, whoever gives up.
func TestEveryCallerIsCalledForOnce(t *testing.T) {
	var called [64][200]atomic.Int32
	c := together.New(func(_ context.Context, some [][2]int) error {
		for _, one := range some {
			called[one[0]][one[1]].Add(1)
		}
		return nil
	}, 7, patience)
	var all sync.WaitGroup
	for i := range called {
		all.Go(func() {
			for j := range called[i] {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(j%5)*10*time.Microsecond)
				if j%3 == 0 {
					ctx = context.Background()
				}
				err := c.Do(ctx, [2]int{i, j})
				cancel()
				if n := called[i][j].Load(); n > 1 || err == nil && n != 1 || j%3 == 0 && err != nil {
					t.Errorf("%d.%d: called %d times, %v", i, j, n, err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkDo is what a caller pays for sharing, beside two hundred others.
func BenchmarkDo(b *testing.B) {
	c := together.New(func(context.Context, []*int) error { return nil }, 1000, patience)
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		what := new(int)
		for pb.Next() {
			if err := c.Do(b.Context(), what); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
