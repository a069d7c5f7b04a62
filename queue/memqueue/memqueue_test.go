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

// A pause between two sweeps counts.
func TestPauseBetweenSweeps(t *testing.T) {
	in(t, func(t *testing.T) {
		opts := queue.DefaultOptions()
		opts.Grace = 3 * time.Second
		line := newLine(t, opts)
		if _, err := line.Enter(t.Context(), "v", nil); err != nil {
			t.Fatal(err)
		}
		var away int64
		sweep := func() {
			t.Helper()
			s, err := line.Sweep(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			away += s.Away
		}
		for range 4 {
			sweep()
			time.Sleep(time.Second)
		}
		for _, paused := range []bool{true, false} {
			if _, err := line.Configure(t.Context(), queue.Patch{Paused: &paused}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			sweep()
			time.Sleep(time.Second)
		}
		if away != 0 {
			t.Fatal("away soon after a pause")
		}
		time.Sleep(time.Second)
		if sweep(); away != 1 {
			t.Fatal("not away long after a pause")
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
