package queuetest

import (
	"errors"
	"testing"
	"time"

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
