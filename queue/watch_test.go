package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// readLine is a Line of which only the reading is there.
type readLine struct {
	Line
	mu    sync.Mutex
	reads int
	read  func(ctx context.Context) (Snapshot, error)
}

func (l *readLine) ID() string { return "sale" }

func (l *readLine) Snapshot(ctx context.Context) (Snapshot, error) {
	l.mu.Lock()
	l.reads++
	read := l.read
	l.mu.Unlock()
	return read(ctx)
}

func (l *readLine) answer(read func(ctx context.Context) (Snapshot, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
}

func (l *readLine) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// up answers after a 2 ms round trip, by a clock that is storeAhead.
func up(waiting int64) func(context.Context) (Snapshot, error) {
	return func(context.Context) (Snapshot, error) {
		time.Sleep(time.Millisecond)
		at := time.Now().Add(storeAhead)
		time.Sleep(time.Millisecond)
		return Snapshot{Line: "sale", Waiting: waiting, At: at}, nil
	}
}

func down(context.Context) (Snapshot, error) {
	return Snapshot{}, fmt.Errorf("dial: %w", ErrUnavailable)
}

// hang answers when the context ends.
func hang(ctx context.Context) (Snapshot, error) {
	<-ctx.Done()
	return Snapshot{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
}

// watched runs a watch in a bubble of virtual time.
func watched(t *testing.T, test func(t *testing.T, l *readLine, w *Watch, logged *record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var logged record
		l := &readLine{read: up(7)}
		w := NewWatch(l, 250*time.Millisecond, slog.New(slog.NewTextHandler(&logged, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		test(t, l, w, &logged)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestWatchHasNoViewBeforeTheFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatch(&readLine{read: up(7)}, time.Second, slog.New(slog.DiscardHandler))
		time.Sleep(3 * time.Second)
		if v, ok := w.View(); ok {
			t.Errorf("a view of nothing: %+v", v)
		}
		if w.Age() != 3*time.Second {
			t.Errorf("age %s, want the time since the watch was made", w.Age())
		}
		if !w.Now().Equal(time.Now()) {
			t.Errorf("now %s, want the local time", w.Now())
		}
	})
}

func TestWatchReadsAtOnceAndThenAtTheInterval(t *testing.T) {
	watched(t, func(t *testing.T, l *readLine, w *Watch, _ *record) {
		time.Sleep(10 * time.Millisecond)
		v, ok := w.View()
		if !ok || v.Waiting != 7 {
			t.Fatalf("view %+v, %v", v, ok)
		}
		if got := w.Now().Sub(time.Now()); got != storeAhead {
			t.Errorf("the store's clock is %s ahead, the watch says %s", storeAhead, got)
		}
		time.Sleep(10 * time.Second)
		if n := l.count(); n != 41 {
			t.Errorf("%d readings in 10 s, want 41", n)
		}
		if w.Age() > 250*time.Millisecond {
			t.Errorf("age %s", w.Age())
		}
	})
}

func TestWatchMeasuresMovement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, l := time.Now(), &readLine{}
		l.answer(func(context.Context) (Snapshot, error) { // 40/s, a million waiting
			return Snapshot{Waiting: 1_000_000, Admitted: int64(time.Since(start) / (25 * time.Millisecond)), At: time.Now()}, nil
		})
		w := NewWatch(l, 250*time.Millisecond, slog.New(slog.DiscardHandler))
		for range 21 {
			if err := w.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
		}
		v, _ := w.View()
		if e, ok := v.Movement.Estimate(80); !ok || e.Expected != 2*time.Second {
			t.Errorf("position 80 at 40/s waits %+v, %v; movement %+v", e, ok, v.Movement)
		}
	})
}

func TestWatchRefreshShowsWhatWasJustChanged(t *testing.T) {
	watched(t, func(t *testing.T, l *readLine, w *Watch, _ *record) {
		time.Sleep(10 * time.Millisecond)
		l.answer(up(99))
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, _ := w.View(); v.Waiting != 99 {
			t.Errorf("view %+v", v)
		}
	})
}

// A refresh that meets a reading under way waits for it and makes its own: the
// one under way may have seen the line before the change.
func TestWatchRefreshMakesItsOwnReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &readLine{read: func(context.Context) (Snapshot, error) {
			time.Sleep(500 * time.Millisecond)
			return Snapshot{Waiting: 1}, nil
		}}
		w := NewWatch(l, time.Hour, slog.New(slog.DiscardHandler))
		go func() { _ = w.Refresh(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		l.answer(up(2))
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, _ := w.View(); v.Waiting != 2 || l.count() != 2 {
			t.Errorf("view %+v after %d readings", v, l.count())
		}
	})
}

func TestWatchKeepsTheLastViewWhileTheStoreIsAway(t *testing.T) {
	watched(t, func(t *testing.T, l *readLine, w *Watch, logged *record) {
		time.Sleep(time.Second)
		for _, away := range []func(context.Context) (Snapshot, error){down, hang} {
			logged.Reset()
			l.answer(away)
			time.Sleep(time.Minute)
			synctest.Wait()
			if v, ok := w.View(); !ok || v.Waiting != 7 {
				t.Errorf("view %+v, %v", v, ok)
			}
			if w.Age() < 59*time.Second {
				t.Errorf("age %s after a minute away", w.Age())
			}
			if got := w.Now().Sub(time.Now()); got != storeAhead {
				t.Errorf("now is %s ahead", got)
			}
			if n := strings.Count(logged.String(), "\n"); n != 1 {
				t.Errorf("logged %d lines while away, want 1:\n%s", n, logged)
			}
			l.answer(up(7))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if n := strings.Count(logged.String(), "\n"); n != 2 {
				t.Errorf("logged %d lines, want away and back:\n%s", n, logged)
			}
			if w.Age() > 250*time.Millisecond {
				t.Errorf("age %s after the return", w.Age())
			}
		}
	})
}

func TestWatchRefreshTakesAtMostASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatch(&readLine{read: hang}, time.Hour, slog.New(slog.DiscardHandler))
		errs := make(chan error)
		start := time.Now()
		for range 3 {
			go func() { errs <- w.Refresh(t.Context()) }()
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("refresh: %v", err)
			}
		}
		if d := time.Since(start); d > watchDeadline {
			t.Errorf("three refreshes of a store that hangs took %s", d)
		}
	})
}

func TestWatchStopsQuietlyInTheMiddleOfAReading(t *testing.T) {
	var logged *record
	watched(t, func(t *testing.T, l *readLine, w *Watch, b *record) {
		logged = b
		time.Sleep(10 * time.Millisecond)
		l.answer(hang)
		time.Sleep(300 * time.Millisecond)
	})
	if logged.Len() != 0 {
		t.Errorf("a stop was logged as an outage:\n%s", logged)
	}
}

// A loss is logged once, and once that it is over.
func TestWatchLogsALoss(t *testing.T) {
	watched(t, func(t *testing.T, l *readLine, w *Watch, logged *record) {
		lost := time.Now().Add(storeAhead)
		l.answer(func(ctx context.Context) (Snapshot, error) {
			s, err := up(7)(ctx)
			s.HoldUntil = lost.Add(20 * time.Second)
			return s, err
		})
		for _, c := range []struct {
			after time.Duration
			want  []string
		}{
			{10 * time.Second, []string{"lost its memory"}},
			{20 * time.Second, []string{"lost its memory", "is over"}},
		} {
			time.Sleep(c.after)
			synctest.Wait()
			lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("after %s: %d lines logged, want %d:\n%s", c.after, len(lines), len(c.want), logged)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("%q is not in %q", want, lines[i])
				}
			}
		}
	})
}
