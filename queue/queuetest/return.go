package queuetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
)

// testReturn is the table of which ticket may be put back where. Two others
// stand in the line, one in front of the visitor's signed place and one behind,
// so that position 2 means exactly the old place and 3 the tail.
func testReturn(t *testing.T, impl Implementation) {
	opts := options()
	opts.AdmissionTTL = 2 * time.Second // longer than a slow machine needs for the steps before
	tests := []struct {
		name string
		// happens is what becomes of the visitor before the poll.
		happens func(f *fixture, v queue.Ticket)
		// poll is the state a poll with the old ticket finds.
		poll     queue.State
		position int64
		// enter tells whether entering with the old ticket makes a new place.
		enterCreates bool
		pollErr      error
	}{
		{name: "no record", poll: queue.Waiting, position: 2,
			happens: func(*fixture, queue.Ticket) {}},
		{name: "away", poll: queue.Waiting, position: 2,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				f.markAway([]string{v.Subject}, "front", "behind")
				if s := f.snapshot(); s.Waiting != 2 || s.Away != 1 {
					f.Fatalf("away: %+v", s)
				}
			}},
		{name: "left", poll: queue.Left, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				if err := f.line.Leave(f.ctx, v); err != nil {
					f.Fatal(err)
				}
			}},
		{name: "left without a record", poll: queue.Left, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				if err := f.line.Leave(f.ctx, v); err != nil {
					f.Fatal(err)
				}
			}},
		{name: "removed", poll: queue.Removed, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				if found, err := f.line.Remove(f.ctx, v.Subject); err != nil || !found {
					f.Fatal(found, err)
				}
			}},
		{name: "removed while away", poll: queue.Removed, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				f.markAway([]string{v.Subject}, "front", "behind")
				if found, err := f.line.Remove(f.ctx, v.Subject); err != nil || !found {
					f.Fatal(found, err)
				}
			}},
		{name: "spent", poll: queue.Spent, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				f.admit(2)
				f.spend(v)
			}},
		{name: "spent without a record", poll: queue.Spent, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) { f.spend(v) }},
		{name: "expired", poll: queue.Expired, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				f.admit(2)
				f.wantState(v, queue.Admitted)
				f.wait(opts.AdmissionTTL + 10*time.Millisecond)
			}},
		{name: "expired and swept", poll: queue.Expired, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 2)
				f.admit(2)
				f.until("swept", func() bool { f.batch(0); return f.snapshot().Expired == 2 })
			}},
		{name: "left, by a ticket of a later epoch", pollErr: queue.ErrEpoch, enterCreates: true,
			happens: func(f *fixture, v queue.Ticket) {
				later := v
				later.Epoch += 1000 // the store has forgotten a restart
				if err := f.line.Leave(f.ctx, later); err != nil {
					f.Fatal(err)
				}
				f.wantState(later, queue.Left)
				// What waits below the epoch that is adopted is dead; others come.
				f.enter("front", nil)
				f.enter("behind", nil)
			}},
		{name: "other epoch", pollErr: queue.ErrEpoch, enterCreates: true,
			happens: func(f *fixture, _ queue.Ticket) {
				if _, err := f.line.Restart(f.ctx); err != nil {
					f.Fatal(err)
				}
			}},
	}
	for _, tt := range tests {
		f := open(t, impl, opts)
		f.snapshot() // the line is older than the first place
		f.wait(2 * time.Millisecond)
		front := f.enter("front", nil).Ticket
		// A place between two others that the store has never seen: as if the
		// ticket had been signed before the store lost its memory.
		f.wait(time.Millisecond)
		f.enter("behind", nil)
		old := f.ticket("visitor", front.Epoch, front.Place+1)
		tt.happens(f, old)

		s, err := f.line.Standing(f.ctx, old)
		if !errors.Is(err, tt.pollErr) || s.State != tt.poll || s.Position != tt.position {
			t.Errorf("%s: polling gives %+v, %v; want %s at %d, %v", tt.name, s, err, tt.poll, tt.position, tt.pollErr)
		}
		s = f.enter("visitor", &old)
		if s.Created != tt.enterCreates || s.State != queue.Waiting {
			t.Errorf("%s: entering gives %+v; want created %v", tt.name, s, tt.enterCreates)
		}
		if tt.enterCreates && (s.Ticket.ID == old.ID || s.Ticket.Place <= old.Place || s.Position != s.Length) {
			t.Errorf("%s: entering again gives %+v, want a new ticket at the tail", tt.name, s)
		}
		if tt.enterCreates && tt.pollErr == nil {
			// The new place changes nothing about the old ticket, and the old
			// ticket cannot end the new place.
			f.wantState(old, tt.poll)
			if err := f.line.Leave(f.ctx, old); err != nil {
				t.Fatal(err)
			}
			f.wantState(old, tt.poll) // how it ended stays as it was
			f.wantState(s.Ticket, queue.Waiting)
		}
		if !tt.enterCreates && s.Ticket != old {
			t.Errorf("%s: entering again gives %+v, want the old ticket", tt.name, s.Ticket)
		}
	}
}

func (f *fixture) spend(t queue.Ticket) {
	f.Helper()
	if err := f.line.Spend(f.ctx, []queue.Completion{{Subject: t.Subject, TicketID: t.ID}}); err != nil {
		f.Fatal(err)
	}
}

// After a loss a visitor may hold two tickets, from two devices. The earlier
// signed place and its id win, whichever comes first; the other maps to it.
func testTwoTickets(t *testing.T, impl Implementation) {
	for _, tt := range []struct {
		name         string
		earlierFirst bool
	}{{"the earlier polls first", true}, {"the later polls first", false}} {
		opts := options()
		f := open(t, impl, opts)
		f.snapshot() // the line is older than the places below
		f.wait(2 * time.Millisecond)
		base := f.enter("somebody", nil).Ticket
		earlier := f.ticket("twice", base.Epoch, base.Place-20)
		later := f.ticket("twice", base.Epoch, base.Place-10)
		latest := f.ticket("twice", base.Epoch, base.Place+10)
		earlier.ID, later.ID, latest.ID = "earlier", "later", "latest"
		order := []queue.Ticket{latest, later, earlier}
		if tt.earlierFirst {
			order = []queue.Ticket{earlier, later, latest}
		}
		for _, ticket := range order {
			f.wantState(ticket, queue.Waiting)
		}
		if s := f.snapshot(); s.Waiting != 2 {
			t.Fatalf("%s: %d waiting, want one place each for two visitors", tt.name, s.Waiting)
		}
		for _, ticket := range order {
			if s := f.standing(ticket); s.Position != 1 || s.Ticket.ID != "earlier" || s.Ticket.Place != earlier.Place {
				t.Fatalf("%s: %s stands at %+v", tt.name, ticket.ID, s)
			}
		}
		// One admission, with the earlier id, handed to whichever device asks.
		f.admit(1)
		for _, ticket := range order {
			if s := f.wantState(ticket, queue.Admitted); s.Admission.TicketID != "earlier" {
				t.Fatalf("%s: %s is admitted as %+v", tt.name, ticket.ID, s.Admission)
			}
		}
		f.spend(earlier)
		for _, ticket := range order {
			f.wantState(ticket, queue.Spent)
		}
		if s := f.snapshot(); s.Waiting != 1 {
			t.Fatalf("%s: a second ticket came back after the first was spent: %+v", tt.name, s)
		}
	}
}

func testLeave(t *testing.T, impl Implementation) {
	opts := options()
	opts.AdmissionTTL = 2 * time.Second
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 3)
	for range 2 { // leaving twice is no error
		if err := f.line.Leave(f.ctx, tickets[1]); err != nil {
			t.Fatal(err)
		}
	}
	f.wantPosition(tickets[0], 1)
	f.wantPosition(tickets[2], 2)
	// An admitted visitor may leave too, but their token may be out: leaving
	// again and again must not fill the shop beyond the cap.
	f.configure(queue.Patch{MaxActive: ptr(int64(1))})
	f.admit(1)
	if err := f.line.Leave(f.ctx, tickets[0]); err != nil {
		t.Fatal(err)
	}
	f.wantState(tickets[0], queue.Left)
	if s := f.snapshot(); s.Inside != 1 || s.Waiting != 1 {
		t.Fatalf("after leaving: %+v", s)
	}
	f.wait(f.opts.Tick)
	if b := f.batch(10 / f.opts.Tick.Seconds()); len(b.Admitted) != 0 || b.LimitedBy != queue.LimitedByMaxActive {
		t.Fatalf("a second of one inside: %+v", b)
	}
	f.until("the slot is free when the token is over", func() bool { f.batch(0); return f.snapshot().Inside == 0 })
	f.wantState(tickets[0], queue.Left)
	// Or when it was used after all.
	f.admit(1)
	if err := f.line.Leave(f.ctx, tickets[2]); err != nil {
		t.Fatal(err)
	}
	f.spend(tickets[2])
	f.wantState(tickets[2], queue.Spent)
	if s := f.snapshot(); s.Inside != 0 || s.Expired != 0 || s.Spent != 1 {
		t.Fatalf("after leaving and ordering: %+v", s)
	}
}

func testRemove(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 2)
	if found, err := f.line.Remove(f.ctx, "nobody"); err != nil || found {
		t.Fatalf("removing nobody: %v, %v", found, err)
	}
	f.admit(1)
	for _, ticket := range tickets { // one admitted, one waiting
		if found, err := f.line.Remove(f.ctx, ticket.Subject); err != nil || !found {
			t.Fatalf("removing %s: %v, %v", ticket.Subject, found, err)
		}
		f.wantState(ticket, queue.Removed)
	}
	if s := f.snapshot(); s.Inside != 1 || s.Waiting != 0 { // a token may be out
		t.Fatalf("after removing: %+v", s)
	}
}

// The record of an end must outlive every ticket that could ask, and no longer.
func testEndIsRemembered(t *testing.T, impl Implementation) {
	opts := options()
	opts.TicketTTL = time.Second
	f := open(t, impl, opts)
	ticket := f.enter("v", nil).Ticket
	if err := f.line.Leave(f.ctx, ticket); err != nil {
		t.Fatal(err)
	}
	left := time.Now()
	var last queue.Ticket
	f.until("forgotten", func() bool {
		last = f.enter("somebody else", nil).Ticket
		if err := f.line.Leave(f.ctx, last); err != nil {
			t.Fatal(err)
		}
		f.batch(0)
		s := f.standing(ticket)
		// A ticket is good for whole seconds: one signed at the last moment
		// before leaving is still good this long after.
		if s.State != queue.Left && time.Since(left) < opts.TicketTTL {
			t.Fatalf("forgotten after %s: %+v", time.Since(left), s)
		}
		return s.State == queue.Waiting
	})
	f.wantState(last, queue.Left) // each in its own time

	// Forgotten or not, the old ticket cannot end the place taken since.
	old := ticket
	if err := f.line.Leave(f.ctx, ticket); err != nil {
		t.Fatal(err)
	}
	fresh := f.enter("v", nil).Ticket
	old.ID = queue.NewID() // to the store a forgotten end is no record
	if err := f.line.Leave(f.ctx, old); err != nil {
		t.Fatal(err)
	}
	f.wantState(fresh, queue.Waiting)
}

func testRestart(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 3)
	f.admit(1)
	f.configure(queue.Patch{Message: ptr("tonight")})
	before := f.snapshot()
	epoch, err := f.line.Restart(f.ctx)
	if err != nil || epoch <= before.Epoch {
		t.Fatalf("Restart: epoch %d after %d, %v", epoch, before.Epoch, err)
	}
	s := f.snapshot()
	if s.Epoch != epoch || s.Waiting != 0 || s.Inside != 0 || s.Admitted != 0 || s.Settings != before.Settings {
		t.Fatalf("after a restart: %+v", s)
	}
	for _, client := range []queue.Line{f.line, f.client()} {
		if _, err := client.Standing(f.ctx, tickets[1]); !errors.Is(err, queue.ErrEpoch) {
			t.Fatalf("a ticket of the earlier epoch: %v", err)
		}
	}
	// Several who restart it at the same moment agree on what they began.
	var g errgroup.Group
	epochs := make([]int64, 8)
	for i := range epochs {
		client := f.client()
		g.Go(func() (err error) {
			epochs[i], err = client.Restart(f.ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	epoch = slices.Max(epochs)
	if s := f.snapshot(); s.Epoch != epoch {
		t.Fatalf("epoch %d, want %d", s.Epoch, epoch)
	}
	fresh := f.enter("v1", &tickets[1])
	if !fresh.Created || fresh.Ticket.Epoch != epoch || fresh.Ticket.Place <= tickets[2].Place {
		t.Fatalf("entering after a restart: %+v", fresh)
	}
	// A later epoch than the store's proves that the store forgot: it is
	// adopted, and what was given out under the lower one is dead.
	later := f.ticket("later", epoch+1000, fresh.Ticket.Place-1)
	f.wantPosition(later, 1)
	if s := f.snapshot(); s.Epoch != epoch+1000 || s.Waiting != 1 {
		t.Fatalf("after adopting an epoch: %+v", s)
	}
	if _, err := f.line.Standing(f.ctx, fresh.Ticket); !errors.Is(err, queue.ErrEpoch) {
		t.Fatalf("a ticket of the forgotten epoch: %v", err)
	}
}
