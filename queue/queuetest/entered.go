package queuetest

import (
	"testing"
	"time"

	"sluice/queue"
)

// Whoever has entered waits, is away, was let in, or has lost the place: the counters
// tell how many have come.
func testEntered(t *testing.T, impl Implementation) {
	opts := options()
	opts.KeepPlace = 500 * time.Millisecond
	f := open(t, impl, opts)
	want := int64(0)
	check := func(what string) {
		t.Helper()
		s := f.snapshot()
		if got := s.Waiting + s.Away + s.Admitted + s.Left + s.GivenUp; got != want {
			t.Fatalf("%s: %d have entered, want %d: %+v", what, got, want, s)
		}
	}
	check("nobody")
	tickets := f.enterMany("v", 8)
	want += 8
	check("eight")
	f.enter("v3", nil)
	f.enter("v3", &tickets[3])
	check("one of them again")
	f.markAway([]string{"v0", "v1", "v2"}, "v3", "v4", "v5", "v6", "v7")
	check("three away")
	f.wantPosition(tickets[2], 1)
	check("one back")
	admissions := f.admit(2)
	check("two let in")
	f.spend(tickets[3])
	f.spend(tickets[2])
	check("two have ordered")
	if err := f.line.Leave(f.ctx, tickets[5]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.line.Remove(f.ctx, "v6"); err != nil {
		t.Fatal(err)
	}
	check("one left, one removed")
	given := int64(0)
	f.until("two are given up", func() bool { given += f.sweep("v4", "v7").GivenUp; return given == 2 })
	check("two given up")
	f.enter("v0", &tickets[0])
	f.enter(admissions[0].Subject, nil)
	want += 2
	check("two of them once more")
	f.record(f.bypass(tickets[7], 0, time.Hour))
	check("one of them let in without the line")
	f.record(f.bypass(f.ticket("stranger", tickets[0].Epoch, f.snapshot().At.UnixMicro()), 0, time.Hour))
	want++
	check("a stranger let in without the line")
	f.configure(queue.Patch{Mode: ptr(queue.ModePassthrough)})
	f.enter("direct", nil)
	want++
	check("one who need not wait")
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	want = 0
	check("after a restart")
}

// The head is the highest place let in from the line, whoever is let in after; the last
// place is that of the last who came.
func testHead(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	check := func(what string, head, last int64) {
		t.Helper()
		if s := f.snapshot(); s.Head != head || s.Last != last {
			t.Fatalf("%s: head %d, last %d; want %d and %d", what, s.Head, s.Last, head, last)
		}
	}
	if s := f.snapshot(); s.Head != 0 {
		t.Fatalf("nobody was let in, and the head is %d", s.Head)
	}
	tickets := f.enterMany("v", 5)
	last := tickets[4].Place
	check("five have come", 0, last)
	f.markAway([]string{"v0"}, "v1", "v2", "v3", "v4")
	f.admit(2)
	check("two let in past one who is away", tickets[2].Place, last)
	f.standing(tickets[0]) // back, and in front
	f.admit(1)
	check("who came back let in", tickets[2].Place, last)
	if err := f.line.Leave(f.ctx, tickets[4]); err != nil {
		t.Fatal(err)
	}
	check("the last has left", tickets[2].Place, last)
	f.record(f.bypass(tickets[3], 0, time.Hour))
	check("one let in without the line", tickets[2].Place, last)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	if s := f.snapshot(); s.Head != 0 || s.Last < last {
		t.Fatalf("after a restart: head %d, last %d; want 0 and at least %d", s.Head, s.Last, last)
	}
	again := f.enter("v0", nil).Ticket
	check("another epoch", 0, again.Place)
}
