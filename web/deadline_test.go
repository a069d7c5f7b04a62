package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// It ends as a context of the library does, whether somebody waits for it or not.
func TestDeadlineIsAContext(t *testing.T) {
	ends := func(t *testing.T, ctx context.Context, want error) {
		t.Helper()
		synctest.Wait()
		done := false
		child, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		select {
		case <-ctx.Done():
			done = true
		default:
		}
		if err := ctx.Err(); !errors.Is(err, want) || done != (want != nil) || !errors.Is(child.Err(), want) {
			t.Errorf("%v, done %v, a child %v; want %v", err, done, child.Err(), want)
		}
	}
	for _, early := range []bool{true, false} { // whether somebody waits before the end
		synctest.Test(t, func(t *testing.T) {
			for _, cancelled := range []bool{true, false} {
				ctx := queueContext()
				until, ok := ctx.Deadline()
				if !ok || time.Until(until) != queueTimeout || ctx.Err() != nil {
					t.Error(until, ok, ctx.Err())
				}
				if early {
					ends(t, ctx, nil)
				}
				want := context.DeadlineExceeded
				if cancelled {
					ctx.end()
					want = context.Canceled
				} else {
					time.Sleep(queueTimeout)
				}
				if !early && !errors.Is(ctx.Err(), want) {
					t.Errorf("%v before anybody waits; want %v", ctx.Err(), want)
				}
				ends(t, ctx, want)
				ctx.end()
				ends(t, ctx, want)
			}
		})
	}
}

func TestDeadlineCostsLittle(t *testing.T) {
	if got := testing.AllocsPerRun(100, func() {
		ctx := queueContext()
		_, _ = ctx.Deadline()
		ctx.end()
	}); got > 2 {
		t.Errorf("%v allocations", got)
	}
}
