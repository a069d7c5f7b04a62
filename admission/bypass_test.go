package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// goAway has the store refuse and waits until that is known.
func (f *standby) goAway() {
	f.t.Helper()
	f.line.in(refused)
	f.wait(2 * time.Second)
	f.isAway(true)
}

// set is an operator's change, seen by the watch.
func (f *standby) set(p queue.Patch) {
	f.t.Helper()
	if _, err := f.Configure(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	f.wait(300 * time.Millisecond)
}

func (f *standby) enter(subject string, held *queue.Ticket) queue.Standing {
	f.t.Helper()
	st, err := f.Enter(f.t.Context(), subject, held)
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

func (f *standby) position(t queue.Ticket) queue.Standing {
	f.t.Helper()
	st, err := f.Standing(f.t.Context(), t)
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

// crowd enters while the store is there.
func (f *standby) crowd(n int) (tickets []queue.Ticket) {
	f.t.Helper()
	for i := range n {
		tickets = append(tickets, f.enter(fmt.Sprint("visitor-", i), nil).Ticket)
		time.Sleep(time.Millisecond)
	}
	f.wait(300 * time.Millisecond) // the watch looks
	return tickets
}

// polled asks for each ticket once and returns who is in.
func (f *standby) polled(tickets []queue.Ticket) (in []queue.Admission) {
	f.t.Helper()
	for _, t := range tickets {
		if st := f.position(t); st.State == queue.Admitted {
			in = append(in, st.Admission)
		}
	}
	return in
}

// bypassing is a line whose instance may let in 10 a second, one of two.
var bypassing = standbySetup{mode: queue.ModeBypass, steady: Steady{Rate: 20, Queues: 2}}

func TestBypassLetsInAtItsPartOfTheRate(t *testing.T) {
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		tickets := f.crowd(300)
		f.goAway()
		f.wait(10 * time.Second) // nothing is saved up
		began := time.Now()
		for range 100 {
			f.polled(tickets)
			f.wait(100 * time.Millisecond)
		}
		in := f.polled(tickets)
		// In 10 s, with two ticks' worth at the beginning and the poll at the end.
		if n := len(in); n < 100 || n > 102 {
			t.Errorf("%d of 300 were let in in 10 s at 10/s", n)
		}
		for _, a := range in {
			spread := a.NotBefore.Sub(a.AdmittedAt)
			if a.Line != "sale" || a.AdmittedAt.Before(began.Truncate(time.Millisecond)) || spread < 0 || spread > 2*time.Second ||
				a.ExpiresAt != a.NotBefore.Add(3*time.Minute) || a.NotBefore.Nanosecond()%1e6 != 0 {
				t.Fatalf("%+v", a)
			}
		}
		st := f.position(tickets[299])
		if want := (queue.Standing{State: queue.Waiting, Ticket: st.Ticket, Length: 300}); st != want || st.Ticket.ID != tickets[299].ID {
			t.Errorf("who waits is told %+v", st)
		}
		for _, method := range []string{"enter", "standing", "record"} {
			if n := f.line.called(method); n != 0 {
				t.Errorf("%s came to the store %d times", method, n)
			}
		}
	})
}

// Whoever was let in is told the same again, also entering anew, also on another device.
func TestBypassLetsEachInOnce(t *testing.T) {
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		tickets := f.crowd(2)
		f.goAway()
		first := f.position(tickets[0])
		if first.State != queue.Admitted {
			t.Fatalf("%+v", first)
		}
		f.wait(time.Second)
		for name, again := range map[string]queue.Standing{
			"polling": f.position(tickets[0]), "entering": f.enter("visitor-0", &tickets[0]), "without a ticket": f.enter("visitor-0", nil),
		} {
			if again != first {
				t.Errorf("%s: %+v instead of %+v", name, again, first)
			}
		}
		other := queue.Ticket{Line: "sale", Subject: "visitor-0", ID: "another", Place: tickets[1].Place + 1}
		if again := f.position(other); again != first {
			t.Errorf("with another ticket: %+v instead of %+v", again, first)
		}
		if n := f.Stats().Bypassed; n != 1 {
			t.Errorf("let in %d times", n)
		}
		// When it has run out it has, and a new ticket is one at the tail.
		f.wait(4 * time.Minute)
		if st := f.position(tickets[0]); st.State != queue.Expired {
			t.Errorf("afterwards %+v", st)
		}
		if st := f.enter("visitor-0", &tickets[0]); !st.Created || st.Ticket.ID == tickets[0].ID || st.Ticket.Place <= tickets[1].Place {
			t.Errorf("entering afterwards %+v", st)
		}
	})
}

func TestBypassKeepsTheOperatorsRules(t *testing.T) {
	soon, past := time.Hour, -time.Hour
	at := func(d time.Duration) **time.Time {
		when := new(time.Now().Add(d))
		return &when
	}
	yes, zero, five := true, new(0.0), new(5.0)
	var none *float64
	for name, tc := range map[string]struct {
		patch  func() queue.Patch
		steady Steady
		state  queue.State // of a ticket
		err    error       // of a newcomer
		in     int         // of 100 in one second
	}{
		"none":               {func() queue.Patch { return queue.Patch{} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 11},
		"paused":             {func() queue.Patch { return queue.Patch{Paused: &yes} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 0},
		"closed":             {func() queue.Patch { return queue.Patch{ClosesAt: at(past)} }, Steady{Rate: 20, Queues: 2}, queue.Closed, queue.ErrClosed, 0},
		"closes later":       {func() queue.Patch { return queue.Patch{ClosesAt: at(soon)} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 11},
		"an override":        {func() queue.Patch { return queue.Patch{RateOverride: &five} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 3},
		"an override of 0":   {func() queue.Patch { return queue.Patch{RateOverride: &zero} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 0},
		"no override":        {func() queue.Patch { return queue.Patch{RateOverride: &none} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 11},
		"nothing is known":   {func() queue.Patch { return queue.Patch{} }, Steady{}, queue.Waiting, nil, 0},
		"nothing can be":     {func() queue.Patch { return queue.Patch{} }, Steady{Queues: 1}, queue.Waiting, nil, 0},
		"max_active":         {func() queue.Patch { return queue.Patch{MaxActive: new(int64(8))} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 4},
		"max_active, alone":  {func() queue.Patch { return queue.Patch{MaxActive: new(int64(8))} }, Steady{Rate: 10, Queues: 1}, queue.Waiting, nil, 8},
		"max_length":         {func() queue.Patch { return queue.Patch{MaxLength: new(int64(100)), Paused: &yes} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, queue.ErrFull, 0},
		"room in max_length": {func() queue.Patch { return queue.Patch{MaxLength: new(int64(101)), Paused: &yes} }, Steady{Rate: 20, Queues: 2}, queue.Waiting, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onStandby(t, standbySetup{mode: queue.ModeBypass, steady: tc.steady}, func(t *testing.T, f *standby) {
				tickets := f.crowd(100)
				f.set(tc.patch())
				f.goAway()
				var in int
				for range 10 {
					f.wait(100 * time.Millisecond)
					in = len(f.polled(tickets))
				}
				if in < tc.in-1 || in > tc.in+1 || (tc.in == 0 || strings.HasPrefix(name, "max_active")) && in != tc.in {
					t.Errorf("%d were let in instead of %d", in, tc.in)
				}
				if st := f.position(tickets[99]); st.State != tc.state {
					t.Errorf("a ticket: %+v", st)
				}
				st, err := f.Enter(t.Context(), "new", nil)
				if !errors.Is(err, tc.err) || err == nil && (!st.Created || st.Ticket.Place <= tickets[99].Place) {
					t.Errorf("a newcomer: %+v, %v", st, err)
				}
			})
		})
	}
}

// Of a place for max_active those count who were inside at the last look, until they must
// have run out; then those let in here, until they have.
func TestBypassCountsWhoIsInside(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass, steady: Steady{Rate: 1000, Queues: 1}}, func(t *testing.T, f *standby) {
		tickets := f.crowd(100)
		override := new(1000.0)
		f.set(queue.Patch{MaxActive: new(int64(10)), RateOverride: &override})
		f.set(queue.Patch{MaxActive: new(int64(12))})
		f.goAway()
		if n := len(f.polled(tickets[12:])); n != 0 {
			t.Fatalf("%d were let in to a full house", n)
		}
		f.set(queue.Patch{MaxActive: new(int64(15))})
		if n := len(f.polled(tickets[12:])); n != 3 {
			t.Errorf("%d were let in for 3", n)
		}
		f.wait(3*time.Minute + 2*time.Second) // the 12 have run out, and the 3
		f.wait(2 * time.Second)
		if n := len(f.polled(tickets[15:])); n != 15 {
			t.Errorf("%d were let in for 15", n)
		}
	})
}

// A hold after a loss binds also when the store goes away again.
func TestBypassWaitsForTheHold(t *testing.T) {
	setup := bypassing
	setup.options = func(o *queue.Options) {
		o.Known = &queue.Remembered{Settings: queue.Settings{Mode: queue.ModeNormal, Weight: 1}}
		o.RecoveryHold = 30 * time.Second
	}
	onStandby(t, setup, func(t *testing.T, f *standby) {
		tickets := f.crowd(10)
		f.goAway()
		if n := len(f.polled(tickets)); n != 0 {
			t.Errorf("%d were let in during the hold", n)
		}
		f.wait(30 * time.Second)
		if n := len(f.polled(tickets)); n == 0 {
			t.Error("nobody is let in after it")
		}
	})
}

func TestBypassDrawsEarlyTickets(t *testing.T) {
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		opensAt := new(time.Now().Add(time.Minute))
		f.set(queue.Patch{OpensAt: &opensAt})
		tickets := f.crowd(3)
		f.goAway()
		if st := f.position(tickets[0]); st.State != queue.Scheduled || st.Length != 3 || st.Ticket.Place != 0 {
			t.Errorf("before the opening %+v", st)
		}
		late := f.enter("late", nil)
		if late.State != queue.Scheduled || !late.Ticket.Early() || late.Ticket.EnteredAt.IsZero() || !late.Created {
			t.Errorf("a newcomer before the opening %+v", late)
		}
		f.wait(time.Minute)
		view, _ := f.cfg.Watch.View()
		for _, ticket := range []queue.Ticket{tickets[0], late.Ticket} {
			st := f.position(ticket)
			if st.State != queue.Admitted || st.Admission.Place != queue.DrawPlace(view.Settings.Seed, ticket.ID) || !st.Ticket.Early() {
				t.Errorf("after the opening %+v", st)
			}
		}
	})
}

func TestBypassRefusesEarlierEpochs(t *testing.T) {
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		old := f.crowd(1)[0]
		if _, err := f.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.wait(300 * time.Millisecond)
		f.goAway()
		if _, err := f.Standing(t.Context(), old); !errors.Is(err, queue.ErrEpoch) {
			t.Errorf("a ticket of the earlier epoch: %v", err)
		}
		if st := f.enter("visitor-0", &old); !st.Created || st.Ticket.ID == old.ID || st.Ticket.Epoch <= old.Epoch {
			t.Errorf("entering with it: %+v", st)
		}
	})
}

// Places of newcomers are behind all that were given, one after the other, and those of
// two instances are never the same.
func TestBypassGivesPlacesAtTheTail(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass}, func(t *testing.T, f *standby) {
		ahead := queue.Ticket{Line: "sale", Subject: "ahead", ID: "ahead", Place: time.Now().Add(time.Hour).UnixMicro()}
		f.position(ahead) // of a store whose clock was faster
		f.goAway()
		seen := map[int64]bool{}
		for index := range 3 {
			f.steady = Steady{Queues: 3, Index: index}
			f.bypass.floor.Store(ahead.Place) // another instance, that cannot know of these
			last := ahead.Place
			for range 100 {
				place := f.enter(queue.NewID(), nil).Ticket.Place
				if place <= last || seen[place] {
					t.Fatalf("place %d after %d", place, last)
				}
				seen[place], last = true, place
			}
		}
	})
}
