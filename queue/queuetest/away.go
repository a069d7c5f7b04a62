package queuetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/queue"
)

// sweepFor sweeps for a while, all lines at once, with the subjects heard, and
// returns how many were taken out of each.
func sweepFor(d time.Duration, heard []string, lines ...*fixture) []queue.Swept {
	sums := make([]queue.Swept, len(lines))
	for start := time.Now(); time.Since(start) <= d; {
		for i, f := range lines {
			s := f.sweep(heard...)
			sums[i].Away += s.Away
			sums[i].GivenUp += s.GivenUp
		}
		lines[0].wait(50 * time.Millisecond)
	}
	return sums
}

// Who is not heard for longer than they were told to wait, and grace, steps out
// of the order; their next poll brings them back to where they were.
func testAway(t *testing.T, impl Implementation) {
	opts := options()
	opts.Told = &queue.Told{}
	opts.Told.Note(1300 * time.Millisecond)
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 5)
	before := f.snapshot().At
	f.markAway([]string{"v1", "v3"}, "v0", "v2", "v4", "nobody")
	if took := f.snapshot().At.Sub(before); took <= 1400*time.Millisecond {
		t.Fatalf("away after %s", took)
	}
	if s := f.snapshot(); s.Waiting != 3 || s.Away != 2 || s.Left != 0 {
		t.Fatalf("two of five are away: %+v", s)
	}
	f.wantPosition(tickets[2], 2)
	f.wantPosition(tickets[4], 3)
	// Nobody away uses up an admission.
	for i, a := range f.admit(2) {
		if want := tickets[2*i]; a.TicketID != want.ID {
			t.Fatalf("admission %d is %+v, want %+v", i, a, want)
		}
	}
	for range 2 {
		if s := f.enter("v3", &tickets[3]); s.Created || s.Position != 1 || s.Ticket != tickets[3] {
			t.Fatalf("entering again: %+v", s)
		}
	}
	f.wantPosition(tickets[1], 1)
	f.wantPosition(tickets[3], 2)
	if s := f.snapshot(); s.Waiting != 3 || s.Away != 0 {
		t.Fatalf("both are back: %+v", s)
	}
	// Whoever comes back counts as heard, and goes in with the next batch.
	f.wait(550 * time.Millisecond)
	if s := f.sweep("v4"); s.Away != 0 {
		t.Fatalf("away at once: %+v", s)
	}
	for i, a := range f.admit(3) {
		if want := []string{"v1", "v3", "v4"}[i]; a.Subject != want {
			t.Fatalf("admission %d is %+v, want %s", i, a, want)
		}
	}
}

// Each is waited for as long as they were told, whatever others were.
func testAwayAsTold(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 3)
	f.sweep()
	before := f.snapshot().At
	f.sweepTold(1500*time.Millisecond, "v1")
	f.markAway([]string{"v0"}, "v2")
	f.wantPosition(tickets[1], 1)
	f.markAway([]string{"v1"}, "v2")
	if took := f.snapshot().At.Sub(before); took <= 1500*time.Millisecond {
		t.Fatalf("away after %s", took)
	}
}

// By subject alone, without a ticket, an away place is found as well.
func testAwayBySubject(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 3)
	f.markAway([]string{"v0", "v1"}, "v2")
	if s := f.enter("v1", nil); s.Created || s.Position != 1 || s.Ticket != tickets[1] {
		t.Fatalf("entering again: %+v, want %+v", s, tickets[1])
	}
	f.wantPosition(tickets[0], 1)
}

// Many go away and come back in any order, while the line moves: positions are
// those of a plain sorted slice.
func testAwayModel(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	waiting := f.enterMany("v", 60)
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		rnd.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		n := len(waiting) / 3
		away, here := slices.Clone(waiting[:n]), slices.SortedFunc(slices.Values(waiting[n:]), byPlace)
		f.markAway(subjects(away, -1), subjects(here, -1)...)
		admitted := 0
		for i, ticket := range away {
			here = append(here, ticket)
			slices.SortFunc(here, byPlace)
			f.wantPosition(ticket, int64(slices.Index(here, ticket)+1))
			if i%4 == 0 {
				if a := f.admit(1)[0]; a.TicketID != here[0].ID {
					t.Fatalf("round %d: admitted %+v, want %+v", round, a, here[0])
				}
				here = here[1:]
				admitted++
			}
		}
		for i, ticket := range here {
			f.wantPosition(ticket, int64(i+1))
		}
		waiting = here
	}
}

func byPlace(a, b queue.Ticket) int { return int(a.Place - b.Place) }

// Only near the head does silence matter.
func testZone(t *testing.T, impl Implementation) {
	opts := options()
	opts.Told = &queue.Told{}
	f := open(t, impl, opts)
	f.enterMany("v", queue.MinZone+50)
	var s queue.Swept
	f.until("somebody is away", func() bool { s = f.sweep(); return s.Away > 0 })
	if s.Zone != queue.MinZone || s.Away != queue.MinZone {
		t.Fatalf("swept %+v, want the first %d", s, queue.MinZone)
	}
	// Those behind them are near the head from now on: nobody listened before.
	f.wait(600 * time.Millisecond)
	if s := f.sweep(); s.Away != 0 {
		t.Fatalf("away as soon as they came near: %+v", s)
	}
	f.until("the others are away", func() bool { s = f.sweep(); return s.Away > 0 })
	if s.Away != 50 {
		t.Fatalf("swept %+v, want the other 50", s)
	}
	f.configure(queue.Patch{Paused: ptr(true)}) // the rate is known all the same
	opts.Told.Note(30 * time.Second)
	for _, tt := range []struct {
		rate float64
		want int64
	}{{1, queue.MinZone}, {50, 3010}, {1000, queue.MaxZone}} {
		f.batch(tt.rate)
		if s := f.sweep(); s.Zone < tt.want-1 || s.Zone > tt.want {
			t.Fatalf("the zone at %g/s is %d, want %d", tt.rate, s.Zone, tt.want)
		}
	}
}

// A rate that falls and rises again, as one does that is being found, does not begin
// anew with those whom it leaves out of the zone for a moment.
func testShakingZone(t *testing.T, impl Implementation) {
	opts := options()
	opts.Grace = time.Second
	f := open(t, impl, opts)
	f.enterMany("v", queue.MinZone+51)
	f.configure(queue.Patch{MaxActive: ptr(int64(1))}) // the rate is known all the same
	f.admit(1)
	high, away := false, int64(0)
	f.until("somebody is away", func() bool {
		high = !high
		f.batch(map[bool]float64{true: 200, false: 1}[high])
		f.wait(600 * time.Millisecond) // a marking each
		away = f.sweep().Away
		return away > 0
	})
	if away != queue.MinZone+50 {
		t.Fatalf("%d of %d are away, and nobody was heard", away, queue.MinZone+50)
	}
	f.batch(200)
	large := f.sweep().Zone
	f.batch(1)
	f.until("the zone shrinks", func() bool { return f.sweep().Zone < large })
}

// Silence counts only while the line is open and moves, and while it is listened
// to. The first line here is the one where it does.
func testNotListening(t *testing.T, impl Implementation) {
	opts := options()
	opts.Grace = 400 * time.Millisecond
	lines := make([]*fixture, 7)
	for i := range lines {
		if i == 6 {
			opts.RecoveryHold = 3 * time.Second
		}
		lines[i] = open(t, impl, opts)
		lines[i].snapshot()
	}
	moves, paused, blocked, passed, scheduled, closed, recovers := lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], lines[6]
	paused.configure(queue.Patch{Paused: ptr(true)})
	blocked.configure(queue.Patch{Mode: ptr(queue.ModeBlock)})
	passed.configure(queue.Patch{Mode: ptr(queue.ModeBypass)})
	scheduled.opensIn(time.Hour)
	for _, f := range lines {
		f.enterMany("v", 3)
	}
	past := closed.snapshot().At.Add(-time.Second)
	closed.configure(queue.Patch{ClosesAt: ptr(&past)})
	recovers.wantState(recovers.longAgo("v0"), queue.Waiting)

	for i, s := range sweepFor(1200*time.Millisecond, nil, lines...) {
		if want := map[bool]int64{true: 3}[lines[i] == moves]; s.Away != want {
			t.Fatalf("line %d: %d away, want %d", i, s.Away, want)
		}
	}
	if s := recovers.snapshot(); !s.Recovering() {
		t.Fatal("the hold was too short for this machine")
	}
	paused.configure(queue.Patch{Paused: ptr(false)})
	blocked.configure(queue.Patch{Mode: ptr(queue.ModeNormal)})
	passed.configure(queue.Patch{Mode: ptr(queue.ModeNormal)})
	scheduled.opensIn(-time.Second)
	closed.configure(queue.Patch{ClosesAt: ptr((*time.Time)(nil))})
	before := paused.snapshot().At
	for i, s := range sweepFor(0, nil, lines[1:6]...) {
		if s.Away != 0 {
			t.Fatalf("line %d: away at once: %+v", i+1, s)
		}
	}
	for i, f := range lines[1:6] {
		f.markAway([]string{"v0", "v1", "v2"})
		if took := f.snapshot().At.Sub(before); took < opts.Grace-200*time.Millisecond { // the last sweep was a little before
			t.Fatalf("line %d: away after %s", i+1, took)
		}
	}
	recovers.until("the hold is over", func() bool { recovers.sweep(); return !recovers.snapshot().Recovering() })
	if s := recovers.sweep(); s.Away != 0 {
		t.Fatalf("away as soon as the hold is over: %+v", s)
	}
	recovers.markAway([]string{"v0", "v1", "v2"})
}

// When nobody has swept for five seconds, nobody has listened.
func testUnswept(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 3)
	heard := []string{"v0", "v1", "v2"}
	if s := sweepFor(600*time.Millisecond, heard, f)[0]; s.Away != 0 {
		t.Fatalf("%+v, and all were heard", s)
	}
	f.wait(5100 * time.Millisecond)
	if s := f.sweep(); s.Away != 0 {
		t.Fatalf("away at the first sweep since: %+v", s)
	}
	f.markAway(heard)
}

// An away place is kept for so long after the head has passed it, and no longer;
// before that, for ever.
func testKeepPlace(t *testing.T, impl Implementation) {
	opts := options()
	opts.KeepPlace = 900 * time.Millisecond
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 5)
	f.markAway([]string{"v0", "v1", "v4"}, "v2", "v3")
	if s := sweepFor(opts.KeepPlace+200*time.Millisecond, []string{"v2", "v3"}, f)[0]; s.GivenUp != 0 {
		t.Fatalf("given up before the head has passed: %+v", s)
	}
	passed := f.admit(1)[0].AdmittedAt
	if s := f.sweep("v3"); s.GivenUp != 0 {
		t.Fatalf("given up when the head passes: %+v", s)
	}
	f.wantPosition(tickets[1], 1)
	var givenUp int64
	f.until("one is given up", func() bool { givenUp += f.sweep("v3", "v1").GivenUp; return givenUp > 0 })
	s := f.snapshot()
	if took := s.At.Sub(passed); took < opts.KeepPlace || givenUp != 1 {
		t.Fatalf("%d given up %s after the head has passed", givenUp, took)
	}
	if s.GivenUp != 1 || s.Expired != 0 || s.Left != 0 || s.Away != 1 || s.Waiting != 2 {
		t.Fatalf("after giving one up: %+v", s)
	}
	f.wantState(tickets[0], queue.Expired)
	if s := f.enter("v0", &tickets[0]); !s.Created || s.State != queue.Waiting || s.Position != s.Length {
		t.Fatalf("entering again: %+v, want a new ticket at the tail", s)
	}
	// Who came back and goes away again behind the head has the same time once more.
	f.markAway([]string{"v1"}, "v3", "v0")
	f.wait(opts.KeepPlace + 10*time.Millisecond)
	f.wantState(tickets[1], queue.Expired) // also if no sweep has come to it
	f.wantState(tickets[4], queue.Waiting) // whom the head has not passed
	if s := f.snapshot(); s.GivenUp != 2 || s.Expired != 0 || s.Away != 0 || s.Waiting != 3 {
		t.Fatalf("after giving both up: %+v", s)
	}
}
