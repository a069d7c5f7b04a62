package queuetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/queue"
)

// bypass is an admission that was given to a ticket without the line, so long ago and
// good for so long from then.
func (f *fixture) bypass(t queue.Ticket, ago, good time.Duration) queue.Admission {
	f.Helper()
	s := f.snapshot()
	at := s.At.Add(-ago).Truncate(time.Millisecond)
	place := t.Place
	if t.Early() {
		place = queue.DrawPlace(s.Settings.Seed, t.ID)
	}
	return queue.Admission{
		Line: t.Line, Epoch: t.Epoch, Subject: t.Subject, TicketID: t.ID, Place: place,
		AdmittedAt: at, NotBefore: at.Add(7 * time.Millisecond), ExpiresAt: at.Add(good),
	}
}

func (f *fixture) record(given ...queue.Admission) {
	f.Helper()
	if err := f.line.Record(f.ctx, given); err != nil {
		f.Fatalf("Record: %v", err)
	}
}

// Who was let in without the line is out of the order and counts as let in, however
// often it is told.
func testRecord(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 4)
	epoch, newest := tickets[0].Epoch, tickets[3].Place
	stranger, late := f.ticket("stranger", epoch, newest+1000), f.ticket("late", epoch, newest+2000)
	given := []queue.Admission{
		f.bypass(stranger, 3*time.Second, time.Hour), f.bypass(tickets[1], 90*time.Second, time.Hour),
		f.bypass(late, time.Minute, 59*time.Second),
	}
	want := f.snapshot()
	want.Waiting, want.Inside, want.Admitted, want.Bypassed, want.Expired = 3, 2, 3, 3, 1
	want.Cohorts = []queue.Cohort{
		{Second: given[1].AdmittedAt.Unix(), Admitted: 1}, {Second: given[2].AdmittedAt.Unix(), Admitted: 1},
		{Second: given[0].AdmittedAt.Unix(), Admitted: 1},
	}
	check := func() {
		t.Helper()
		s := f.snapshot()
		if s.Waiting != want.Waiting || s.Inside != want.Inside || s.Admitted != want.Admitted || s.Bypassed != want.Bypassed ||
			s.Expired != want.Expired || s.Arrived != want.Arrived || s.Spent != want.Spent || s.Away != 0 || s.Left != 0 ||
			!slices.Equal(s.Cohorts, want.Cohorts) {
			t.Fatalf("recorded: %+v, want %+v", s, want)
		}
	}
	for _, line := range []queue.Line{f.line, f.client(), f.line} {
		if err := line.Record(f.ctx, given); err != nil {
			t.Fatal(err)
		}
		check()
	}
	for i, ticket := range []queue.Ticket{stranger, tickets[1]} {
		if s := f.wantState(ticket, queue.Admitted); s.Admission != given[i] || s.Ticket.ID != ticket.ID || s.Ticket.Place != ticket.Place {
			t.Fatalf("recorded as %+v, want %+v", s, given[i])
		}
		if s := f.enter(ticket.Subject, nil); s.Created || s.Admission != given[i] {
			t.Fatalf("entering again: %+v, want %+v", s, given[i])
		}
	}
	f.wantState(late, queue.Expired)
	for i, ticket := range []queue.Ticket{tickets[0], tickets[2], tickets[3]} {
		f.wantPosition(ticket, int64(i+1))
	}
	f.arrive(stranger)
	f.spend(tickets[1])
	want.Arrived, want.Spent, want.Inside = 2, 1, 1
	want.Cohorts[0].Arrived, want.Cohorts[2].Arrived = 1, 1
	f.record(given...)
	check()
	for i, outcome := range []queue.State{queue.Admitted, queue.Spent, queue.Expired} {
		r := f.find([]queue.Ticket{stranger, tickets[1], late}[i])
		if !r.Bypassed || r.Outcome != outcome || r.Place != given[i].Place || !r.AdmittedAt.Equal(given[i].AdmittedAt) || !r.FetchedAt.Equal(r.AdmittedAt) {
			t.Errorf("the audit has %+v, want %s of %+v", r, outcome, given[i])
		}
	}
	f.admit(1)
	if r := f.find(tickets[0]); r.Bypassed {
		t.Errorf("let in by the line: %+v", r)
	}
}

// earlier is another ticket of the same visitor, at the place before.
func (f *fixture) earlier(v queue.Ticket) queue.Ticket {
	t := f.ticket(v.Subject, v.Epoch, v.Place-1)
	t.ID = "earlier"
	return t
}

// What becomes of an admission given without the line, by what the line knows of the
// visitor.
func testRecordCases(t *testing.T, impl Implementation) {
	for _, tt := range []struct {
		name    string
		happens func(f *fixture, v queue.Ticket)
		// ago and good are those of the admission.
		ago, good time.Duration
		want      queue.State
		// counts are admitted, bypassed, inside, waiting and spent.
		counts [5]int64
		then   func(f *fixture, v queue.Ticket, a queue.Admission)
	}{
		{name: "away", want: queue.Admitted, counts: [5]int64{1, 1, 1, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 1)
				f.markAway([]string{v.Subject}, "somebody")
			}},
		{name: "left", want: queue.Left, counts: [5]int64{0, 0, 0, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				if err := f.line.Leave(f.ctx, v); err != nil {
					f.Fatal(err)
				}
			}},
		{name: "let in by the line before", want: queue.Admitted, counts: [5]int64{1, 0, 1, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 1)
				f.admit(1)
			},
			then: func(f *fixture, v queue.Ticket, a queue.Admission) {
				if s := f.standing(v); s.Admission == a || f.find(v).Bypassed {
					f.Fatalf("recorded over %+v", s.Admission)
				}
			}},
		{name: "the order was told before", want: queue.Spent, counts: [5]int64{1, 1, 0, 1, 1},
			happens: func(f *fixture, v queue.Ticket) { f.spend(v) },
			then: func(f *fixture, v queue.Ticket, a queue.Admission) {
				if r := f.find(v); !r.Bypassed || r.Place != v.Place || !r.AdmittedAt.Equal(a.AdmittedAt) {
					f.Fatalf("the audit has %+v", r)
				}
				s := f.snapshot()
				if want := (queue.Cohort{Second: a.AdmittedAt.Unix(), Admitted: 1, Arrived: 1}); s.Arrived != 1 || len(s.Cohorts) != 1 || s.Cohorts[0] != want {
					f.Fatalf("%d arrived, %+v", s.Arrived, s.Cohorts)
				}
			}},
		{name: "let in by the line, and ordered", want: queue.Spent, counts: [5]int64{1, 0, 0, 1, 1},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 1)
				f.admit(1)
				f.spend(v)
			}},
		{name: "another ticket waits", want: queue.Admitted, counts: [5]int64{1, 1, 1, 1, 0},
			happens: func(f *fixture, v queue.Ticket) { f.wantPosition(f.earlier(v), 1) },
			then: func(f *fixture, v queue.Ticket, a queue.Admission) {
				if s := f.enter(v.Subject, nil); s.Created || s.Admission != a {
					f.Fatalf("entering again: %+v", s)
				}
				f.spend(v)
				f.wantState(f.earlier(v), queue.Spent)
			}},
		{name: "another ticket, to which this one maps", want: queue.Admitted, counts: [5]int64{1, 1, 1, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(v, 1)
				f.wantPosition(f.earlier(v), 1)
				f.wantPosition(v, 1)
			},
			then: func(f *fixture, v queue.Ticket, a queue.Admission) {
				for _, ticket := range []queue.Ticket{v, f.earlier(v)} {
					if s := f.standing(ticket); s.Admission != a {
						f.Fatalf("%s: %+v", ticket.ID, s)
					}
				}
			}},
		{name: "another ticket, let in by the line", want: queue.Admitted, counts: [5]int64{2, 1, 2, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(f.earlier(v), 1)
				f.admit(1)
			},
			then: func(f *fixture, v queue.Ticket, a queue.Admission) {
				if s := f.standing(v); s.Admission.TicketID == v.ID {
					f.Fatalf("two admissions for one visitor: %+v", s)
				}
				f.spend(v) // its token was out
				if s := f.snapshot(); s.Spent != 1 || s.Inside != 1 || s.Arrived != 1 {
					f.Fatalf("spent: %+v", s)
				}
				if r := f.find(v); !r.Bypassed || r.Outcome != queue.Spent {
					f.Fatalf("the audit has %+v", r)
				}
				if s := f.enter(v.Subject, nil); s.State != queue.Admitted || s.Admission.TicketID == v.ID {
					f.Fatalf("the other admission: %+v", s)
				}
			}},
		{name: "run out, with another ticket from before", ago: time.Minute, good: 30 * time.Second,
			want: queue.Expired, counts: [5]int64{1, 1, 0, 1, 0},
			happens: func(f *fixture, v queue.Ticket) {
				f.wantPosition(f.earlier(v), 1)
			},
			then: func(f *fixture, v queue.Ticket, _ queue.Admission) {
				f.wantState(f.earlier(v), queue.Expired)
				if s := f.enter(v.Subject, nil); !s.Created || s.Position != 2 {
					f.Fatalf("entering again: %+v", s)
				}
			}},
		{name: "run out, and entered again since", ago: time.Minute, good: 30 * time.Second,
			want: queue.Expired, counts: [5]int64{1, 1, 0, 2, 0},
			happens: func(f *fixture, v queue.Ticket) { f.enter(v.Subject, nil) },
			then: func(f *fixture, v queue.Ticket, _ queue.Admission) {
				if s := f.enter(v.Subject, nil); s.Created || s.Position != 2 {
					f.Fatalf("the new place: %+v", s)
				}
			}},
	} {
		f := open(t, impl, options())
		f.snapshot()
		f.wait(2 * time.Millisecond)
		base := f.enter("somebody", nil).Ticket
		v := f.ticket("visitor", base.Epoch, base.Place-10)
		if tt.ago > 0 {
			v.Place = base.Place - 50*time.Second.Microseconds()
		}
		tt.happens(f, v)
		a := f.bypass(v, tt.ago, max(tt.good, time.Hour))
		if tt.good > 0 {
			a = f.bypass(v, tt.ago, tt.good)
		}
		for range 2 {
			f.record(a)
			s := f.snapshot()
			if got := [5]int64{s.Admitted, s.Bypassed, s.Inside, s.Waiting, s.Spent}; got != tt.counts || s.Away != 0 {
				t.Errorf("%s: %v, want %v: %+v", tt.name, got, tt.counts, s)
			}
			if s := f.standing(v); s.State != tt.want {
				t.Errorf("%s: %+v, want %s", tt.name, s, tt.want)
			}
		}
		if tt.then != nil && !t.Failed() {
			tt.then(f, v, a)
		}
	}
}

// A second ticket may outlive what is known of the one that it mapped to, when it is
// signed anew in a bypass: let in with it, the visitor has it for their own.
func testRecordOutlives(t *testing.T, impl Implementation) {
	opts := options()
	opts.TicketTTL = time.Second // ends are remembered for up to 2 s
	f := open(t, impl, opts)
	maps := func(subject string) (later, first queue.Ticket) {
		later = f.enter(subject, nil).Ticket
		first = f.ticket(subject, later.Epoch, later.Place-1)
		f.wantState(first, queue.Waiting)
		if s := f.wantState(later, queue.Waiting); s.Ticket != first {
			t.Fatalf("%+v, want %+v", s, first)
		}
		return later, first
	}
	f.snapshot()
	f.wait(2 * time.Millisecond)
	later, first := maps("v")
	if err := f.line.Leave(f.ctx, first); err != nil {
		t.Fatal(err)
	}
	f.wait(1500 * time.Millisecond)
	maps("w") // whose tickets keep it known what maps to what
	f.wait(600 * time.Millisecond)
	a := f.bypass(later, 0, time.Hour)
	f.record(a)
	for range 2 {
		for _, ticket := range []queue.Ticket{later, first} {
			if s := f.wantState(ticket, queue.Admitted); s.Admission != a {
				t.Fatalf("%+v, want %+v", s, a)
			}
		}
	}
}

// Nothing is taken in of an earlier epoch; a later one proves that a restart was
// forgotten.
func testRecordEpochs(t *testing.T, impl Implementation) {
	opts := options()
	opts.RecoveryHold = time.Minute
	f := open(t, impl, opts)
	old := f.bypass(f.enter("v", nil).Ticket, 0, time.Hour)
	if _, err := f.line.Restart(f.ctx); err != nil {
		t.Fatal(err)
	}
	before := f.snapshot()
	f.record(old)
	if s := f.snapshot(); s.Admitted != 0 || s.Inside != 0 || s.Recovering() {
		t.Fatalf("of an earlier epoch: %+v", s)
	}
	later := f.ticket("later", before.Epoch+1000, before.At.UnixMicro())
	f.record(old, f.bypass(later, 0, time.Hour), old)
	if s := f.wantHold(before.At, opts.RecoveryHold); s.Epoch != later.Epoch || s.Admitted != 1 || s.Inside != 1 {
		t.Fatalf("of a later epoch: %+v", s)
	}
	f.wantState(later, queue.Admitted)
}

// The head stays where it was: nobody away loses their place because somebody behind
// them was let in without the line.
func testRecordLeavesHead(t *testing.T, impl Implementation) {
	opts := options()
	opts.KeepPlace = 0
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 3)
	f.markAway([]string{"v0"}, "v1", "v2")
	f.record(f.bypass(tickets[2], 0, time.Hour))
	f.sweep("v1")
	f.wait(2 * time.Millisecond)
	if s := f.sweep("v1"); s.GivenUp != 0 {
		t.Fatalf("given up: %+v", s)
	}
	f.wantPosition(tickets[0], 1)
	f.wantPosition(tickets[1], 2)
}

// Many, over more seconds than are kept.
func testRecordMany(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.enter("v", nil)
	f.admit(1)
	before := f.snapshot()
	const many = 1100
	var given []queue.Admission
	for i := range many {
		ticket := f.ticket(fmt.Sprint("w", i), 0, before.At.UnixMicro())
		at := before.At.Add(-time.Duration(1+i%400) * time.Second).Truncate(time.Millisecond)
		given = append(given, queue.Admission{
			Line: ticket.Line, Subject: ticket.Subject, TicketID: ticket.ID, Place: ticket.Place,
			AdmittedAt: at, NotBefore: at, ExpiresAt: at.Add(time.Hour),
		})
	}
	f.record(given...)
	s := f.snapshot()
	if s.Admitted != many+1 || s.Inside != many+1 || s.Bypassed != many || len(s.Cohorts) != queue.MaxCohorts {
		t.Fatalf("recorded: %+v", s)
	}
	if last := s.Cohorts[len(s.Cohorts)-1]; last != before.Cohorts[0] || s.Cohorts[0].Second < last.Second-queue.MaxCohorts {
		t.Fatalf("cohorts from %+v to %+v, want to %+v", s.Cohorts[0], last, before.Cohorts[0])
	}
}

// Somebody of the draw, let in without a line that has lost its memory, is still one
// who drew.
func testRecordDraw(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.opensIn(time.Hour)
	early := f.enterMany("early", 2)
	settings := f.opensIn(-time.Second)
	lost, silent := f.ticket("lost", early[0].Epoch, 0), f.ticket("silent", early[0].Epoch, 0)
	lost.EnteredAt = early[0].EnteredAt
	f.record(f.bypass(early[0], 0, time.Hour), f.bypass(lost, 0, time.Hour), f.bypass(silent, 0, time.Hour))
	for _, ticket := range []queue.Ticket{early[0], lost} {
		for _, ask := range []func(queue.Ticket) queue.Standing{f.standing, func(t queue.Ticket) queue.Standing { return f.enter(t.Subject, nil) }} {
			if s := ask(ticket); s.State != queue.Admitted || s.Ticket != ticket {
				t.Fatalf("%+v, want %+v", s, ticket)
			}
		}
	}
	f.record(f.bypass(f.ticket("late", 0, f.snapshot().At.UnixMicro()), 0, time.Hour))
	if err := f.line.Seal(f.ctx); err != nil {
		t.Fatal(err)
	}
	sealed := f.snapshot().Settings.TicketsSHA256
	draw := queue.Draw{SeedSHA256: queue.HashSeed(settings.Seed), Seed: settings.Seed, TicketsSHA256: sealed}
	if sealed != queue.HashTickets([]string{early[0].ID, early[1].ID, lost.ID, silent.ID}) {
		t.Errorf("sealed as %s", sealed)
	}
	for _, found := range queue.Audit(f.export(), draw) {
		if !found.Note {
			t.Errorf("an honest line: %s", found.Text)
		}
	}
}

// Orders and admissions given without the line are told by different processes: in
// whatever order and however often, it comes to the same.
func testRecordAnyOrder(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.snapshot()
	f.wait(2 * time.Millisecond)
	rapid.Check(t, func(rt *rapid.T) {
		epoch, err := f.line.Restart(f.ctx)
		if err != nil {
			rt.Fatal(err)
		}
		const n = 5
		waits := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "waits")
		steps := rapid.SliceOfN(rapid.IntRange(0, 3*n-1), 0, 30).Draw(rt, "steps")
		now := f.snapshot().At
		tickets, recorded, spent, seen := make([]queue.Ticket, n), map[int]bool{}, map[int]bool{}, map[int]bool{}
		for i := range tickets {
			tickets[i] = f.ticket(fmt.Sprint("v", i), epoch, now.UnixMicro()+int64(i))
			if waits[i] {
				f.wantState(tickets[i], queue.Waiting)
			}
		}
		for _, step := range steps {
			switch i := step % n; step / n {
			case 0:
				f.record(f.bypass(tickets[i], time.Duration(i)*time.Second, time.Hour))
				recorded[i], seen[i] = true, true
			case 1:
				f.spend(tickets[i])
				spent[i], seen[i] = true, true
			case 2:
				if s := f.standing(tickets[i]); !seen[i] && s.State != queue.Waiting {
					rt.Fatalf("%d: %+v", i, s)
				}
				waits[i] = true
			}
		}
		var admitted, arrived, waiting int64
		for i, ticket := range tickets {
			r := queue.Record{Outcome: queue.Admitted, Bypassed: recorded[i]}
			switch {
			case spent[i]:
				r.Outcome = queue.Spent
			case !recorded[i] && waits[i]:
				r.Outcome = queue.Waiting
				waiting++
			case !recorded[i]:
				continue
			}
			if got := f.find(ticket); got.Outcome != r.Outcome || got.Bypassed != r.Bypassed || r.Bypassed && got.Place != ticket.Place {
				rt.Fatalf("%d is %+v, want %+v", i, got, r)
			}
		}
		s := f.snapshot()
		for _, c := range s.Cohorts {
			admitted += c.Admitted
			arrived += c.Arrived
		}
		inside, came := len(recorded), 0
		for i := range recorded {
			if spent[i] {
				inside--
				came++
			}
		}
		want := queue.Snapshot{
			Admitted: int64(len(recorded)), Bypassed: int64(len(recorded)), Spent: int64(len(spent)), Arrived: int64(len(spent)),
			Inside: int64(inside), Waiting: waiting,
		}
		if s.Admitted != want.Admitted || s.Bypassed != want.Bypassed || s.Spent != want.Spent || s.Arrived != want.Arrived ||
			s.Inside != want.Inside || s.Waiting != want.Waiting || admitted != want.Admitted || arrived != int64(came) {
			rt.Fatalf("%+v, want %+v", s, want)
		}
	})
}
