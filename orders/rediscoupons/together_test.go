package rediscoupons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTogether has callers come while a call is on its way.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = time.Second
		var calls [][]int
		broken := errors.New("broken")
		g := &together[int]{call: func(_ context.Context, some []int) error {
			calls = append(calls, some)
			time.Sleep(takes)
			if slices.Contains(some, -1) {
				return broken
			}
			return nil
		}}
		var all sync.WaitGroup
		do := func(ctx context.Context, what int, want error, after time.Duration) {
			begun := time.Now()
			all.Go(func() {
				if err := g.do(ctx, what); !errors.Is(err, want) || time.Since(begun) != after {
					t.Errorf("%d: %v after %v, want %v after %v", what, err, time.Since(begun), want, after)
				}
			})
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), takes/2)
		defer cancel()
		do(t.Context(), 0, nil, takes) // alone, at once
		do(short, 1, context.DeadlineExceeded, takes/2)
		for n := range mostTogether - 1 {
			do(t.Context(), 2+n, nil, 2*takes)
		}
		do(t.Context(), -1, broken, 3*takes)
		do(t.Context(), -2, broken, 3*takes)
		all.Wait()
		do(t.Context(), 500, nil, takes)
		all.Wait()
		var sizes []int
		for _, some := range calls {
			sizes = append(sizes, len(some))
		}
		// The one that gave up was not called for.
		if !slices.Equal(sizes, []int{1, mostTogether - 1, 2, 1}) || slices.Contains(calls[1], 1) {
			t.Errorf("calls of %v: %v", sizes, calls)
		}
	})
}

// TestTogetherIsBounded: a call ends in time though its callers have more of it.
func TestTogetherIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &together[int]{call: func(ctx context.Context, _ []int) error {
			<-ctx.Done()
			return fmt.Errorf("silent: %w", ctx.Err())
		}}
		begun := time.Now()
		if err := g.do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
