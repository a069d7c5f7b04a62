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
)

// lines are the lines of a process.
type lines map[string]queue.Line

func (l lines) find(id string) queue.Line { return l[id] }

// ledger is what a line was told, call by call.
type ledger struct {
	mu    sync.Mutex
	calls [][]queue.Completion
	at    []time.Duration
	start time.Time
}

func newLedger() *ledger { return &ledger{start: time.Now()} }

func (l *ledger) spend(ctx context.Context, used []queue.Completion) error {
	if ctx.Err() != nil {
		return away()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, used)
	l.at = append(l.at, time.Since(l.start))
	return nil
}

// sizes are how many completions each call told.
func (l *ledger) sizes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := []int{}
	for _, call := range l.calls {
		sizes = append(sizes, len(call))
	}
	return sizes
}

// tickets are all ticket ids, in the order they were told.
func (l *ledger) tickets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, call := range l.calls {
		for _, c := range call {
			ids = append(ids, c.TicketID)
		}
	}
	return ids
}

func line(id string, spend func(context.Context, []queue.Completion) error) *fakeLine {
	return &fakeLine{id: id, spend: spend}
}

func add(c *Completions, line string, from, to int) {
	for i := from; i < to; i++ {
		c.Committed(line, fmt.Sprint("visitor", i), fmt.Sprint("ticket", i))
	}
}

// inOrder fails unless the ids are those of add, from 0 to n, once each.
func inOrder(t *testing.T, ids []string, n int) {
	t.Helper()
	if len(ids) != n {
		t.Fatalf("%d completions were told, want %d", len(ids), n)
	}
	for i, id := range ids {
		if id != fmt.Sprint("ticket", i) {
			t.Fatalf("completion %d is %q", i, id)
		}
	}
}

func TestCompletionsGoInBatchesToTheirLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newLedger(), newLedger()
		c := NewCompletions(lines{"a": line("a", a.spend), "b": line("b", b.spend)}.find, noLog)
		stop := running(t, c.Run)
		add(c, "a", 0, 1200)
		add(c, "b", 0, 3)
		if len(a.sizes()) != 0 {
			t.Error("Add went to the store")
		}
		time.Sleep(110 * time.Millisecond)
		inOrder(t, a.tickets(), 1200)
		inOrder(t, b.tickets(), 3)
		if got := fmt.Sprint(a.sizes()); got != "[500 500 200]" {
			t.Errorf("calls of %s", got)
		}
		time.Sleep(time.Minute)
		stop()
		if len(a.calls) != 3 || len(b.calls) != 1 {
			t.Error("called with nothing to tell")
		}
		if got := b.calls[0][2]; got != (queue.Completion{Subject: "visitor2", TicketID: "ticket2"}) {
			t.Errorf("told %+v", got)
		}
		if s := c.Stats(); s != (CompletionsStats{Sent: 1203}) {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestCompletionsFlushAtMostTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		c := NewCompletions(lines{"a": line("a", l.spend)}.find, noLog)
		stop := running(t, c.Run)
		for i := range 1000 {
			add(c, "a", i, i+1)
			time.Sleep(time.Millisecond)
		}
		stop()
		inOrder(t, l.tickets(), 1000)
		for i := 1; i < len(l.at)-1; i++ { // the last is of the stop
			if d := l.at[i] - l.at[i-1]; d < completionsEvery {
				t.Errorf("two rounds within %s", d)
			}
		}
	})
}

func TestCompletionsAreHeldAndBoundedWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		told, l := newLedger(), line("a", func(context.Context, []queue.Completion) error { return away() })
		other := newLedger()
		c := NewCompletions(lines{"a": l, "b": line("b", other.spend)}.find, slog.New(slog.NewTextHandler(&logged, nil)))
		stop := running(t, c.Run)
		for i := 0; i < completionsHeld+2000; i += 100 {
			add(c, "a", i, i+100)
			time.Sleep(time.Second)
		}
		if s := c.Stats(); s.Pending != completionsHeld || s.Dropped != 2000 || s.Sent != 0 {
			t.Errorf("stats %+v", s)
		}
		synctest.Wait()
		if n := strings.Count(logged.String(), "\n"); n != 1 {
			t.Errorf("%d lines logged while away, want 1:\n%s", n, &logged)
		}
		l.spends(told.spend)
		time.Sleep(time.Second)
		inOrder(t, told.tickets(), completionsHeld)
		c.Committed("b", "visitor", "ticket")
		time.Sleep(time.Second)
		if len(other.sizes()) != 1 {
			t.Error("there is no room again")
		}
		synctest.Wait()
		if n := strings.Count(logged.String(), "\n"); n != 2 {
			t.Errorf("%d lines logged, want away and back:\n%s", n, &logged)
		}
		stop()
	})
}

func TestCompletionsOfOneLineWaitASecondForAnotherAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := lines{"hangs": line("hangs", func(ctx context.Context, _ []queue.Completion) error {
			<-ctx.Done()
			return away()
		})}
		var ledgers []*ledger
		for i := range 5 { // the order of the lines is random: one of them comes after
			l := newLedger()
			id := fmt.Sprint("up", i)
			all[id] = line(id, l.spend)
			ledgers = append(ledgers, l)
		}
		c := NewCompletions(all.find, noLog)
		stop := running(t, c.Run)
		for id := range all {
			add(c, id, 0, 5)
		}
		time.Sleep(completionsEvery + tellDeadline + time.Millisecond)
		for _, l := range ledgers {
			inOrder(t, l.tickets(), 5)
		}
		stop()
	})
}

// A batch that a line refuses for good would else hold up all that follow.
func TestCompletionsDropWhatALineRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, l := newLedger(), line("a", func(context.Context, []queue.Completion) error { return errors.New("malformed") })
		c := NewCompletions(lines{"a": l}.find, noLog)
		stop := running(t, c.Run)
		add(c, "a", 0, 1)
		time.Sleep(time.Second)
		l.spends(told.spend)
		add(c, "a", 0, 1)
		time.Sleep(time.Second)
		stop()
		inOrder(t, told.tickets(), 1)
		if s := c.Stats(); s != (CompletionsStats{Sent: 1, Dropped: 1}) {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestCompletionsOfAnUnknownLineAreDropped(t *testing.T) {
	c := NewCompletions(lines{}.find, noLog)
	c.Committed("nowhere", "visitor", "ticket")
	if s := c.Stats(); s != (CompletionsStats{Dropped: 1}) {
		t.Errorf("stats %+v", s)
	}
}

func TestCompletionsAreFlushedOnStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		c := NewCompletions(lines{"a": line("a", l.spend)}.find, noLog)
		stop := running(t, c.Run)
		time.Sleep(time.Second)
		add(c, "a", 0, 700)
		stop()
		inOrder(t, l.tickets(), 700)
	})
}

// A call that the stop cuts off is made again: its completions are not lost.
func TestCompletionsOfACallCutOffByTheStopAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := newLedger()
		var l *fakeLine
		l = line("a", func(ctx context.Context, _ []queue.Completion) error {
			l.spends(told.spend)
			<-ctx.Done()
			return away()
		})
		c := NewCompletions(lines{"a": l}.find, noLog)
		stop := running(t, c.Run)
		add(c, "a", 0, 700)
		time.Sleep(completionsEvery + 10*time.Millisecond) // in the call now
		stop()
		inOrder(t, told.tickets(), 700)
	})
}

func TestCompletionsStopInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		hang := func(ctx context.Context, _ []queue.Completion) error { <-ctx.Done(); return away() }
		all := lines{}
		for i := range 10 {
			id := fmt.Sprint("l", i)
			all[id] = line(id, hang)
		}
		c := NewCompletions(all.find, slog.New(slog.NewTextHandler(&logged, nil)))
		stop := running(t, c.Run)
		for id := range all {
			add(c, id, 0, 600)
		}
		start := time.Now()
		stop()
		if d := time.Since(start); d > stopDeadline {
			t.Errorf("the stop took %s", d)
		}
		if !strings.Contains(logged.String(), "left=6000") {
			t.Errorf("what is lost is not logged:\n%s", &logged)
		}
	})
}

func TestCompletionsNeverBlockTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]int{}
		c := NewCompletions(lines{"a": line("a", func(ctx context.Context, used []queue.Completion) error {
			time.Sleep(300 * time.Millisecond) // a slow store
			mu.Lock()
			defer mu.Unlock()
			for _, u := range used {
				got[u.TicketID]++
			}
			return nil
		})}.find, noLog)
		stop := running(t, c.Run)
		var wg sync.WaitGroup
		start := time.Now()
		for g := range 50 {
			wg.Go(func() { add(c, "a", g*20, g*20+20) })
		}
		time.Sleep(completionsEvery + time.Millisecond)
		for g := range 50 {
			wg.Go(func() { add(c, "a", 1000+g*20, 1000+g*20+20) })
		}
		wg.Wait()
		if d := time.Since(start); d > completionsEvery+time.Millisecond {
			t.Errorf("adding took %s of the store's time", d)
		}
		time.Sleep(2 * time.Second)
		stop()
		if len(got) != 2000 {
			t.Errorf("%d told, want 2000", len(got))
		}
		for id, n := range got {
			if n != 1 {
				t.Errorf("%s told %d times", id, n)
			}
		}
	})
}

// An order that is repeated all the time must not take the room of others.
func TestCompletionsHeldOnce(t *testing.T) {
	c := NewCompletions(lines{"a": line("a", newLedger().spend), "b": line("b", newLedger().spend)}.find, noLog)
	for range 2 * completionsHeld {
		c.Committed("a", "visitor", "ticket")
	}
	c.Committed("b", "visitor", "ticket") // of another line, another ticket
	if s := c.Stats(); s != (CompletionsStats{Pending: 2}) {
		t.Errorf("stats %+v", s)
	}
	if err := c.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Committed("a", "visitor", "ticket") // told before, and told again
	if s := c.Stats(); s != (CompletionsStats{Sent: 2, Pending: 1}) {
		t.Errorf("stats %+v", s)
	}
}
