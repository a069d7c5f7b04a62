package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
	"sluice/queue/memqueue"
)

// storedLine is a real line behind a store that may be in trouble.
type storedLine struct {
	queue.Line

	mu      sync.Mutex
	trouble func(context.Context) error // nil is none; guarded by mu
	calls   map[string]int              // that came to the store, by method; guarded by mu
	given   []queue.Admission           // as recorded; guarded by mu
	full    bool                        // it records nothing more; guarded by mu
}

func (l *storedLine) reach(ctx context.Context, method string) error {
	l.mu.Lock()
	l.calls[method]++
	trouble := l.trouble
	l.mu.Unlock()
	if trouble == nil {
		return nil
	}
	return trouble(ctx)
}

func (l *storedLine) in(trouble func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = trouble
	clear(l.calls)
}

func (l *storedLine) called(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[method]
}

func (l *storedLine) Enter(ctx context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	if err := l.reach(ctx, "enter"); err != nil {
		return queue.Standing{}, err
	}
	return l.Line.Enter(ctx, subject, held)
}

func (l *storedLine) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	if err := l.reach(ctx, "standing"); err != nil {
		return queue.Standing{}, err
	}
	return l.Line.Standing(ctx, t)
}

func (l *storedLine) Leave(ctx context.Context, t queue.Ticket) error {
	if err := l.reach(ctx, "leave"); err != nil {
		return err
	}
	return l.Line.Leave(ctx, t)
}

func (l *storedLine) Remove(ctx context.Context, subject string) (bool, error) {
	if err := l.reach(ctx, "remove"); err != nil {
		return false, err
	}
	return l.Line.Remove(ctx, subject)
}

func (l *storedLine) Sweep(ctx context.Context, heard []queue.Heard) (queue.Swept, error) {
	if err := l.reach(ctx, "sweep"); err != nil {
		return queue.Swept{}, err
	}
	return l.Line.Sweep(ctx, heard)
}

func (l *storedLine) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if err := l.reach(ctx, "admit"); err != nil {
		if errors.Is(err, errUnheard) {
			_, _ = l.Line.Admit(ctx, rate, why)
		}
		return queue.Batch{}, err
	}
	return l.Line.Admit(ctx, rate, why)
}

func (l *storedLine) Arrive(ctx context.Context, came []queue.Completion) error {
	if err := l.reach(ctx, "arrive"); err != nil {
		return err
	}
	return l.Line.Arrive(ctx, came)
}

func (l *storedLine) Spend(ctx context.Context, used []queue.Completion) error {
	if err := l.reach(ctx, "spend"); err != nil {
		return err
	}
	return l.Line.Spend(ctx, used)
}

func (l *storedLine) Seal(ctx context.Context) error {
	if err := l.reach(ctx, "seal"); err != nil {
		return err
	}
	return l.Line.Seal(ctx)
}

func (l *storedLine) Restart(ctx context.Context) (int64, error) {
	if err := l.reach(ctx, "restart"); err != nil {
		return 0, err
	}
	return l.Line.Restart(ctx)
}

func (l *storedLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	if err := l.reach(ctx, "snapshot"); err != nil {
		return queue.Snapshot{}, err
	}
	return l.Line.Snapshot(ctx)
}

func (l *storedLine) Configure(ctx context.Context, p queue.Patch) (queue.Settings, error) {
	if err := l.reach(ctx, "configure"); err != nil {
		return queue.Settings{}, err
	}
	return l.Line.Configure(ctx, p)
}

// Record keeps what is recorded for the test to see.
func (l *storedLine) Record(ctx context.Context, given []queue.Admission) error {
	if err := l.reach(ctx, "record"); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return away()
	}
	l.given = append(l.given, given...)
	return nil
}

func (l *storedLine) refuseRecords(full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = full
}

func (l *storedLine) recorded() []queue.Admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]queue.Admission(nil), l.given...)
}

// Troubles of a store.
func refused(context.Context) error { return away() }

func frozen(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// errUnheard is of a batch that was given, and the answer came too late.
var errUnheard = fmt.Errorf("%w: the answer is late", queue.ErrUnavailable)

func unheard(context.Context) error { return errUnheard }

func breaks(context.Context) error { return errors.New("WRONGTYPE") }

// takes answers after a while, however short its caller's patience.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		time.Sleep(d)
		return ctx.Err()
	}
}

// standby is one under a ticker, with a watch, in front of a line that may be in
// trouble. It begins 50 ms after a tick.
type standby struct {
	*Standby
	t    *testing.T
	line *storedLine
	log  *bytes.Buffer

	steady Steady
	stop   func() // stops recording
}

type standbySetup struct {
	mode    queue.Mode
	steady  Steady
	options func(*queue.Options)
}

func onStandby(t *testing.T, s standbySetup, test func(*testing.T, *standby)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC))) // after the last drawn place
		test(t, newStandby(t, s))
	})
}

func newStandby(t *testing.T, s standbySetup) *standby {
	t.Helper()
	options := queue.DefaultOptions()
	if s.options != nil {
		s.options(&options)
	}
	memory, err := memqueue.New("sale", options)
	if err != nil {
		t.Fatal(err)
	}
	f := &standby{t: t, line: &storedLine{Line: memory, calls: map[string]int{}}, log: &bytes.Buffer{}, steady: s.steady}
	watch := queue.NewWatch(f.line, 250*time.Millisecond, noLog)
	f.Standby = NewStandby(StandbyConfig{
		Line: f.line, Watch: watch, Options: options, OnFailure: s.mode, Steady: func() Steady { return f.steady }, Log: slog.New(slog.NewTextHandler(f.log, nil)),
	})
	ticker := NewTicker(f.Standby, Fixed(0), options.Tick, noLog)
	stopWatch, stopTicker := running(t, watch.Run), running(t, ticker.Run)
	f.stop = sync.OnceFunc(running(t, f.Run))
	t.Cleanup(func() { f.stop(); stopTicker(); stopWatch() })
	f.wait(50 * time.Millisecond)
	return f
}

// wait lets time pass, and what is due happen.
func (f *standby) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// isAway checks what the standby believes.
func (f *standby) isAway(want bool) {
	f.t.Helper()
	if got := f.Away(); got != want {
		f.t.Fatalf("away is %v, want %v; log: %s", got, want, f.log)
	}
}

func TestStandbyFindsTheStoreAway(t *testing.T) {
	for name, tc := range map[string]struct {
		trouble func(context.Context) error
		after   time.Duration // from when the trouble began, the store counts as away
		back    time.Duration // from when it ended, it counts as there, at the latest
	}{
		// The first failing call is asked for at the next tick, 50 ms later.
		"refuses":      {refused, 1050 * time.Millisecond, 100 * time.Millisecond},
		"hangs":        {frozen, 1050 * time.Millisecond, 1100 * time.Millisecond},
		"takes 2 s":    {takes(2 * time.Second), 2050 * time.Millisecond, 2100 * time.Millisecond},
		"cannot write": {refused, 1050 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			onStandby(t, standbySetup{mode: queue.ModeBlock}, func(t *testing.T, f *standby) {
				f.line.in(tc.trouble)
				f.wait(tc.after - time.Millisecond)
				f.isAway(false)
				f.wait(2 * time.Millisecond)
				f.isAway(true)
				if got := f.Mode(); got != queue.ModeBlock {
					t.Errorf("the mode is %s", got)
				}
				f.wait(time.Minute)
				f.isAway(true)
				f.line.in(nil)
				f.wait(tc.back)
				f.isAway(false)
				if got := f.Mode(); got != queue.ModeNormal {
					t.Errorf("the mode is %s", got)
				}
				if age := f.cfg.Watch.Age(); age > time.Second {
					t.Errorf("it is back, and what is known of it is %s old", age)
				}
				log := f.log.String()
				if n := strings.Count(log, "\n"); n != 2 || !strings.Contains(log, "level=WARN msg=\"the line's store is away\" line=sale mode=block error=") ||
					!strings.Contains(log, "level=INFO msg=\"the line's store is back\" line=sale away=1m") {
					t.Errorf("%d lines of log: %s", n, log)
				}
			})
		})
	}
}

// Less than a second of trouble, however often; trouble that is none of reaching the
// store; and calls of visitors: none of it makes the store away.
func TestStandbyLeavesBlipsAlone(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBlock}, func(t *testing.T, f *standby) {
		for range 10 {
			f.line.in(refused)
			f.wait(900 * time.Millisecond)
			f.isAway(false)
			if _, err := f.Enter(t.Context(), "ann", nil); !errors.Is(err, queue.ErrUnavailable) {
				t.Fatalf("not the line's own answer: %v", err)
			}
			f.line.in(nil)
			f.wait(100 * time.Millisecond)
		}
		f.line.in(breaks)
		f.wait(time.Minute)
		f.isAway(false)
		f.line.in(takes(900 * time.Millisecond))
		f.wait(time.Minute)
		f.isAway(false)
		if f.log.Len() > 0 {
			t.Error(f.log)
		}
	})
}

// A ticker that stops cuts its last call off: that says nothing of the store.
func TestStandbyIgnoresItsOwnStop(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBlock}, func(t *testing.T, f *standby) {
		f.line.in(func(ctx context.Context) error {
			if ctx.Err() != nil {
				return away()
			}
			return breaks(ctx) // the ticker's own: it neither counts nor is it a success
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			_, _ = f.Admit(ctx, 1, queue.LimitedByCapacity)
			f.wait(200 * time.Millisecond)
		}
		f.isAway(false)
	})
}

// A store that does what it is told and is not heard lets nobody in meanwhile: they could
// not learn it, and their turns would run out.
func TestStandbyLetsNobodyInUnheard(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBlock}, func(t *testing.T, f *standby) {
		tickets := f.crowd(100)
		f.set(queue.Patch{RateOverride: new(new(10.0))})
		f.line.in(unheard)
		f.wait(2 * time.Second)
		f.isAway(true)
		before, err := f.line.Line.Snapshot(t.Context())
		if err != nil || before.Admitted == 0 || before.Admitted > 30 {
			t.Fatalf("until that was known %+v, %v", before, err)
		}
		f.wait(10 * time.Minute)
		if after, err := f.line.Line.Snapshot(t.Context()); err != nil || after.Admitted != before.Admitted {
			t.Errorf("%d were let in unheard; %v", after.Admitted-before.Admitted, err)
		}
		f.line.in(nil)
		f.wait(time.Second)
		if st := f.position(tickets[99]); st.State != queue.Waiting {
			t.Errorf("%+v", st)
		}
		if s, err := f.line.Line.Snapshot(t.Context()); err != nil || s.Admitted < before.Admitted+5 {
			t.Errorf("afterwards %+v, %v", s, err)
		}
	})
}

// Nobody waits for a store that is away, and it is left alone.
func TestStandbyBlocksAtOnce(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBlock}, func(t *testing.T, f *standby) {
		before, err := f.Enter(t.Context(), "ann", nil)
		if err != nil {
			t.Fatal(err)
		}
		f.line.in(frozen)
		f.wait(2 * time.Second)
		f.isAway(true)
		began := time.Now()
		_, enterErr := f.Enter(t.Context(), "ben", nil)
		_, standErr := f.Standing(t.Context(), before.Ticket)
		for _, err := range []error{enterErr, standErr, f.Leave(t.Context(), before.Ticket)} {
			if !errors.Is(err, ErrBlocked) || errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("blocked with %v", err)
			}
		}
		_, removeErr := f.Remove(t.Context(), "ann")
		_, sweepErr := f.Sweep(t.Context(), nil)
		_, restartErr := f.Restart(t.Context())
		for _, err := range []error{
			removeErr, sweepErr, restartErr, f.Seal(t.Context()), f.Arrive(t.Context(), nil), f.Spend(t.Context(), nil),
		} {
			if !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("not available with %v", err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %s", took)
		}
		for _, method := range []string{"enter", "standing", "leave", "remove", "sweep", "restart", "seal", "arrive", "spend"} {
			if n := f.line.called(method); n != 0 {
				t.Errorf("%s came to the store %d times", method, n)
			}
		}
		f.line.in(nil)
		f.wait(2 * time.Second)
		after, err := f.Standing(t.Context(), before.Ticket)
		if err != nil || after.State != queue.Waiting || after.Position != 1 {
			t.Errorf("afterwards %+v, %v", after, err)
		}
	})
}

// An operator's word is in force with the store there, and over what is configured for
// when it is not.
func TestStandbyObeysTheOperator(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass}, func(t *testing.T, f *standby) {
		set := func(m queue.Mode) {
			t.Helper()
			if _, err := f.Configure(t.Context(), queue.Patch{Mode: &m}); err != nil {
				t.Fatal(err)
			}
			f.wait(250 * time.Millisecond) // the watch looks
			if got := f.Mode(); got != m {
				t.Fatalf("the mode is %s instead of %s", got, m)
			}
		}
		entered, err := f.Enter(t.Context(), "ann", nil)
		if err != nil {
			t.Fatal(err)
		}
		set(queue.ModePassthrough)
		set(queue.ModeBlock)
		if _, err := f.Standing(t.Context(), entered.Ticket); !errors.Is(err, ErrBlocked) {
			t.Error(err)
		}
		if held, err := f.Remove(t.Context(), "ann"); err != nil || !held {
			t.Errorf("an operator cannot remove anybody: %v, %v", held, err)
		}
		f.line.in(refused)
		f.wait(2 * time.Second)
		f.isAway(true)
		if got := f.Mode(); got != queue.ModeBlock {
			t.Errorf("the mode is %s", got)
		}
	})
}

// A change while the store is away holds here at once, and is what the line puts back.
func TestStandbyTakesChangesWhileAway(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass}, func(t *testing.T, f *standby) {
		f.line.in(refused)
		f.wait(2 * time.Second)
		blocked, message := queue.ModeBlock, "Back soon"
		got, err := f.Configure(t.Context(), queue.Patch{Mode: &blocked})
		if err != nil || got.Mode != queue.ModeBlock || got.Revision != f.cfg.Watch.Now().UnixMilli() {
			t.Fatalf("%+v, %v", got, err)
		}
		if mode := f.Mode(); mode != queue.ModeBlock {
			t.Errorf("the mode is %s", mode)
		}
		next, err := f.Configure(t.Context(), queue.Patch{Message: &message})
		if err != nil || next.Mode != queue.ModeBlock || next.Message != message || next.Revision != got.Revision+1 {
			t.Fatalf("%+v, %v", next, err)
		}
		if same, err := f.Configure(t.Context(), queue.Patch{}); err != nil || same.Revision != next.Revision {
			t.Errorf("an empty change: %+v, %v", same, err)
		}
		at := new(time.Now().Add(time.Hour))
		for _, p := range []queue.Patch{{OpensAt: &at}, {ClosesAt: &at}} {
			if _, err := f.Configure(t.Context(), p); !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("the schedule is changed without the store: %v", err)
			}
		}
		if n := f.line.called("configure"); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		f.line.in(nil)
		f.wait(2 * time.Second)
		s, err := f.Snapshot(t.Context())
		if err != nil || s.Settings.Mode != queue.ModeBlock || s.Settings.Message != message || s.Settings.Revision != next.Revision {
			t.Errorf("in the store: %+v, %v", s.Settings, err)
		}
	})
}
