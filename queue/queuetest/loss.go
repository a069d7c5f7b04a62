package queuetest

import (
	"testing"
	"time"

	"sluice/queue"
)

// longAgo is a ticket that is older than the line, of which it has no record.
func (f *fixture) longAgo(subject string) queue.Ticket {
	return f.ticket(subject, 0, f.snapshot().Created.UnixMicro()-time.Second.Microseconds())
}

// wantHold checks that the hold ends d after a moment since before.
func (f *fixture) wantHold(before time.Time, d time.Duration) queue.Snapshot {
	f.Helper()
	s := f.snapshot()
	const rounding = 2 * time.Millisecond
	if !s.Recovering() || s.HoldUntil.Before(before.Add(d-rounding)) || s.HoldUntil.After(s.At.Add(d+rounding)) {
		f.Fatalf("held until %s, want %s from a moment between %s and %s", s.HoldUntil, d, before, s.At)
	}
	return s
}

// A ticket older than the line proves that it has lost its memory: nobody is let
// in until everybody can have come back, whatever the operator says.
func testLoss(t *testing.T, impl Implementation) {
	opts := options()
	opts.Told = &queue.Told{}
	opts.Told.Note(500 * time.Millisecond)
	opts.RecoveryHold = 1500 * time.Millisecond
	f := open(t, impl, opts)
	if s := f.snapshot(); s.Recovering() || !s.HoldUntil.IsZero() || s.Created.IsZero() || s.Created.After(s.At) {
		t.Fatalf("a new line: %+v", s)
	}
	f.wait(2 * time.Millisecond)
	tickets := f.enterMany("v", 3)
	f.wantPosition(f.ticket("known by nobody", 0, tickets[0].Place+1), 2)
	if s := f.snapshot(); s.Recovering() {
		t.Fatalf("a ticket as old as the line proves nothing: %+v", s)
	}
	before := f.snapshot().At
	old := f.longAgo("old")
	f.wantPosition(old, 1)
	held := f.wantHold(before, 2*time.Second)
	for _, p := range []queue.Patch{
		{}, {RateOverride: ptr(ptr(float64(queue.MaxRate)))}, {Mode: ptr(queue.ModePassthrough)},
	} {
		f.configure(p)
		if b := f.batch(1000); len(b.Admitted) > 0 || b.LimitedBy != queue.LimitedByRecovering {
			t.Fatalf("a batch during the hold: %+v", b)
		}
	}
	if s := f.enter("passing", nil); s.State != queue.Waiting {
		t.Fatalf("passing during the hold: %+v", s)
	}
	f.configure(queue.Patch{Paused: ptr(true)})
	if b := f.batch(1000); b.LimitedBy != queue.LimitedByPaused {
		t.Fatalf("a pause during the hold: %+v", b)
	}
	f.configure(queue.Patch{Mode: ptr(queue.ModeNormal), RateOverride: ptr((*float64)(nil)), Paused: ptr(false)})
	older := f.ticket("older", 0, old.Place-1)
	f.wantPosition(older, 1)

	f.until("the hold is over", func() bool { return !f.snapshot().Recovering() })
	f.wantPosition(f.ticket("oldest", 0, old.Place-2), 1) // once per incarnation
	if s := f.snapshot(); s.Recovering() || !s.HoldUntil.Equal(held.HoldUntil) || !s.Created.Equal(held.Created) {
		t.Fatalf("lost twice: %+v, want the hold of %+v", s, held)
	}
	for i, want := range []string{"oldest", "older", "old", "v0"} {
		if a := f.admit(1)[0]; a.Subject != want || a.AdmittedAt.Before(held.HoldUntil.Truncate(time.Millisecond)) {
			t.Fatalf("admission %d after the hold is %+v, want %s", i, a, want)
		}
	}
}

// What proves a loss, and for how long it holds.
func testLossProofs(t *testing.T, impl Implementation) {
	const hold = 30 * time.Second
	for _, tt := range []struct {
		name    string
		told    time.Duration
		known   *queue.Remembered
		happens func(f *fixture)
		want    time.Duration // 0 is no loss
	}{
		{"nothing happened", time.Second, nil, func(*fixture) {}, 0},
		{"an old ticket polls", time.Second, nil, func(f *fixture) {
			f.wantState(f.longAgo("old"), queue.Waiting)
		}, hold + time.Second},
		{"an old ticket enters", time.Second, nil, func(f *fixture) {
			old := f.longAgo("old")
			if s := f.enter("old", &old); s.Created {
				f.Fatalf("a new place: %+v", s)
			}
		}, hold + time.Second},
		{"an old ticket enters a closed line", time.Second, nil, func(f *fixture) {
			old, past := f.longAgo("old"), f.snapshot().At.Add(-time.Second)
			f.configure(queue.Patch{ClosesAt: ptr(&past)})
			_, err := f.line.Enter(f.ctx, "old", &old)
			f.wantRefused(err, queue.ErrClosed)
			f.configure(queue.Patch{ClosesAt: ptr((*time.Time)(nil))})
		}, hold + time.Second},
		{"an old ticket of somebody with a place", time.Second, nil, func(f *fixture) {
			f.enter("old", nil)
			f.wantPosition(f.longAgo("old"), 1)
		}, hold + time.Second},
		{"an old ticket of the draw", time.Second, nil, func(f *fixture) {
			f.opensIn(time.Hour)
			f.opensIn(-time.Second)
			old := f.longAgo("old")
			old.Place = 0
			f.wantState(old, queue.Waiting)
		}, hold + time.Second},
		{"an old ticket of which there is a record", time.Second, nil, func(f *fixture) {
			old := f.longAgo("old")
			f.spend(old)
			f.wantState(old, queue.Spent)
		}, 0},
		{"an old ticket leaves", time.Second, nil, func(f *fixture) {
			if err := f.line.Leave(f.ctx, f.longAgo("old")); err != nil {
				f.Fatal(err)
			}
		}, hold + time.Second},
		{"a later epoch", time.Second, nil, func(f *fixture) {
			f.wantPosition(f.ticket("later", 1000, f.snapshot().At.UnixMicro()), 1)
		}, hold + time.Second},
		{"an earlier epoch", time.Second, nil, func(f *fixture) {
			if _, err := f.line.Restart(f.ctx); err != nil {
				f.Fatal(err)
			}
			_, err := f.line.Standing(f.ctx, f.longAgo("old"))
			f.wantRefused(err, queue.ErrEpoch)
		}, 0},
		{"told to come back in an hour", time.Hour, nil, func(f *fixture) {
			f.wantState(f.longAgo("old"), queue.Waiting)
		}, queue.MaxHold},
		{"known, and not there", time.Second, &queue.Remembered{Longest: 5 * time.Second}, func(*fixture) {}, hold + 5*time.Second},
		{"known, and told more since", 7 * time.Second, &queue.Remembered{Longest: 5 * time.Second}, func(*fixture) {}, hold + 7*time.Second},
	} {
		opts := options()
		opts.RecoveryHold = hold
		opts.Told = &queue.Told{}
		opts.Told.Note(tt.told)
		before := time.Now() // of the same clock as the store's, or the hold is not checked so closely
		if opts.Known = tt.known; opts.Known != nil {
			opts.Known.Settings = opts.Initial
			opts.Known.Created = before.Add(-time.Hour).Truncate(time.Millisecond)
		}
		f := open(t, impl, opts)
		f.snapshot()
		f.wait(2 * time.Millisecond)
		tt.happens(f)
		if s := f.snapshot(); tt.want == 0 && s.Recovering() {
			t.Errorf("%s: held until %s", tt.name, s.HoldUntil)
		} else if tt.want > 0 && !s.Recovering() {
			t.Errorf("%s: no hold", tt.name)
		} else if tt.want > 0 {
			f.wantHold(before, tt.want)
		}
		if tt.want > 0 { // once per incarnation, whatever else turns up
			held := f.snapshot()
			opts.Told.Note(2 * time.Hour)
			older := f.longAgo("older")
			older.Epoch = held.Epoch
			f.wantState(older, queue.Waiting)
			f.wantState(f.ticket("latest", held.Epoch+1000, held.At.UnixMicro()), queue.Waiting)
			if s := f.snapshot(); !s.Created.Equal(held.Created) || !s.HoldUntil.Equal(held.HoldUntil) {
				t.Errorf("%s: lost twice: %+v, before %+v", tt.name, s, held)
			}
		}
	}
}

// A restart ends the hold: nobody is left who could come back.
func testRestartInHold(t *testing.T, impl Implementation) {
	opts := options()
	opts.RecoveryHold = time.Minute
	f := open(t, impl, opts)
	before := f.snapshot().At
	f.wantState(f.longAgo("old"), queue.Waiting)
	f.wantHold(before, opts.RecoveryHold)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s := f.snapshot(); s.Recovering() || !s.HoldUntil.IsZero() {
			t.Fatalf("restarted: %+v", s)
		}
	}
	f.enter("v", nil)
	f.admit(1)
	// What proves another loss holds once more.
	now := f.snapshot()
	f.wantState(f.ticket("later", now.Epoch+1000, now.At.UnixMicro()), queue.Waiting)
	f.wantHold(now.At, opts.RecoveryHold)
}

// What a process remembers comes back with it.
func testKnown(t *testing.T, impl Implementation) {
	opts := options()
	opts.Known = &queue.Remembered{
		Epoch: 7, Created: time.Now().Add(-time.Hour).Truncate(time.Millisecond),
		Settings: queue.Settings{Revision: 5, Mode: queue.ModeNormal, Weight: 3, Message: "again", Seed: queue.NewSeed()},
	}
	f := open(t, impl, opts)
	s := f.snapshot()
	if s.Epoch != 7 || !sameSettings(s.Settings, opts.Known.Settings) || s.Created.Equal(opts.Known.Created) {
		t.Fatalf("put back: %+v, want %+v", s, *opts.Known)
	}
	f.enter("v", nil)
	f.until("the hold is over", func() bool { return !f.snapshot().Recovering() })
	f.admit(1)
}

// A draw is sealed when everybody can have come back.
func testSealAfterLoss(t *testing.T, impl Implementation) {
	opts := options()
	opts.RecoveryHold = time.Second
	f := open(t, impl, opts)
	f.snapshot()
	f.opensIn(time.Hour)
	early := f.enterMany("early", 3)
	f.opensIn(-time.Second)
	old := f.longAgo("old")
	old.Place = 0
	f.wantState(old, queue.Waiting)
	if err := f.line.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	if s := f.snapshot(); !s.Recovering() || s.Settings.TicketsSHA256 != "" {
		t.Fatalf("sealed during the hold: %+v", s)
	}
	f.until("the hold is over", func() bool { return !f.snapshot().Recovering() })
	if err := f.line.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	want := queue.HashTickets([]string{old.ID, early[0].ID, early[1].ID, early[2].ID})
	if s := f.snapshot(); s.Settings.TicketsSHA256 != want {
		t.Fatalf("sealed as %s, want %s", s.Settings.TicketsSHA256, want)
	}
}
