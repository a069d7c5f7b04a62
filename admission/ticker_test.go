package admission

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
)

var noLog = slog.New(slog.DiscardHandler)

// fakeLine is a Line of which only what admission calls is there.
type fakeLine struct {
	queue.Line
	id string

	mu    sync.Mutex
	admit func(ctx context.Context, rate float64) (queue.Batch, error)
	why   queue.LimitedBy // as last told
	spend func(ctx context.Context, used []queue.Completion) error
	came  func(ctx context.Context, came []queue.Completion) error
}

func (l *fakeLine) ID() string { return l.id }

func (l *fakeLine) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	l.mu.Lock()
	admit := l.admit
	l.why = why
	l.mu.Unlock()
	return admit(ctx, rate)
}

func (l *fakeLine) Spend(ctx context.Context, used []queue.Completion) error {
	l.mu.Lock()
	spend := l.spend
	l.mu.Unlock()
	return spend(ctx, used)
}

func (l *fakeLine) Arrive(ctx context.Context, came []queue.Completion) error {
	l.mu.Lock()
	tell := l.came
	l.mu.Unlock()
	return tell(ctx, came)
}

func (l *fakeLine) admits(f func(ctx context.Context, rate float64) (queue.Batch, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admit = f
}

func (l *fakeLine) spends(f func(ctx context.Context, used []queue.Completion) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spend = f
}

// away is what an adapter says when its store does not answer.
func away() error { return fmt.Errorf("dial: %w", queue.ErrUnavailable) }

// running runs a loop in the bubble and returns what stops it and waits for it.
func running(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	}
}

// one is a batch of one visitor, bounded by the rate.
func one(context.Context, float64) (queue.Batch, error) {
	return queue.Batch{Admitted: make([]queue.Admission, 1), LimitedBy: queue.LimitedByCapacity}, nil
}

func TestTickerAsksOncePerTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLine{id: "sale"}
		var rates []float64
		l.admits(func(ctx context.Context, rate float64) (queue.Batch, error) {
			rates = append(rates, rate)
			return one(ctx, rate)
		})
		tk := NewTicker(l, Fixed(175), 100*time.Millisecond, noLog)
		stop := running(t, tk.Run)
		time.Sleep(10*time.Second + 50*time.Millisecond)
		stop()
		if len(rates) != 101 {
			t.Errorf("%d calls in 10 s, want one at once and 100 after", len(rates))
		}
		for _, r := range rates {
			if r != 175 {
				t.Fatalf("asked at %g/s", r)
			}
		}
		s := tk.Stats()
		if s.Batches != 101 || s.Admitted != 101 || s.Errors != 0 || s.Skipped != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// backlogged is a rater that something else than capacity bounds.
type backlogged struct{}

func (backlogged) Rate() (float64, queue.LimitedBy) { return 3, queue.LimitedByBacklog }

func TestTickerTellsWhyTheRateIsWhatItIs(t *testing.T) {
	l := &fakeLine{id: "sale"}
	l.admits(one)
	if _, err := NewTicker(l, backlogged{}, time.Second, noLog).runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.why != queue.LimitedByBacklog {
		t.Errorf("the line was told %q", l.why)
	}
}

func TestTickerCountsSkippedTicks(t *testing.T) {
	l := &fakeLine{id: "sale"}
	tk := NewTicker(l, Fixed(1), time.Second, noLog)
	l.admits(one)
	if _, err := tk.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.admits(func(context.Context, float64) (queue.Batch, error) { return queue.Batch{Skipped: true}, nil })
	if b, err := tk.runOnce(t.Context()); err != nil || !b.Skipped {
		t.Fatalf("%+v, %v", b, err)
	}
	if s := tk.Stats(); s.Batches != 1 || s.Skipped != 1 || len(s.Last.Admitted) != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestTickerGoesOnThroughAnOutageAndLogsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		l := &fakeLine{id: "sale"}
		l.admits(one)
		tk := NewTicker(l, Fixed(1), 100*time.Millisecond, slog.New(slog.NewTextHandler(&logged, nil)))
		stop := running(t, tk.Run)
		time.Sleep(50 * time.Millisecond) // between two ticks
		for outage := 1; outage <= 3; outage++ {
			time.Sleep(time.Second)
			l.admits(func(context.Context, float64) (queue.Batch, error) { return queue.Batch{}, away() })
			time.Sleep(time.Minute)
			l.admits(one)
			time.Sleep(time.Second)
			synctest.Wait()
			if n := strings.Count(logged.String(), "\n"); n != 2*outage {
				t.Fatalf("%d lines after %d outages, want away and back of each:\n%s", n, outage, &logged)
			}
		}
		stop()
		s := tk.Stats()
		if s.Errors != 1800 {
			t.Errorf("%d errors in three minutes away, want one per tick", s.Errors)
		}
	})
}

// A call that hangs is cut off; the ticks missed meanwhile are gone, but for the
// one that is due.
func TestTickerNeverQueuesUpMissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLine{id: "sale"}
		var calls []time.Duration
		start := time.Now()
		l.admits(func(ctx context.Context, _ float64) (queue.Batch, error) {
			calls = append(calls, time.Since(start))
			if len(calls) == 1 {
				<-ctx.Done()
				return queue.Batch{}, away()
			}
			return queue.Batch{}, nil
		})
		tk := NewTicker(l, Fixed(1), 100*time.Millisecond, noLog)
		stop := running(t, tk.Run)
		time.Sleep(1450 * time.Millisecond)
		stop()
		ms := time.Millisecond
		want := []time.Duration{0, 1000 * ms, 1100*ms + aim, 1200*ms + aim, 1300*ms + aim, 1400*ms + aim}
		if fmt.Sprint(calls) != fmt.Sprint(want) {
			t.Errorf("calls at %v, want %v", calls, want)
		}
	})
}

func TestTickerStopsInTheMiddleOfACallWithoutComplaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		l := &fakeLine{id: "sale"}
		l.admits(func(ctx context.Context, _ float64) (queue.Batch, error) {
			<-ctx.Done()
			return queue.Batch{}, fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
		})
		stop := running(t, NewTicker(l, Fixed(1), 100*time.Millisecond, slog.New(slog.NewTextHandler(&logged, nil))).Run)
		time.Sleep(300 * time.Millisecond)
		stop()
		if logged.Len() != 0 {
			t.Errorf("a stop was logged as an outage:\n%s", &logged)
		}
	})
}
