package memqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	queuetest.Run(t, queuetest.Implementation{
		Open: func(t testing.TB, opts queue.Options) func() queue.Line {
			line, err := memqueue.New("test", opts)
			if err != nil {
				t.Fatal(err)
			}
			return func() queue.Line { return line }
		},
		In: in,
	})
}

// in runs a test in a bubble of virtual time.
func in(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		// A bubble begins in 2000, when every drawn place was still to come.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		test(t)
	})
}

func newLine(t *testing.T, opts queue.Options) *memqueue.Line {
	t.Helper()
	line, err := memqueue.New("test", opts)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func snapshot(t *testing.T, line queue.Line) queue.Snapshot {
	t.Helper()
	s, err := line.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A process that starts again has lost the line, unless nobody waited at a clean
// stop: then the tickets of before, which have all ended, prove nothing.
func TestStartedAgain(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		in(t, func(t *testing.T) {
			opts := queue.DefaultOptions()
			before := newLine(t, opts)
			entered, err := before.Enter(t.Context(), "v", nil)
			if err != nil {
				t.Fatal(err)
			}
			s := snapshot(t, before)
			opts.Known = &queue.Remembered{
				Epoch: s.Epoch, Created: s.Created, Settings: s.Settings, Longest: 5 * time.Second, Quiet: quiet,
			}
			time.Sleep(time.Minute)
			after := newLine(t, opts)
			now := time.Now()
			for range 2 {
				s = snapshot(t, after)
				if s.Recovering() == quiet || s.Created.Equal(opts.Known.Created) != quiet {
					t.Errorf("quiet %v: %+v", quiet, s)
				}
				if want := now.Add(opts.RecoveryHold + 5*time.Second); !quiet && !s.HoldUntil.Equal(want) {
					t.Errorf("held until %s, want %s", s.HoldUntil, want)
				}
				if again, err := after.Standing(t.Context(), entered.Ticket); err != nil || again.Position != 1 {
					t.Errorf("quiet %v: %+v, %v", quiet, again, err)
				}
			}
		})
	}
}

// Whoever keeps a ticket from before a loss cannot hold the line up after each clean
// restart since.
func TestOldTicketsProveNothingAfterACleanStop(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		kept, err := newLine(t, opts).Enter(t.Context(), "v", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s := snapshot(t, newLine(t, opts)) // after a crash: another incarnation
		opts.Known = &queue.Remembered{Created: s.Created, Settings: s.Settings, Quiet: true}
		time.Sleep(time.Minute)
		after := newLine(t, opts)
		if _, err := after.Standing(t.Context(), kept.Ticket); err != nil {
			t.Fatal(err)
		}
		if s := snapshot(t, after); s.Recovering() || !s.Created.Equal(opts.Known.Created) {
			t.Errorf("%+v", s)
		}
		kept.Ticket.Epoch = 7 // a restart that was forgotten is a loss
		if _, err := after.Standing(t.Context(), kept.Ticket); err != nil || !snapshot(t, after).Recovering() {
			t.Errorf("%+v, %v", snapshot(t, after), err)
		}
	})
}

// The seed of a line that was born with an opening time is remembered, or the
// draw would change with a restart of the process.
func TestBornSeedIsKept(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		at := time.Now().Add(time.Hour)
		opts.Initial.OpensAt = &at
		s := snapshot(t, newLine(t, opts))
		opts.Known = &queue.Remembered{Created: s.Created, Settings: s.Settings}
		if again := snapshot(t, newLine(t, opts)); s.Settings.Seed == "" || again.Settings.Seed != s.Settings.Seed {
			t.Fatalf("the seed %q became %q", s.Settings.Seed, again.Settings.Seed)
		}
	})
}

// sweep sweeps and returns what it did.
func sweep(t *testing.T, line queue.Line, heard ...string) queue.Swept {
	t.Helper()
	all := make([]queue.Heard, len(heard))
	for i, subject := range heard {
		all[i].Subject = subject
	}
	s, err := line.Sweep(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A pause between two sweeps counts.
func TestPauseBetweenSweeps(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		opts.Grace = 3 * time.Second
		line := newLine(t, opts)
		if _, err := line.Enter(t.Context(), "v", nil); err != nil {
			t.Fatal(err)
		}
		sweepFor := func(seconds int) (away int64) {
			for range seconds {
				away += sweep(t, line).Away
				time.Sleep(time.Second)
			}
			return away
		}
		early := sweepFor(4)
		for _, paused := range []bool{true, false} {
			if _, err := line.Configure(t.Context(), queue.Patch{Paused: &paused}); err != nil {
				t.Fatal(err)
			}
		}
		if early += sweepFor(4); early != 0 {
			t.Fatal("away soon after a pause")
		}
		if sweepFor(1) != 1 {
			t.Fatal("not away long after a pause")
		}
	})
}

// However often the line is swept, it goes through the zone twice a second.
func TestMarkingIsRare(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		opts.Grace = 100 * time.Millisecond
		line := newLine(t, opts)
		if _, err := line.Enter(t.Context(), "v", nil); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			if s := sweep(t, line); (s.Away == 1) != (i == 5) {
				t.Fatalf("sweep %d: %+v", i, s)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Who came back in time and goes away again behind the head has the whole time
// once more, whatever was noted before.
func TestLapseStartsAnew(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		opts.Grace, opts.KeepPlace = 500*time.Millisecond, 10*time.Second
		line := newLine(t, opts)
		var tickets []queue.Ticket
		for _, subject := range []string{"a", "b"} {
			s, err := line.Enter(t.Context(), subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, s.Ticket)
		}
		goAway := func() {
			t.Helper()
			for range 3 {
				sweep(t, line, "b")
				time.Sleep(time.Second)
			}
			if s := snapshot(t, line); s.Away != 1 {
				t.Fatalf("not away: %+v", s)
			}
		}
		goAway()
		if b, err := line.Admit(t.Context(), queue.MaxRate, queue.LimitedByCapacity); err != nil || len(b.Admitted) != 1 {
			t.Fatal(b, err)
		}
		sweep(t, line) // the head has passed
		time.Sleep(5 * time.Second)
		if s, err := line.Standing(t.Context(), tickets[0]); err != nil || s.State != queue.Waiting {
			t.Fatal(s, err)
		}
		goAway()
		time.Sleep(4 * time.Second) // more than the first time, less than the second
		if s := sweep(t, line); s.GivenUp != 0 {
			t.Fatal("given up by what was noted before")
		}
		time.Sleep(6 * time.Second)
		if s := sweep(t, line); s.GivenUp != 1 {
			t.Fatalf("not given up: %+v", s)
		}
	})
}

// A later epoch has a draw of its own.
func TestAdoptedEpochDrawsAnew(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		at := time.Now().Add(time.Hour)
		opts.Initial.OpensAt = &at
		line := newLine(t, opts)
		before := snapshot(t, line)
		later := queue.Ticket{Line: "test", Epoch: 1, Subject: "v", ID: "later", EnteredAt: before.At}
		if s, err := line.Standing(t.Context(), later); err != nil || s.State != queue.Scheduled {
			t.Fatal(s, err)
		}
		if s := snapshot(t, line); s.Settings.Seed == before.Settings.Seed || s.Settings.Revision <= before.Settings.Revision {
			t.Fatalf("%+v, before %+v", s.Settings, before.Settings)
		}
	})
}

// Only the latest cohorts are kept, and an arrival that comes later than its
// cohort is counted all the same.
func TestLatestCohorts(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		line := newLine(t, opts)
		var first, last queue.Admission
		for i := range queue.MaxCohorts + 10 {
			entered, err := line.Enter(t.Context(), queue.NewID(), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := line.Admit(t.Context(), queue.MaxRate, queue.LimitedByCapacity)
			if err != nil || len(b.Admitted) != 1 || b.Admitted[0].TicketID != entered.Ticket.ID {
				t.Fatalf("%+v, %v", b, err)
			}
			if last = b.Admitted[0]; i == 0 {
				first = last
			}
			time.Sleep(time.Second)
		}
		if err := line.Arrive(t.Context(), []queue.Completion{
			{Subject: first.Subject, TicketID: first.TicketID}, {Subject: last.Subject, TicketID: last.TicketID},
		}); err != nil {
			t.Fatal(err)
		}
		s := snapshot(t, line)
		if len(s.Cohorts) != queue.MaxCohorts || s.Arrived != 2 {
			t.Fatalf("%d cohorts, %d arrived", len(s.Cohorts), s.Arrived)
		}
		for i, c := range s.Cohorts {
			want := queue.Cohort{Second: last.AdmittedAt.Unix() - int64(queue.MaxCohorts-1-i), Admitted: 1}
			if i == queue.MaxCohorts-1 {
				want.Arrived = 1
			}
			if c != want {
				t.Fatalf("cohort %d is %+v, want %+v", i, c, want)
			}
		}
	})
}
