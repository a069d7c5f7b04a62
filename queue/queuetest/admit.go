package queuetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
)

func testAdmissionRecord(t *testing.T, impl Implementation) {
	opts := options()
	opts.Jitter = 400 * time.Millisecond
	f := open(t, impl, opts)
	const n = 40
	tickets := f.enterMany("v", n)
	f.configure(queue.Patch{RateOverride: ptr(ptr(float64(queue.MaxRate)))})
	b := f.batch(0)
	if len(b.Admitted) != n {
		t.Fatalf("admitted %d of %d", len(b.Admitted), n)
	}
	for i, a := range b.Admitted {
		if a.Subject != tickets[i].Subject || a.TicketID != tickets[i].ID || a.Place != tickets[i].Place || a.Epoch != tickets[i].Epoch {
			t.Fatalf("admission %d is %+v, want that of %+v", i, a, tickets[i])
		}
		// Stratified: the i-th falls into the i-th part of the window.
		part := opts.Jitter / n
		offset := a.NotBefore.Sub(a.AdmittedAt)
		if offset < part*time.Duration(i)-time.Millisecond || offset > part*time.Duration(i+1) {
			t.Errorf("admission %d may start %s into the window of %s", i, offset, opts.Jitter)
		}
		if a.ExpiresAt.Sub(a.NotBefore) != opts.AdmissionTTL {
			t.Errorf("admission %d is good for %s", i, a.ExpiresAt.Sub(a.NotBefore))
		}
		// Whoever asks is given the same record, on every client.
		for _, client := range []queue.Line{f.line, f.client()} {
			if s, err := client.Standing(f.ctx, tickets[i]); err != nil || s.State != queue.Admitted || s.Admission != a {
				t.Fatalf("standing of %d: %+v, %v; want %+v", i, s, err, a)
			}
		}
	}
}

// However many processes call, a tick has one batch, and all of them together
// let in rate × time.
func testOneBatchPerTick(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 1000) // more than a slow machine gets through
	const rate = 200.0     // 4 a tick
	var g errgroup.Group
	all := make([][]queue.Batch, 4)
	start := f.batch(rate)
	for i := range all {
		line := f.client()
		g.Go(func() error {
			for range 60 {
				b, err := line.Admit(f.ctx, rate, queue.LimitedByCapacity)
				if err != nil {
					return err
				}
				all[i] = append(all[i], b)
				f.wait(f.opts.Tick / 5)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	ticks := map[int64]bool{start.At.UnixMicro() / f.opts.Tick.Microseconds(): true}
	seen := map[string]bool{}
	total, dropped, last := 0.0, 0.0, start.At
	given := []queue.Batch{start}
	for _, batches := range all {
		for _, b := range batches {
			if b.Skipped {
				continue
			}
			tick := b.At.UnixMicro() / f.opts.Tick.Microseconds()
			if ticks[tick] {
				t.Fatalf("two batches in tick %d", tick)
			}
			ticks[tick] = true
			given = append(given, b)
			if most := 2*rate*f.opts.Tick.Seconds() + 1; float64(len(b.Admitted)) > most {
				t.Fatalf("a batch of %d, at most %g", len(b.Admitted), most)
			}
			for _, a := range b.Admitted {
				if seen[a.TicketID] {
					t.Fatalf("%s was admitted twice", a.Subject)
				}
				seen[a.TicketID] = true
			}
			total += float64(len(b.Admitted))
			dropped += b.Dropped
			if b.At.After(last) {
				last = b.At
			}
		}
	}
	slices.SortFunc(given, func(a, b queue.Batch) int { return a.At.Compare(b.At) })
	for i, b := range given[1:] {
		if !b.Since.Equal(given[i].At) {
			t.Fatalf("a batch at %s says that the one before was at %s, not %s", b.At, b.Since, given[i].At)
		}
	}
	want := rate * last.Sub(start.At).Seconds()
	if math.Abs(total+dropped-want) > 1 {
		t.Fatalf("admitted %g and dropped %g in %s, want %g together", total, dropped, last.Sub(start.At), want)
	}
}

// 17.5 a tick is 175 in ten ticks, not 170 or 180.
func testCarry(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 200)
	rate := 3.7 / f.opts.Tick.Seconds()
	first := f.batch(rate)
	total, dropped, last := 0.0, 0.0, first
	for range 20 {
		last = f.batch(rate)
		total += float64(len(last.Admitted))
		dropped += last.Dropped
	}
	want := rate * last.At.Sub(first.At).Seconds()
	if math.Abs(total+dropped-want) > 1 {
		t.Fatalf("admitted %g and dropped %g, want %g together", total, dropped, want)
	}
}

// Two ticks' worth of a slow rate is less than one visitor: the bound is on the
// time, not on the permits saved up so far.
func testSlowRate(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 2)
	rate := 0.2 / f.opts.Tick.Seconds()
	admitted := 0
	f.until("one is let in", func() bool {
		b := f.batch(rate)
		if len(b.Admitted) == 0 && b.LimitedBy != queue.LimitedByCapacity {
			t.Fatalf("limited by %s", b.LimitedBy)
		}
		admitted += len(b.Admitted)
		return admitted > 0
	})
}

// What a stall swallows beyond two ticks is dropped and counted, not paid out.
func testStall(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 200)
	rate := 4 / f.opts.Tick.Seconds()
	first := f.batch(rate)
	f.wait(10 * f.opts.Tick)
	b := f.batch(rate)
	if n := len(b.Admitted); n < 8 || n > 9 {
		t.Fatalf("admitted %d after a stall, want two ticks' worth and the fraction", n)
	}
	stall := b.At.Sub(first.At)
	if want := rate * (stall - 2*f.opts.Tick).Seconds(); math.Abs(b.Dropped-want) > 0.001 {
		t.Fatalf("dropped %g in a stall of %s, want %g", b.Dropped, stall, want)
	}
	if s := f.snapshot(); math.Abs(s.Dropped-b.Dropped) > 0.001 {
		t.Fatalf("the snapshot says %g, the batch %g", s.Dropped, b.Dropped)
	}
	// An idle line saves nothing up either.
	f.configure(queue.Patch{RateOverride: ptr(ptr(float64(queue.MaxRate)))})
	f.until("empty", func() bool { f.batch(0); return f.snapshot().Waiting == 0 })
	f.configure(queue.Patch{RateOverride: ptr((*float64)(nil))})
	for range 5 {
		if b := f.batch(rate); b.LimitedBy != queue.LimitedByNoOneWaits {
			t.Fatalf("limited by %s", b.LimitedBy)
		}
	}
	f.enterMany("w", 100)
	if b := f.batch(rate); len(b.Admitted) > 9 {
		t.Fatalf("an idle line saved up %d", len(b.Admitted))
	}
}

// A rate that is none is refused, and the line goes on as before.
func testNoRate(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 10)
	for _, rate := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		if b, err := f.line.Admit(f.ctx, rate, queue.LimitedByCapacity); err == nil || errors.Is(err, queue.ErrUnavailable) || len(b.Admitted) > 0 {
			t.Errorf("a rate of %v: %+v, %v", rate, b, err)
		}
	}
	f.admit(3)
}

func testExpiry(t *testing.T, impl Implementation) {
	opts := options()
	opts.AdmissionTTL = 2 * time.Second // longer than a slow machine needs for the steps before
	opts.Initial.MaxActive = 2
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 4)
	f.admit(2)
	if s := f.snapshot(); s.Inside != 2 {
		t.Fatalf("inside: %+v", s)
	}
	// With two of two inside, the third waits until they have run out.
	rate := 10 / opts.Tick.Seconds()
	b := f.batch(rate)
	if len(b.Admitted) != 0 || b.LimitedBy != queue.LimitedByMaxActive {
		t.Fatalf("a third of two: %+v", b)
	}
	next := 0
	f.until("the others are let in", func() bool { next += len(f.batch(rate).Admitted); return next == 2 })
	f.wantState(tickets[0], queue.Expired)
	f.wantState(tickets[1], queue.Expired)
	if s := f.snapshot(); s.Expired != 2 || s.Admitted != 4 {
		t.Fatalf("after expiry: %+v", s)
	}
}

// Nobody's turn passes in a stall: an admission of which nobody was told is given anew.
func testMissedTurnAsked(t *testing.T, impl Implementation) {
	testMissedTurn(t, impl, func(*fixture) {})
}

func testMissedTurnBatch(t *testing.T, impl Implementation) {
	testMissedTurn(t, impl, func(f *fixture) {
		f.batch(0)
		f.wait(2 * f.opts.Tick)
		f.batch(0)
	})
}

// testMissedTurn has something happen between the stall and the first poll.
func testMissedTurn(t *testing.T, impl Implementation, after func(*fixture)) {
	opts := options()
	opts.AdmissionTTL = 600 * time.Millisecond
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 2)
	all := f.admit(2)
	f.wantState(tickets[0], queue.Admitted)
	f.wait(queue.StallAfter + 200*time.Millisecond)
	after(f)
	f.wantState(tickets[0], queue.Expired)
	st := f.wantState(tickets[1], queue.Admitted)
	if a := st.Admission; a.TicketID != tickets[1].ID || !a.AdmittedAt.Equal(all[1].AdmittedAt) ||
		a.NotBefore.Sub(all[1].ExpiresAt) < 0 || a.ExpiresAt.Sub(a.NotBefore) != opts.AdmissionTTL {
		t.Errorf("given anew: %+v, at first %+v", a, all[1])
	}
	if s := f.snapshot(); s.Expired != 1 || s.Inside != 1 || s.Admitted != 2 {
		t.Errorf("after the stall: %+v", s)
	}
	// Once: now they have been told, and the line goes on.
	f.until("it has run out", func() bool { f.batch(0); return f.snapshot().Expired == 2 })
	f.wantState(tickets[1], queue.Expired)
}

func testSpend(t *testing.T, impl Implementation) {
	opts := options()
	opts.Initial.MaxActive = 1
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 2)
	f.admit(1)
	for range 2 { // a repeated report counts once
		f.spend(tickets[0])
	}
	f.wantState(tickets[0], queue.Spent)
	if s := f.snapshot(); s.Spent != 1 || s.Inside != 0 {
		t.Fatalf("after spending: %+v", s)
	}
	f.admit(1) // the slot is free again
	f.wantState(tickets[1], queue.Admitted)
	many := make([]queue.Completion, 1234)
	for i := range many {
		many[i] = queue.Completion{Subject: fmt.Sprint("s", i), TicketID: fmt.Sprint("t", i)}
	}
	if err := f.line.Spend(f.ctx, many); err != nil {
		t.Fatal(err)
	}
	if s := f.snapshot(); s.Spent != 1+int64(len(many)) {
		t.Fatalf("after spending many: %+v", s)
	}
}

func testSettings(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 100)
	rate := 5 / f.opts.Tick.Seconds()
	try := func(p queue.Patch, want queue.LimitedBy, some bool) {
		t.Helper()
		f.configure(p)
		f.batch(rate) // the first one still owes for the time before the change
		f.wait(f.opts.Tick)
		b := f.batch(rate)
		if b.LimitedBy != want || (len(b.Admitted) > 0) != some {
			t.Fatalf("%d admitted, limited by %s; want %s, some: %v", len(b.Admitted), b.LimitedBy, want, some)
		}
	}
	try(queue.Patch{}, queue.LimitedByCapacity, true)
	try(queue.Patch{Paused: ptr(true)}, queue.LimitedByPaused, false)
	try(queue.Patch{RateOverride: ptr(ptr(50.0 * rate))}, queue.LimitedByPaused, false) // pause binds
	try(queue.Patch{Paused: ptr(false), RateOverride: ptr(ptr(0.0))}, queue.LimitedByOverride, false)
	try(queue.Patch{RateOverride: ptr(ptr(rate))}, queue.LimitedByOverride, true)
	try(queue.Patch{Mode: ptr(queue.ModeBlock)}, queue.LimitedByBlock, false) // what stands in front of the line binds
	try(queue.Patch{Mode: ptr(queue.ModeBypass)}, queue.LimitedByBypass, false)
	try(queue.Patch{Paused: ptr(true)}, queue.LimitedByPaused, false)
	// The line itself knows who waits, and gives places, as ever.
	if s := f.enter("newcomer", nil); s.State != queue.Waiting || s.Position != s.Length {
		t.Fatalf("entering a line that is passed by: %+v", s)
	}
	f.wantState(f.ticket("old", 0, f.snapshot().At.UnixMicro()), queue.Waiting)
	try(queue.Patch{Paused: ptr(false), Mode: ptr(queue.ModeNormal)}, queue.LimitedByOverride, true)
	try(queue.Patch{MaxActive: ptr(int64(1))}, queue.LimitedByMaxActive, false) // the cap binds
	try(queue.Patch{MaxActive: ptr(int64(0)), RateOverride: ptr((*float64)(nil))}, queue.LimitedByCapacity, true)
}

func testPassthrough(t *testing.T, impl Implementation) {
	opts := options()
	opts.Jitter = 100 * time.Millisecond
	f := open(t, impl, opts)
	waiting := f.enterMany("w", 5)
	f.configure(queue.Patch{Mode: ptr(queue.ModePassthrough)})
	s := f.enter("direct", nil)
	if s.State != queue.Admitted || !s.Created {
		t.Fatalf("entering in passthrough: %+v", s)
	}
	if offset := s.Admission.NotBefore.Sub(s.Admission.AdmittedAt); offset < 0 || offset > opts.Jitter {
		t.Fatalf("jitter of %s", offset)
	}
	if again := f.enter("direct", &s.Ticket); again.Created || again.Admission != s.Admission {
		t.Fatalf("entering again: %+v, want %+v", again, s)
	}
	// Who only asks does not move: the next batch takes in those who wait.
	f.wantPosition(waiting[4], 5)
	gone := waiting[0]
	gone.Subject, gone.ID, gone.Place = "nobody knows", queue.NewID(), gone.Place-1
	f.wantState(gone, queue.Waiting)
	if err := f.line.Leave(f.ctx, gone); err != nil {
		t.Fatal(err)
	}
	if s := f.enter(waiting[4].Subject, &waiting[4]); s.State != queue.Admitted || s.Created {
		t.Fatalf("entering again from the line: %+v", s)
	}
	// The next batch takes in those who wait, without a rate.
	if b := f.batch(0); len(b.Admitted) != 4 {
		t.Fatalf("the batch of a passthrough: %+v", b)
	}
	f.configure(queue.Patch{Paused: ptr(true)})
	if s := f.enter("paused", nil); s.State != queue.Waiting {
		t.Fatalf("a pause binds in passthrough: %+v", s)
	}
}

// With a cap nobody passes those who wait in front of them.
func testPassthroughCap(t *testing.T, impl Implementation) {
	opts := options()
	opts.Initial.Mode = queue.ModePassthrough
	opts.Initial.MaxActive = 2
	f := open(t, impl, opts)
	var tickets []queue.Ticket
	for i := range 4 {
		s := f.enter(fmt.Sprint("v", i), nil)
		if want := map[bool]queue.State{true: queue.Admitted, false: queue.Waiting}[i < 2]; s.State != want {
			t.Fatalf("visitor %d is %s, want %s", i, s.State, want)
		}
		tickets = append(tickets, s.Ticket)
	}
	f.spend(tickets[0])
	if s := f.enter("late", nil); s.State != queue.Waiting || s.Position != 3 {
		t.Fatalf("a newcomer passed the line: %+v", s)
	}
	if b := f.batch(0); len(b.Admitted) != 1 || b.Admitted[0].TicketID != tickets[2].ID || b.LimitedBy != queue.LimitedByMaxActive {
		t.Fatalf("the batch with one free slot: %+v", b)
	}
}

func testSettingsShared(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	other := f.client()
	closes := time.Date(2199, 12, 31, 23, 59, 59, 999e6, time.UTC)
	want := f.configure(queue.Patch{
		Weight: ptr(int64(9)), PollBudget: ptr(ptr(0.5)), ClosesAt: ptr(ptr(closes.Add(time.Microsecond))),
		Paused: ptr(true), Message: ptr("한국어 \"quoted\"\n"), Mode: ptr(queue.ModePassthrough),
		RateOverride: ptr(ptr(17.5)), MaxActive: ptr(int64(500)), MaxLength: ptr(int64(7)), SoldOut: ptr(true),
	})
	if want.Revision <= 0 {
		t.Fatalf("revision %d", want.Revision)
	}
	s, err := other.Snapshot(f.ctx)
	if err != nil || !sameSettings(s.Settings, want) {
		t.Fatalf("the other client reads %+v, %v; want %+v", s.Settings, err, want)
	}
	if o, b, at := want.RateOverride, want.PollBudget, want.ClosesAt; o == nil || *o != 17.5 || b == nil || *b != 0.5 || at == nil || !at.Equal(closes) {
		t.Fatalf("settings %+v", want)
	}
	changed, err := other.Configure(f.ctx, queue.Patch{Paused: ptr(false)})
	if err != nil || changed.Revision <= want.Revision || changed.Paused || changed.Message != want.Message {
		t.Fatalf("a partial change: %+v, %v", changed, err)
	}
}

func testSnapshot(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	if s := f.snapshot(); s.Line != f.line.ID() || s.Epoch != 0 || s.Waiting != 0 || s.LimitedBy != "" || s.Settings.Mode != queue.ModeNormal {
		t.Fatalf("a new line: %+v", s)
	}
	tickets := f.enterMany("v", 5)
	f.admit(2)
	f.spend(tickets[0])
	s := f.snapshot()
	if s.Waiting != 3 || s.Inside != 1 || s.Admitted != 2 || s.Spent != 1 || s.Rate <= 0 || s.At.IsZero() {
		t.Fatalf("snapshot: %+v", s)
	}
}

// Who only asks whether the store takes a batch lets nobody in, whatever the operator
// says, and the batches of others are what they would be.
func testAsking(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 10)
	f.batch(0)
	for _, p := range []queue.Patch{
		{RateOverride: ptr(ptr(1000.0))}, {RateOverride: ptr((*float64)(nil)), Mode: ptr(queue.ModePassthrough)},
	} {
		f.configure(p)
		before := f.snapshot()
		for range 5 {
			b, err := f.client().Admit(f.ctx, 0, queue.LimitedByBlock)
			if err != nil || !b.Skipped || len(b.Admitted) != 0 {
				t.Fatalf("asked: %+v, %v", b, err)
			}
			f.wait(f.opts.Tick)
		}
		if s := f.snapshot(); s.Admitted != 0 || s.LimitedBy != before.LimitedBy || s.Rate != before.Rate {
			t.Fatalf("asking changed %+v to %+v", before, s)
		}
	}
	f.configure(queue.Patch{Mode: ptr(queue.ModeNormal)})
	f.wait(2 * f.opts.Tick)
	if b := f.batch(2 / f.opts.Tick.Seconds()); len(b.Admitted) != 4 { // two ticks' worth
		t.Fatalf("afterwards %d were let in: %+v", len(b.Admitted), b)
	}
}
