package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
)

// both is a line that notes arrivals and commitments.
func both(id string) (l *fakeLine, came, spent *ledger) {
	came, spent = newLedger(), newLedger()
	return &fakeLine{id: id, came: came.spend, spend: spent.spend}, came, spent
}

func arrive(c *Completions, line string, from, to int) {
	for i := from; i < to; i++ {
		c.Arrived(line, fmt.Sprint("visitor", i), fmt.Sprint("ticket", i))
	}
}

func TestArrivalsAndCommitmentsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, came, spent := both("a")
		c := NewCompletions(lines{"a": l}.find, noLog)
		stop := running(t, c.Run)
		arrive(c, "a", 0, 700)
		time.Sleep(150 * time.Millisecond)
		inOrder(t, came.tickets(), 700)
		if len(spent.sizes()) != 0 {
			t.Error("an arrival was told as a commitment")
		}
		if got := came.calls[1][199]; got != (queue.Completion{Subject: "visitor699", TicketID: "ticket699"}) {
			t.Errorf("told %+v", got)
		}
		add(c, "a", 0, 700)
		time.Sleep(100 * time.Millisecond)
		inOrder(t, spent.tickets(), 700)
		if got := fmt.Sprint(came.sizes(), spent.sizes()); got != "[500 200] [500 200]" {
			t.Errorf("calls of %s", got)
		}
		stop()
		if s := c.Stats(); s != (CompletionsStats{Sent: 1400}) {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestACommitmentStandsForItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, came, spent := both("a")
		c := NewCompletions(lines{"a": l}.find, noLog)
		stop := running(t, c.Run)
		for i := range 10 {
			arrive(c, "a", i, i+1)
			if i%2 == 0 {
				add(c, "a", i, i+1)
			}
			arrive(c, "a", i, i+1) // it cannot undo that
		}
		if s := c.Stats(); s.Pending != 10 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(time.Second)
		stop()
		if got := fmt.Sprint(came.tickets(), spent.tickets()); got !=
			"[ticket1 ticket3 ticket5 ticket7 ticket9] [ticket0 ticket2 ticket4 ticket6 ticket8]" {
			t.Errorf("told %s", got)
		}
	})
}

// The commitment comes while the arrival is being told.
func TestACommitmentIsNotLostInTheCallOfItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, came, spent := both("a")
		l.came = func(ctx context.Context, told []queue.Completion) error {
			time.Sleep(300 * time.Millisecond)
			return came.spend(ctx, told)
		}
		c := NewCompletions(lines{"a": l}.find, noLog)
		stop := running(t, c.Run)
		arrive(c, "a", 0, 700)
		time.Sleep(250 * time.Millisecond) // in the first call
		add(c, "a", 0, 700)
		time.Sleep(3 * time.Second)
		stop()
		inOrder(t, spent.tickets(), 700)
		inOrder(t, came.tickets(), 500) // the others were not on their way yet
		if s := c.Stats(); s != (CompletionsStats{Sent: 700}) {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestRepeatedArrivalsAreHeldOnce(t *testing.T) {
	l, came, _ := both("a")
	c := NewCompletions(lines{"a": l}.find, noLog)
	for range 2 * completionsHeld {
		c.Arrived("a", "visitor", "ticket")
	}
	if s := c.Stats(); s != (CompletionsStats{Pending: 1}) {
		t.Errorf("stats %+v", s)
	}
	if err := c.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(came.sizes()); got != "[1]" {
		t.Errorf("calls of %s", got)
	}
}

// Somebody who has arrived has a place for the commitment, however full it is.
func TestACommitmentTakesNoRoomBesideItsArrival(t *testing.T) {
	l, _, spent := both("a")
	c := NewCompletions(lines{"a": l}.find, noLog)
	arrive(c, "a", 0, completionsHeld+5)
	add(c, "a", 0, completionsHeld)
	if s := c.Stats(); s.Dropped != 5 || s.Pending != completionsHeld {
		t.Errorf("stats %+v", s)
	}
	if err := c.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	inOrder(t, spent.tickets(), completionsHeld)
}

func TestCompletionsOfLinesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, came, spent := both("a")
		var mu sync.Mutex
		known := lines{}
		find := func(id string) queue.Line {
			mu.Lock()
			defer mu.Unlock()
			return known.find(id)
		}
		change := func(to lines) {
			mu.Lock()
			defer mu.Unlock()
			known = to
		}
		c := NewCompletions(find, noLog)
		stop := running(t, c.Run)
		arrive(c, "a", 0, 1)
		time.Sleep(time.Second)
		change(lines{"a": l})
		arrive(c, "a", 0, 1)
		time.Sleep(time.Second)
		add(c, "a", 0, 3)
		change(nil)
		time.Sleep(time.Second)
		stop()
		inOrder(t, came.tickets(), 1)
		inOrder(t, spent.tickets(), 0)
		if s := c.Stats(); s != (CompletionsStats{Sent: 1, Dropped: 1 + 3}) {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestWhatALineDoesWithArrivalsItDoesNotDoWithCommitments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, came, spent := both("a")
		c := NewCompletions(lines{"a": l}.find, noLog)
		fails := func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.came = func(context.Context, []queue.Completion) error { return err }
		}
		stop := running(t, c.Run)

		fails(errors.New("malformed"))
		arrive(c, "a", 0, 3)
		add(c, "a", 3, 5)
		time.Sleep(time.Second)
		if got := fmt.Sprint(spent.tickets()); got != "[ticket3 ticket4]" {
			t.Errorf("arrivals are refused: spent %s", got)
		}
		if s := c.Stats(); s != (CompletionsStats{Sent: 2, Dropped: 3}) {
			t.Errorf("stats %+v", s)
		}

		// A store that is away is not asked twice in a round, and keeps the order.
		fails(away())
		arrive(c, "a", 5, 8)
		add(c, "a", 8, 10)
		time.Sleep(time.Second)
		if s := c.Stats(); s.Pending != 5 || len(spent.sizes()) != 1 {
			t.Errorf("stats %+v, %d calls", s, len(spent.sizes()))
		}
		l.mu.Lock()
		l.came = came.spend
		l.mu.Unlock()
		time.Sleep(time.Second)
		stop()
		if got := fmt.Sprint(came.tickets(), spent.tickets()); got != "[ticket5 ticket6 ticket7] [ticket3 ticket4 ticket8 ticket9]" {
			t.Errorf("told %s", got)
		}
	})
}

// What every attempt at an order costs on its way to the pool.
func BenchmarkArrivedAgain(b *testing.B) {
	l, _, _ := both("a")
	c := NewCompletions(lines{"a": l}.find, noLog)
	arrive(c, "a", 0, 5000)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Arrived("a", "visitor1", "ticket1")
		}
	})
}
