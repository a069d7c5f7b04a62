package queuetest

import (
	"fmt"
	"testing"
	"time"

	"sluice/queue"
)

func (f *fixture) arrive(tickets ...queue.Ticket) {
	f.Helper()
	var came []queue.Completion
	for _, t := range tickets {
		came = append(came, queue.Completion{Subject: t.Subject, TicketID: t.ID})
	}
	if err := f.line.Arrive(f.ctx, came); err != nil {
		f.Fatalf("Arrive: %v", err)
	}
}

// Whoever comes to order counts once, in the cohort of their admission.
func testArrivals(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 6)
	admissions := f.admit(2)
	f.wait(1050 * time.Millisecond) // into another second
	admissions = append(admissions, f.admit(3)...)
	second := func(i int) int64 { return admissions[i].AdmittedAt.Unix() }
	arrived := map[int64]int64{}
	check := func(what string, total, spent int64) {
		t.Helper()
		s := f.snapshot()
		if s.Arrived != total || s.Spent != spent {
			t.Fatalf("%s: %d arrived, %d spent; want %d and %d", what, s.Arrived, s.Spent, total, spent)
		}
		want := map[int64]queue.Cohort{}
		for i := range admissions {
			c := want[second(i)]
			want[second(i)] = queue.Cohort{Second: second(i), Admitted: c.Admitted + 1, Arrived: arrived[second(i)]}
		}
		if len(s.Cohorts) != len(want) {
			t.Fatalf("%s: cohorts %+v, want %+v", what, s.Cohorts, want)
		}
		for i, c := range s.Cohorts {
			if i > 0 && c.Second <= s.Cohorts[i-1].Second || c != want[c.Second] {
				t.Fatalf("%s: cohorts %+v, want %+v", what, s.Cohorts, want)
			}
		}
	}
	check("nobody came", 0, 0)
	f.arrive(tickets[0], tickets[3], tickets[0])
	arrived[second(0)]++
	arrived[second(3)]++
	check("two came, one was told twice", 2, 0)
	f.arrive(tickets[0], tickets[5], f.ticket("nobody", 0, 1))
	check("once more, who waits, and who is unknown", 2, 0)
	f.spend(tickets[0])
	check("who came has ordered", 2, 1)
	f.spend(tickets[1])
	arrived[second(1)]++
	check("an order is an arrival", 3, 2)
	f.spend(tickets[1])
	f.arrive(tickets[1])
	check("told again", 3, 2)
	if err := f.line.Leave(f.ctx, tickets[2]); err != nil {
		t.Fatal(err)
	}
	f.arrive(tickets[2])
	check("an admission that has ended", 3, 2)
	f.spend(tickets[2])
	f.spend(queue.Ticket{Subject: "unknown", ID: "unknown"})
	check("orders of an ended admission, and of a forgotten one", 5, 4)

	// Many at once.
	const many = 1100
	crowd := f.enterMany("w", many)
	f.configure(queue.Patch{Mode: ptr(queue.ModePassthrough)})
	for _, a := range f.batch(0).Admitted {
		admissions = append(admissions, a)
		if a.Subject != tickets[5].Subject {
			arrived[a.AdmittedAt.Unix()]++
		}
	}
	f.arrive(crowd...)
	check("many", 5+many, 4)
	// And who passes directly.
	direct := f.enter("direct", nil)
	admissions = append(admissions, direct.Admission)
	f.arrive(direct.Ticket)
	arrived[direct.Admission.AdmittedAt.Unix()]++
	check("directly", 6+many, 4)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	admissions = nil
	check("after a restart", 0, 0)
}

// The lag is a moving mean of the time from admission to arrival.
func testLag(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 2)
	admissions := f.admit(2)
	if s := f.snapshot(); s.Lag != 0 {
		t.Fatalf("a lag of %s before the first arrival", s.Lag)
	}
	var low, high time.Duration // what the mean must be between
	for i, pause := range []time.Duration{200 * time.Millisecond, 2 * time.Second} {
		f.wait(pause)
		before := f.snapshot().At.Sub(admissions[i].AdmittedAt)
		if i == 0 {
			f.arrive(tickets[i])
		} else {
			f.spend(tickets[i])
		}
		after := f.snapshot().At.Sub(admissions[i].AdmittedAt)
		if i == 0 {
			low, high = before, after
		} else {
			low, high = low+(before-low)/32, high+(after-high)/32
		}
		const rounding = 2 * time.Millisecond
		if s := f.snapshot(); s.Lag < low-rounding || s.Lag > high+rounding {
			t.Fatalf("arrival %d: a lag of %s, want %s to %s", i, s.Lag, low, high)
		}
	}
}

// An order of an admission that the line does not know says nothing about the lag.
func testLagOfUnknown(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.spend(queue.Ticket{Subject: "unknown", ID: "unknown"})
	ticket := f.enter("v", nil).Ticket
	f.admit(1)
	f.wait(200 * time.Millisecond)
	f.arrive(ticket)
	if s := f.snapshot(); s.Lag < 190*time.Millisecond {
		t.Fatalf("a lag of %s, want 200ms", s.Lag)
	}
}

// The reason of a rate is the caller's, unless something else binds.
func testWhy(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enterMany("v", 100)
	try := func(why, want queue.LimitedBy) {
		t.Helper()
		var b queue.Batch
		f.until("a batch", func() bool {
			var err error
			if b, err = f.line.Admit(f.ctx, 10, why); err != nil {
				t.Fatal(err)
			}
			return !b.Skipped
		})
		if b.LimitedBy != want || f.snapshot().LimitedBy != want {
			t.Fatalf("limited by %s, want %s", b.LimitedBy, want)
		}
	}
	try(queue.LimitedByBacklog, queue.LimitedByBacklog)
	try(queue.LimitedByCapacity, queue.LimitedByCapacity)
	f.configure(queue.Patch{RateOverride: ptr(ptr(1.0))})
	try(queue.LimitedByBacklog, queue.LimitedByOverride)
	f.configure(queue.Patch{Paused: ptr(true)})
	try(queue.LimitedByBacklog, queue.LimitedByPaused)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	try(queue.LimitedByBacklog, queue.LimitedByPaused) // also when nobody waits
	f.configure(queue.Patch{RateOverride: ptr((*float64)(nil)), Paused: ptr(false)})
	try(queue.LimitedByBacklog, queue.LimitedByNoOneWaits)
}

// Who gives up while waiting is counted, whoever decides it, and once.
func testLeft(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 7)
	f.markAway([]string{"v4", "v5"}, "v0", "v1", "v2", "v3", "v6")
	f.admit(2)
	leave := func(t queue.Ticket) {
		f.Helper()
		if err := f.line.Leave(f.ctx, t); err != nil {
			f.Fatal(err)
		}
	}
	remove := func(t queue.Ticket) {
		f.Helper()
		if found, err := f.line.Remove(f.ctx, t.Subject); err != nil || !found {
			f.Fatal(found, err)
		}
	}
	leave(tickets[0])  // inside
	remove(tickets[1]) // inside
	if s := f.snapshot(); s.Left != 0 || s.Waiting != 3 || s.Away != 2 {
		t.Fatalf("who leaves from inside: %+v", s)
	}
	leave(tickets[2])
	leave(tickets[2])
	remove(tickets[3])
	leave(tickets[4])
	remove(tickets[5])
	if s := f.snapshot(); s.Left != 4 || s.Waiting != 1 || s.Away != 0 || s.GivenUp != 0 {
		t.Fatalf("after four have gone: %+v", s)
	}
	for i, want := range []queue.State{queue.Left, queue.Removed, queue.Left, queue.Removed} {
		f.wantState(tickets[2+i], want)
	}
	leave(f.ticket("nobody", 0, tickets[6].Place))
	if s := f.snapshot(); s.Left != 4 {
		t.Fatalf("who held nothing: %+v", s)
	}
}

// Everything that is recorded, each ticket once, in the order of places.
func testExport(t *testing.T, impl Implementation) {
	opts := options()
	f := open(t, impl, opts)
	if all := f.export(); len(all) != 0 {
		t.Fatalf("a new line: %+v", all)
	}
	seed := f.opensIn(time.Hour).Seed
	want := map[string]queue.Record{}
	expect := func(ticket queue.Ticket, outcome queue.State) {
		r := queue.Record{TicketID: ticket.ID, Place: ticket.Place, EnteredAt: ticket.EnteredAt, Outcome: outcome}
		if ticket.Early() {
			r.Place = queue.DrawPlace(seed, ticket.ID)
		}
		want[ticket.ID] = r
	}
	early := f.enterMany("early", 5)
	for _, ticket := range early {
		expect(ticket, queue.Scheduled)
	}
	f.wantExport(want)
	early = drawn(seed, early)
	f.opensIn(-time.Second)
	late := f.enterMany("late", 1100)
	for _, ticket := range append(early, late...) {
		expect(ticket, queue.Waiting)
	}
	f.wantExport(want)

	admissions := f.admit(4)
	record := func(i int, outcome queue.State, fetched time.Time) {
		r := want[early[i].ID]
		r.Outcome, r.AdmittedAt, r.FetchedAt = outcome, admissions[i].AdmittedAt, fetched
		want[early[i].ID] = r
	}
	// The first poll that tells the admission is noted, and no other.
	before := f.snapshot().At.Truncate(time.Millisecond)
	f.wantState(early[1], queue.Admitted)
	after := f.snapshot().At
	f.wait(5 * time.Millisecond)
	f.wantState(early[1], queue.Admitted)
	fetched := f.find(early[1]).FetchedAt
	if fetched.Before(before) || fetched.After(after) {
		t.Fatalf("fetched at %s, want %s to %s", fetched, before, after)
	}
	f.spend(early[2])
	if err := f.line.Leave(f.ctx, early[3]); err != nil {
		t.Fatal(err)
	}
	record(0, queue.Admitted, time.Time{})
	record(1, queue.Admitted, fetched)
	record(2, queue.Spent, time.Time{})
	record(3, queue.Left, time.Time{})
	if err := f.line.Leave(f.ctx, early[4]); err != nil {
		t.Fatal(err)
	}
	expect(early[4], queue.Left)
	if _, err := f.line.Remove(f.ctx, late[0].Subject); err != nil {
		t.Fatal(err)
	}
	expect(late[0], queue.Removed)
	f.wantExport(want)
	f.spend(early[1]) // the end keeps what was known
	record(1, queue.Spent, fetched)
	f.wantExport(want)

	// Silence: the record stays that of somebody who waits.
	heard := subjects(late, 1)
	f.markAway([]string{late[1].Subject}, heard...)
	f.wantExport(want)
	// Whose place nobody remembers.
	f.spend(queue.Ticket{Subject: "forgotten", ID: "forgotten"})
	want["forgotten"] = queue.Record{TicketID: "forgotten", Outcome: queue.Spent}
	f.wantExport(want)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	if all := f.export(); len(all) != 0 {
		t.Fatalf("after a restart: %+v", all)
	}
}

func (f *fixture) export() []queue.Record {
	f.Helper()
	all, err := f.line.Export(f.ctx)
	if err != nil {
		f.Fatalf("Export: %v", err)
	}
	return all
}

func (f *fixture) find(t queue.Ticket) queue.Record {
	f.Helper()
	for _, r := range f.export() {
		if r.TicketID == t.ID {
			return r
		}
	}
	f.Fatalf("%s is not in the export", t.Subject)
	return queue.Record{}
}

func (f *fixture) wantExport(want map[string]queue.Record) {
	f.Helper()
	all := f.export()
	var last int64
	seen := map[string]bool{}
	for _, r := range all {
		w, ok := want[r.TicketID]
		if !ok || seen[r.TicketID] || r.Place < last {
			f.Fatalf("%+v is unknown, there twice, or not in order", r)
		}
		seen[r.TicketID], last = true, r.Place
		if got := fmt.Sprint(r); r.Place != w.Place || r.Outcome != w.Outcome || r.Bypassed != w.Bypassed || !r.EnteredAt.Equal(w.EnteredAt) ||
			!r.AdmittedAt.Equal(w.AdmittedAt) || !r.FetchedAt.Equal(w.FetchedAt) {
			f.Fatalf("recorded %s, want %v", got, w)
		}
	}
	if len(all) != len(want) {
		f.Fatalf("%d records, want %d", len(all), len(want))
	}
}

// What became of a ticket is forgotten; that it took part in the draw is not, or
// the records of an honest line would contradict what it has published.
func testDrawIsRemembered(t *testing.T, impl Implementation) {
	opts := options()
	opts.TicketTTL = time.Second
	f := open(t, impl, opts)
	f.opensIn(time.Hour)
	early := f.enterMany("early", 3)
	f.opensIn(-time.Second)
	if err := f.line.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	settings := f.snapshot().Settings
	for _, ticket := range early[:2] {
		if err := f.line.Leave(f.ctx, ticket); err != nil {
			t.Fatal(err)
		}
	}
	f.until("forgotten", func() bool {
		f.batch(0)
		return f.find(early[0]).Outcome != queue.Left
	})
	for i, outcome := range []queue.State{"", "", queue.Waiting} {
		r := f.find(early[i])
		if r.Place != queue.DrawPlace(settings.Seed, r.TicketID) || !r.EnteredAt.Equal(early[i].EnteredAt) || r.Outcome != outcome {
			t.Errorf("%+v, want place and time of the draw and the outcome %q", r, outcome)
		}
	}
	draw := queue.Draw{SeedSHA256: queue.HashSeed(settings.Seed), Seed: settings.Seed, TicketsSHA256: settings.TicketsSHA256}
	if found := queue.Audit(f.export(), draw); len(found) > 0 {
		t.Errorf("an honest draw: %+v", found)
	}
}
