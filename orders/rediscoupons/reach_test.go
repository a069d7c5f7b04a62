package rediscoupons

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// lines counts what is logged.
type lines struct {
	slog.Handler
	texts []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.texts = append(l.texts, r.Message)
	return nil
}

// TestReach: after a failure one caller tries per pause, and the others are not kept.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{Handler: slog.DiscardHandler}
		r := &reach{log: slog.New(log)}
		var asked int
		broken := errors.New("broken")
		answer := broken
		try := func(want error) {
			t.Helper()
			if err := r.try(t.Context(), func(context.Context) error { asked++; return answer }); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		try(broken)
		for range 10 {
			try(errAway)
		}
		time.Sleep(pause)
		try(broken)
		try(errAway)
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		// While one tries, the others do not wait for it.
		time.Sleep(pause)
		answer = nil
		err := r.try(t.Context(), func(context.Context) error { try(errAway); return nil })
		if err != nil {
			t.Error(err)
		}
		try(nil)
		if len(log.texts) != 2 {
			t.Errorf("logged %q", log.texts)
		}
	})
}

// TestReachIsPatientOnce: a Redis that does not answer costs the callers of the moment
// its patience, and a caller that is cut off says nothing about Redis.
func TestReachIsPatientOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reach{log: discard}
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		cut, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.try(cut, hang); !errors.Is(err, context.DeadlineExceeded) || !r.open() {
			t.Errorf("cut off: %v", err)
		}
		begun := time.Now()
		if err := r.try(t.Context(), hang); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
			t.Errorf("silent: %v after %v", err, time.Since(begun))
		}
		if err := r.try(t.Context(), hang); !errors.Is(err, errAway) || time.Since(begun) != patience {
			t.Errorf("the next: %v after %v", err, time.Since(begun))
		}
	})
}
