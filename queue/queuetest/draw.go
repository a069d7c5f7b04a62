package queuetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
)

// drawn is a sort of tickets of a draw in the order of their places.
func drawn(seed string, tickets []queue.Ticket) []queue.Ticket {
	return slices.SortedFunc(slices.Values(tickets), func(a, b queue.Ticket) int {
		return cmp.Compare(queue.DrawPlace(seed, a.ID), queue.DrawPlace(seed, b.ID))
	})
}

// The seed is made once for each draw: it moves with the opening time, and is
// never used again once it can be public.
func testSeed(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	if s := f.opensIn(-time.Second); s.Seed != "" {
		t.Fatalf("an opening in the past has a seed: %+v", s)
	}
	clients := []queue.Line{f.line, f.client(), f.client(), f.client()}
	seeds := make([]string, len(clients))
	var g errgroup.Group
	at := f.snapshot().At.Add(time.Hour)
	for i, client := range clients {
		g.Go(func() error {
			s, err := client.Configure(f.ctx, queue.Patch{OpensAt: ptr(&at)})
			seeds[i] = s.Seed
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	first := f.snapshot().Settings
	if len(first.Seed) != 64 || slices.Min(seeds) != first.Seed || slices.Max(seeds) != first.Seed {
		t.Fatalf("seeds %q, the line's is %q", seeds, first.Seed)
	}
	f.enter("v", nil)
	f.configure(queue.Patch{Message: ptr("soon")})
	f.opensIn(2 * time.Hour)
	if s := f.opensIn(time.Minute); s.Seed != first.Seed || s.Revision <= first.Revision {
		t.Fatalf("moved: %+v, want the seed of %+v", s, first)
	}

	restart := func() queue.Settings {
		t.Helper()
		before := f.snapshot().Settings
		if _, err := f.line.Restart(f.ctx); err != nil {
			t.Fatal(err)
		}
		s, err := f.client().Snapshot(f.ctx)
		if err != nil || s.Settings.Revision <= before.Revision {
			t.Fatalf("restarted a draw: %+v, %v; want a revision after %d", s.Settings, err, before.Revision)
		}
		return s.Settings
	}
	second := restart()
	if len(second.Seed) != 64 || second.Seed == first.Seed {
		t.Fatalf("restarted before the opening: %+v, want another seed than %s", second, first.Seed)
	}
	f.opensIn(-time.Second) // and with that, public
	third := f.opensIn(time.Hour)
	if len(third.Seed) != 64 || third.Seed == second.Seed {
		t.Fatalf("a second opening: %+v, want another seed than %s", third, second.Seed)
	}
	f.opensIn(-time.Second)
	if s := restart(); s.Seed != "" || s.TicketsSHA256 != "" {
		t.Fatalf("restarted after the opening: %+v", s)
	}
}

// A line may be born with an opening time.
func testBornScheduled(t *testing.T, impl Implementation) {
	opts := options()
	opts.Initial.OpensAt = ptr(time.Now().Add(time.Hour).Truncate(time.Millisecond))
	f := open(t, impl, opts)
	s := f.enter("v", nil)
	if s.State != queue.Scheduled || s.Ticket.Place != 0 {
		t.Fatalf("entering: %+v", s)
	}
	seed := f.snapshot().Settings.Seed
	if len(seed) != 64 {
		t.Fatalf("the seed is %q", seed)
	}
	other, err := f.client().Snapshot(f.ctx)
	if err != nil || other.Settings.Seed != seed {
		t.Fatalf("another client: %+v, %v; want %s", other.Settings, err, seed)
	}
}

// The set of early tickets is sealed once, after the opening.
func testSeal(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	seal := func() queue.Settings {
		t.Helper()
		if err := f.line.Seal(f.ctx); err != nil {
			t.Fatal(err)
		}
		return f.snapshot().Settings
	}
	if s := seal(); s.TicketsSHA256 != "" || s.Revision != 0 {
		t.Fatalf("sealed without a draw: %+v", s)
	}
	f.opensIn(time.Hour)
	var ids []string
	early := f.enterMany("early", 1200)
	for _, ticket := range early {
		ids = append(ids, ticket.ID)
	}
	if err := f.line.Leave(f.ctx, early[7]); err != nil { // who drew and left has drawn
		t.Fatal(err)
	}
	if s := seal(); s.TicketsSHA256 != "" {
		t.Fatal("sealed before the opening")
	}
	before := f.opensIn(-time.Second)
	f.enterMany("late", 3)
	want := queue.HashTickets(ids)
	sealed := seal()
	if sealed.TicketsSHA256 != want || sealed.Revision <= before.Revision || sealed.Seed != before.Seed {
		t.Fatalf("sealed as %+v, want %s", sealed, want)
	}
	other := f.client()
	if err := other.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	// Somebody the store has no record of changes nothing any more.
	stray := queue.Ticket{Line: f.line.ID(), Epoch: early[0].Epoch, Subject: "stray", ID: queue.NewID(), EnteredAt: early[0].EnteredAt}
	f.wantState(stray, queue.Waiting)
	if s := seal(); !sameSettings(s, sealed) {
		t.Fatalf("sealed again: %+v, want %+v", s, sealed)
	}
}

// A draw is restored by its tickets and the seed, whatever order they come in.
func testDrawReturns(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.snapshot()
	f.wait(2 * time.Millisecond)
	seed := f.opensIn(time.Hour).Seed
	tickets := f.enterMany("known", 10)
	for i := range 10 {
		unknown := tickets[i]
		unknown.Subject, unknown.ID = queue.NewID(), queue.NewID()
		if i%2 == 0 {
			f.wantState(unknown, queue.Scheduled)
		}
		tickets = append(tickets, unknown)
	}
	f.opensIn(-time.Second)
	late := f.enter("late", nil).Ticket
	for i, ticket := range tickets {
		s := f.standing(ticket)
		if i%3 == 0 {
			s = f.enter(ticket.Subject, &ticket)
		}
		if s.State != queue.Waiting || s.Created || s.Ticket != ticket {
			t.Fatalf("returning: %+v, want %+v", s, ticket)
		}
	}
	order := append(drawn(seed, tickets), late)
	for i, ticket := range order {
		f.wantPosition(ticket, int64(i+1))
	}
	// Away and back.
	f.markAway([]string{order[3].Subject}, subjects(order, 3)...)
	f.wantPosition(order[4], 4)
	f.wantPosition(order[3], 4)

	// Of two tickets of one visitor the earlier place wins, a drawn one over any.
	twice := []queue.Ticket{order[9], order[20], order[9]}
	twice[0].ID, twice[1].ID, twice[1].Subject = queue.NewID(), queue.NewID(), order[9].Subject
	for twice[0].ID == order[9].ID || drawn(seed, []queue.Ticket{twice[0], order[9]})[0] != twice[0] {
		twice[0].ID = queue.NewID()
	}
	best := twice[0]
	for range 2 {
		for _, ticket := range twice {
			if s := f.wantState(ticket, queue.Waiting); s.Ticket != best || s.Length != 21 {
				t.Fatalf("%+v stands as %+v, want %+v", ticket, s, best)
			}
		}
	}
	// One ticket of each visitor is in the set, also of one who comes only to leave.
	gone := order[0]
	gone.Subject, gone.ID = queue.NewID(), queue.NewID()
	if err := f.line.Leave(f.ctx, gone); err != nil {
		t.Fatal(err)
	}
	if err := f.line.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	ids := []string{best.ID, gone.ID}
	for _, ticket := range tickets {
		if ticket.ID != order[9].ID {
			ids = append(ids, ticket.ID)
		}
	}
	if s := f.snapshot(); s.Settings.TicketsSHA256 != queue.HashTickets(ids) {
		t.Fatalf("sealed as %+v", s.Settings)
	}
}

// subjects are those of all tickets but the one at an index.
func subjects(tickets []queue.Ticket, but int) []string {
	var all []string
	for i, ticket := range tickets {
		if i != but {
			all = append(all, ticket.Subject)
		}
	}
	return all
}
