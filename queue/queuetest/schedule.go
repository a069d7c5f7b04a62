package queuetest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
)

// opensIn moves the opening time to a time from now; a negative one opens at once.
func (f *fixture) opensIn(d time.Duration) queue.Settings {
	f.Helper()
	at := f.snapshot().At.Add(d)
	s := f.configure(queue.Patch{OpensAt: ptr(&at)})
	f.snapshot() // whoever answers polls has seen it
	return s
}

// drawn is a sort of tickets of a draw in the order of their places.
func drawn(seed string, tickets []queue.Ticket) []queue.Ticket {
	return slices.SortedFunc(slices.Values(tickets), func(a, b queue.Ticket) int {
		return cmp.Compare(queue.DrawPlace(seed, a.ID), queue.DrawPlace(seed, b.ID))
	})
}

func (f *fixture) wantRefused(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got %v, want %v", err, want)
	}
}

// Before it opens a line draws; then the drawn stand in front of whoever comes
// later, in the order that anybody can compute from the seed.
func testSchedule(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	seed := f.opensIn(time.Hour).Seed
	var early []queue.Ticket
	for i := range 30 {
		before := f.snapshot().At.Truncate(time.Millisecond)
		s := f.enter(queue.NewID(), nil)
		if s.State != queue.Scheduled || !s.Created || s.Position != 0 || s.Length != int64(i+1) {
			t.Fatalf("an early one: %+v", s)
		}
		if s.Ticket.Place != 0 || s.Ticket.EnteredAt.Before(before) || s.Ticket.EnteredAt.After(f.snapshot().At) {
			t.Fatalf("an early ticket: %+v", s.Ticket)
		}
		early = append(early, s.Ticket)
	}
	for _, ticket := range early {
		for _, client := range []queue.Line{f.line, f.client()} {
			s, err := client.Standing(f.ctx, ticket)
			if err != nil || s.State != queue.Scheduled || s.Position != 0 || s.Length != 30 || s.Ticket != ticket {
				t.Fatalf("polling before the opening: %+v, %v", s, err)
			}
		}
		if s := f.enter(ticket.Subject, nil); s.Created || s.State != queue.Scheduled || s.Ticket != ticket {
			t.Fatalf("entering again before the opening: %+v", s)
		}
	}
	// Nothing opens it early.
	for _, p := range []queue.Patch{
		{}, {RateOverride: ptr(ptr(float64(queue.MaxRate)))}, {Mode: ptr(queue.ModePassthrough)}, {Paused: ptr(true)},
	} {
		f.configure(p)
		if b := f.batch(1000); len(b.Admitted) > 0 || b.LimitedBy != queue.LimitedBySchedule {
			t.Fatalf("a batch before the opening: %+v", b)
		}
	}
	f.configure(queue.Patch{Paused: ptr(false)})
	if s := f.enter(early[0].Subject, &early[0]); s.State != queue.Scheduled {
		t.Fatalf("passing before the opening: %+v", s)
	}
	f.configure(queue.Patch{Mode: ptr(queue.ModeNormal), RateOverride: ptr((*float64)(nil))})

	if s := f.opensIn(50 * time.Millisecond); s.Seed != seed {
		t.Fatal("moving the opening made a new seed")
	}
	f.until("open", func() bool { return f.snapshot().Phase() == queue.PhaseOpen })
	late := f.enterMany("late", 3)
	want := append(drawn(seed, early), late...)
	other := f.client()
	if _, err := other.Snapshot(f.ctx); err != nil {
		t.Fatal(err)
	}
	for i, ticket := range want {
		for _, client := range []queue.Line{f.line, other} {
			s, err := client.Standing(f.ctx, ticket)
			if err != nil || s.State != queue.Waiting || s.Position != int64(i+1) || s.Length != 33 || s.Ticket != ticket {
				t.Fatalf("after the opening: %+v, %v; want position %d", s, err, i+1)
			}
		}
		if i >= len(early) && ticket.Place <= queue.MaxDrawn {
			t.Fatalf("a newcomer's place is %d", ticket.Place)
		}
	}
	for i, a := range f.admit(3) {
		if a.TicketID != want[i].ID || a.Place != queue.DrawPlace(seed, a.TicketID) {
			t.Fatalf("admission %d is %+v, want that of %+v", i, a, want[i])
		}
	}
}

func testClosing(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.snapshot()
	f.wait(2 * time.Millisecond)
	tickets := f.enterMany("v", 3)
	f.admit(1)
	inside := f.wantState(tickets[0], queue.Admitted)
	past := f.snapshot().At.Add(-time.Second)
	f.configure(queue.Patch{ClosesAt: ptr(&past)})
	f.snapshot()

	_, err := f.line.Enter(f.ctx, "late", nil)
	f.wantRefused(err, queue.ErrClosed)
	for _, held := range []*queue.Ticket{nil, &tickets[1]} {
		_, err = f.line.Enter(f.ctx, tickets[1].Subject, held)
		f.wantRefused(err, queue.ErrClosed)
	}
	if s := f.enter(tickets[0].Subject, nil); s.State != queue.Admitted || s.Admission != inside.Admission {
		t.Fatalf("admitted before the closing: %+v", s)
	}
	unknown := f.ticket("unknown", tickets[0].Epoch, tickets[1].Place+1)
	for _, ticket := range []queue.Ticket{tickets[1], unknown} {
		if s := f.wantState(ticket, queue.Closed); s.Position != 0 || s.Length != 0 || s.Ticket != ticket {
			t.Fatalf("waiting at the closing: %+v", s)
		}
	}
	for _, p := range []queue.Patch{
		{}, {RateOverride: ptr(ptr(float64(queue.MaxRate)))}, {Paused: ptr(true)}, {Paused: ptr(false), Mode: ptr(queue.ModePassthrough)},
	} {
		f.configure(p)
		if b := f.batch(1000); len(b.Admitted) > 0 || b.LimitedBy != queue.LimitedBySchedule {
			t.Fatalf("a batch after the closing: %+v", b)
		}
	}
	_, err = f.line.Enter(f.ctx, "late", nil)
	f.wantRefused(err, queue.ErrClosed)
	f.configure(queue.Patch{Mode: ptr(queue.ModeNormal), RateOverride: ptr((*float64)(nil))})

	// Reopened, everybody stands where they stood, until it closes by itself.
	soon := f.snapshot().At.Add(time.Second)
	f.configure(queue.Patch{ClosesAt: ptr(&soon)})
	f.snapshot()
	for i, ticket := range []queue.Ticket{tickets[1], unknown, tickets[2]} {
		f.wantPosition(ticket, int64(i+1))
	}
	if s := f.enter("late", nil); s.Position != 4 {
		t.Fatalf("a newcomer after the reopening: %+v", s)
	}
	f.until("closed", func() bool {
		_, err := f.line.Enter(f.ctx, tickets[1].Subject, nil)
		return errors.Is(err, queue.ErrClosed)
	})
	if at := f.snapshot().At; at.Before(soon.Truncate(time.Millisecond)) {
		t.Fatalf("closed at %s, want %s", at, soon)
	}
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

// An opening time can be moved into the future only while every place is drawn,
// and no drawn one can have been read.
func testStarted(t *testing.T, impl Implementation) {
	for _, tt := range []struct {
		name    string
		happens func(f *fixture)
		want    error
	}{
		{"nobody came", func(*fixture) {}, nil},
		{"somebody waits", func(f *fixture) { f.enter("v", nil) }, queue.ErrStarted},
		{"somebody left", func(f *fixture) {
			if err := f.line.Leave(f.ctx, f.enter("v", nil).Ticket); err != nil {
				f.Fatal(err)
			}
		}, queue.ErrStarted},
		{"somebody is inside", func(f *fixture) { f.enter("v", nil); f.admit(1) }, queue.ErrStarted},
		{"somebody passed", func(f *fixture) {
			f.configure(queue.Patch{Mode: ptr(queue.ModePassthrough)})
			f.enter("v", nil)
		}, queue.ErrStarted},
		{"an old ticket returned", func(f *fixture) {
			f.wantState(f.ticket("v", 0, f.snapshot().At.UnixMicro()), queue.Waiting)
		}, queue.ErrStarted},
		{"before the opening", func(f *fixture) { f.opensIn(time.Hour); f.enter("v", nil) }, nil},
		{"opened", func(f *fixture) { f.opensIn(time.Hour); f.enter("v", nil); f.opensIn(-time.Second) }, queue.ErrStarted},
		{"opened by clearing the time", func(f *fixture) {
			f.opensIn(time.Hour)
			f.enter("v", nil)
			f.configure(queue.Patch{OpensAt: ptr((*time.Time)(nil))})
		}, queue.ErrStarted},
		{"opened, all have left", func(f *fixture) {
			f.opensIn(time.Hour)
			if err := f.line.Leave(f.ctx, f.enter("v", nil).Ticket); err != nil {
				f.Fatal(err)
			}
			f.opensIn(-time.Second)
		}, queue.ErrStarted},
		{"opened, nobody came", func(f *fixture) { f.opensIn(time.Hour); f.opensIn(-time.Second) }, nil},
	} {
		f := open(t, impl, options())
		f.snapshot()
		f.wait(2 * time.Millisecond)
		tt.happens(f)
		before := f.snapshot()
		at := before.At.Add(time.Hour)
		_, err := f.line.Configure(f.ctx, queue.Patch{OpensAt: ptr(&at), Message: ptr("later")})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if tt.want == nil {
			continue
		}
		if s := f.snapshot(); !sameSettings(s.Settings, before.Settings) {
			t.Errorf("%s: refused, and yet changed to %+v from %+v", tt.name, s.Settings, before.Settings)
		}
		f.opensIn(-time.Minute) // what opens it is never refused
		if _, err := f.line.Restart(f.ctx); err != nil {
			t.Fatal(err)
		}
		if s := f.opensIn(time.Hour); s.Seed == "" {
			t.Errorf("%s: a new epoch has no draw", tt.name)
		}
	}
}

// sameSettings compares what pointers point at.
func sameSettings(a, b queue.Settings) bool {
	same := equal(a.RateOverride, b.RateOverride) && equal(a.PollBudget, b.PollBudget) &&
		equalTime(a.OpensAt, b.OpensAt) && equalTime(a.ClosesAt, b.ClosesAt)
	for _, s := range []*queue.Settings{&a, &b} {
		s.RateOverride, s.PollBudget, s.OpensAt, s.ClosesAt = nil, nil, nil, nil
	}
	return same && a == b
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func equalTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

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
	twice := []queue.Ticket{order[19], order[20]}
	twice[0].Subject, twice[1].Subject = order[9].Subject, order[9].Subject
	twice[0].ID, twice[1].ID = queue.NewID(), queue.NewID()
	best := drawn(seed, []queue.Ticket{order[9], twice[0]})[0]
	other := drawn(seed, []queue.Ticket{order[9], twice[0]})[1]
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
		if ticket.ID != best.ID && ticket.ID != other.ID {
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
