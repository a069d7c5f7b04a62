package queuetest

import (
	"slices"
	"testing"
	"time"

	"sluice/queue"
)

// Settings that an operator changed while the store was away are put back by their
// revision: a later one wins, an older or an equal one changes nothing.
func testAdopt(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	other := f.client()
	first := f.configure(queue.Patch{Message: ptr("before")})
	adopted := first.Apply(queue.Patch{
		Paused: ptr(true), Message: ptr("while away"), Mode: ptr(queue.ModeBypass), RateOverride: ptr(ptr(2.5)),
		MaxActive: ptr(int64(7)), Weight: ptr(int64(3)),
	})
	adopted.Revision++
	f.line.Adopt(adopted)
	for range 2 {
		for _, line := range []queue.Line{f.line, other, f.client()} {
			if s, err := line.Snapshot(f.ctx); err != nil || !sameSettings(s.Settings, adopted) || s.Recovering() {
				t.Fatalf("adopted: %+v, %v; want %+v", s, err, adopted)
			}
		}
		older := first
		older.Message = "older"
		f.line.Adopt(older) // a client that knows better
		f.client().Adopt(older)
	}
	stale := f.client()
	stale.Adopt(first) // and one that does not
	if s, err := stale.Snapshot(f.ctx); err != nil || !sameSettings(s.Settings, adopted) {
		t.Fatalf("an older revision won: %+v, %v", s.Settings, err)
	}
	// What is changed in the store is later than what was adopted.
	next := f.configure(queue.Patch{Message: ptr("after")})
	if next.Revision <= adopted.Revision || !next.Paused || next.Mode != queue.ModeBypass {
		t.Fatalf("changed: %+v, adopted was %+v", next, adopted)
	}
	f.line.Adopt(adopted)
	if s := f.snapshot(); !sameSettings(s.Settings, next) {
		t.Fatalf("an older revision won: %+v, want %+v", s.Settings, next)
	}
}

// Two instances were told different things while the store was away: the later one
// stands, whichever of them is back first.
func testAdoptByTwo(t *testing.T, impl Implementation) {
	for _, laterFirst := range []bool{true, false} {
		f := open(t, impl, options())
		a, b := f.line, f.client()
		settings := f.snapshot().Settings
		earlier, later := settings, settings
		earlier.Revision, earlier.Message = settings.Revision+5, "earlier"
		later.Revision, later.Message = settings.Revision+6, "later"
		if laterFirst {
			earlier, later = later, earlier
		}
		a.Adopt(earlier)
		if _, err := a.Snapshot(f.ctx); err != nil {
			t.Fatal(err)
		}
		b.Adopt(later)
		for _, line := range []queue.Line{b, a, b} {
			if s, err := line.Snapshot(f.ctx); err != nil || line == a && s.Settings.Message != "later" {
				t.Fatalf("later first %v: %+v, %v", laterFirst, s.Settings, err)
			}
		}
	}
}

// Whoever waits in a line that is paused or passed by does not have to speak: silence
// counts from when that ended, also between two sweeps, and in the store's absence.
func testStandstillEnds(t *testing.T, impl Implementation) {
	opts := options()
	opts.Grace = time.Second
	goes := queue.Patch{Paused: ptr(false), Mode: ptr(queue.ModeNormal)}
	var lines []*fixture
	for _, still := range []queue.Patch{{Paused: ptr(true)}, {Mode: ptr(queue.ModeBlock)}, {Mode: ptr(queue.ModeBypass)}} {
		for range 2 {
			f := open(t, impl, opts)
			lines = append(lines, f)
			f.enterMany("v", 2)
			f.sweep()
			f.configure(still)
		}
	}
	lines[0].wait(opts.Grace + 100*time.Millisecond)
	for i, f := range lines {
		if i%2 == 0 {
			f.configure(goes)
		} else {
			next := f.snapshot().Settings.Apply(goes)
			next.Revision++
			f.line.Adopt(next)
			f.snapshot()
		}
		if s := f.sweep(); s.Away != 0 {
			t.Fatalf("line %d: away as soon as it goes on: %+v", i, s)
		}
	}
	lines[0].markAway([]string{"v0", "v1"})
}

// While the store is away each instance gives places by itself, at its own estimate
// of the store's time. They are good when it is back: nothing is lost, newcomers come
// behind them, and two at the same microsecond both stay.
func testPlacesMadeAway(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.snapshot()
	f.wait(2 * time.Millisecond)
	here := f.enterMany("v", 2)
	now := f.snapshot().At.Add(time.Minute).UnixMicro() // the estimate may be ahead of the store
	var made []queue.Ticket
	for i := range 6 {
		made = append(made, f.ticket(string(rune('a'+i)), here[0].Epoch, now+int64(i/2))) // pairs
	}
	want := append(slices.Clone(here), made...)
	for _, i := range []int{5, 0, 3, 4, 1, 2} {
		f.wantState(made[i], queue.Waiting)
	}
	late := f.enter("late", nil).Ticket
	if s := f.snapshot(); s.Recovering() || s.Waiting != int64(len(want)+1) {
		t.Fatalf("places made while away count as a loss: %+v", s)
	}
	if late.Place <= made[5].Place {
		t.Fatalf("the newcomer's place is %d, one that was made away %d", late.Place, made[5].Place)
	}
	want = append(want, late)
	for range 2 {
		for _, line := range []queue.Line{f.line, f.client()} {
			for i, ticket := range want {
				s, err := line.Standing(f.ctx, ticket)
				if err != nil || s.State != queue.Waiting || s.Position != int64(i+1) || s.Ticket != ticket {
					t.Fatalf("%s: %+v, %v; want position %d of %+v", ticket.Subject, s, err, i+1, ticket)
				}
			}
		}
		for _, ticket := range made {
			if s := f.enter(ticket.Subject, &ticket); s.Created || s.Ticket != ticket {
				t.Fatalf("entering again: %+v", s)
			}
		}
	}
	for i, a := range f.admit(len(want)) {
		if a.TicketID != want[i].ID {
			t.Fatalf("admission %d is %+v, want %+v", i, a, want[i])
		}
	}
}
