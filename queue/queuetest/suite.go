// Package queuetest is the contract of [queue.Line] as a test suite. Every
// implementation runs it.
package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/queue"
)

// Implementation is what the suite needs of a line to try.
type Implementation struct {
	// Open makes a new, empty line and returns a function that opens further
	// clients of it, as other processes would have.
	Open func(t testing.TB, opts queue.Options) (client func() queue.Line)
	// In runs a test: directly, or in a bubble of virtual time.
	In func(t *testing.T, test func(t *testing.T))
}

// Run runs the whole suite.
func Run(t *testing.T, impl Implementation) {
	tests := []struct {
		name string
		test func(t *testing.T, impl Implementation)
	}{
		{"a visitor has one place", testOnePlace},
		{"places are the order of arrival", testArrivalOrder},
		{"concurrent enters", testConcurrentEnters},
		{"who may return where", testReturn},
		{"two tickets of one visitor", testTwoTickets},
		{"leaving", testLeave},
		{"removing", testRemove},
		{"an end is remembered as long as a ticket lives", testEndIsRemembered},
		{"admission records", testAdmissionRecord},
		{"one batch per tick", testOneBatchPerTick},
		{"fractions are carried", testCarry},
		{"a slow rate still moves", testSlowRate},
		{"a stall is not banked", testStall},
		{"asking for a batch only", testAsking},
		{"an unused admission expires", testExpiry},
		{"a turn does not pass in a stall, asked first", testMissedTurnAsked},
		{"a turn does not pass in a stall, a batch first", testMissedTurnBatch},
		{"what is no rate", testNoRate},
		{"spending", testSpend},
		{"pause, override and cap", testSettings},
		{"passthrough", testPassthrough},
		{"passthrough with a cap", testPassthroughCap},
		{"maximum length", testMaxLength},
		{"restart", testRestart},
		{"settings reach every client", testSettingsShared},
		{"a draw before the opening", testSchedule},
		{"closing and reopening", testClosing},
		{"the seed of a draw", testSeed},
		{"born with an opening time", testBornScheduled},
		{"what has started stays open", testStarted},
		{"sealing a draw", testSeal},
		{"the draw is restored by its tickets", testDrawReturns},
		{"away and back", testAway},
		{"who is told more is waited for longer", testAwayAsTold},
		{"away and back by subject", testAwayBySubject},
		{"many away and back", testAwayModel},
		{"the zone near the head", testZone},
		{"the zone of a rate that shakes", testShakingZone},
		{"nobody listens", testNotListening},
		{"nobody has swept", testUnswept},
		{"keeping an away place", testKeepPlace},
		{"arrivals", testArrivals},
		{"the lag of arrivals", testLag},
		{"the lag and unknown orders", testLagOfUnknown},
		{"the caller's reason", testWhy},
		{"who gives up", testLeft},
		{"who has entered", testEntered},
		{"the head and the last place", testHead},
		{"export", testExport},
		{"a draw is never forgotten", testDrawIsRemembered},
		{"a loss holds admission", testLoss},
		{"what proves a loss", testLossProofs},
		{"a restart during the hold", testRestartInHold},
		{"what a process remembers", testKnown},
		{"sealing a draw after a loss", testSealAfterLoss},
		{"let in without the line", testRecord},
		{"let in without the line, by what is known", testRecordCases},
		{"let in without the line, with a ticket that mapped to another", testRecordOutlives},
		{"let in without the line, of another epoch", testRecordEpochs},
		{"let in without the line, and the head", testRecordLeavesHead},
		{"let in without the line, many", testRecordMany},
		{"let in without the line, from a draw", testRecordDraw},
		{"settings changed while the store was away", testAdopt},
		{"settings changed by two while the store was away", testAdoptByTwo},
		{"a standstill ends", testStandstillEnds},
		{"places made while the store was away", testPlacesMadeAway},
		{"snapshot", testSnapshot},
	}
	// rapid asks for the test's deadline, which a bubble of virtual time refuses.
	for name, test := range map[string]func(*testing.T, Implementation){
		"positions as in a plain model":              testModel,
		"let in without the line, told in any order": testRecordAnyOrder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, impl)
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			impl.In(t, func(t *testing.T) { tt.test(t, impl) })
		})
	}
}

// options are the defaults with short times, so that real clocks wait little.
func options() queue.Options {
	o := queue.DefaultOptions()
	o.Tick = 20 * time.Millisecond
	o.Jitter = 0
	o.Grace = 100 * time.Millisecond
	o.RecoveryHold = 150 * time.Millisecond
	return o
}

// fixture is one line under test.
type fixture struct {
	testing.TB
	ctx    context.Context
	line   queue.Line
	client func() queue.Line
	opts   queue.Options
}

func open(t testing.TB, impl Implementation, opts queue.Options) *fixture {
	t.Helper()
	client := impl.Open(t, opts)
	return &fixture{TB: t, ctx: t.Context(), line: client(), client: client, opts: opts}
}

func (f *fixture) enter(subject string, held *queue.Ticket) queue.Standing {
	f.Helper()
	s, err := f.line.Enter(f.ctx, subject, held)
	if err != nil {
		f.Fatalf("Enter(%s): %v", subject, err)
	}
	return s
}

// enterMany enters n visitors named prefix0, prefix1, … and returns their tickets.
func (f *fixture) enterMany(prefix string, n int) []queue.Ticket {
	f.Helper()
	tickets := make([]queue.Ticket, n)
	for i := range n {
		tickets[i] = f.enter(fmt.Sprint(prefix, i), nil).Ticket
	}
	return tickets
}

func (f *fixture) standing(t queue.Ticket) queue.Standing {
	f.Helper()
	s, err := f.line.Standing(f.ctx, t)
	if err != nil {
		f.Fatalf("Standing(%s): %v", t.Subject, err)
	}
	return s
}

func (f *fixture) wantState(t queue.Ticket, want queue.State) queue.Standing {
	f.Helper()
	s := f.standing(t)
	if s.State != want {
		f.Fatalf("%s is %s, want %s", t.Subject, s.State, want)
	}
	return s
}

func (f *fixture) wantPosition(t queue.Ticket, want int64) {
	f.Helper()
	if s := f.wantState(t, queue.Waiting); s.Position != want {
		f.Fatalf("%s is at position %d, want %d", t.Subject, s.Position, want)
	}
}

func (f *fixture) configure(p queue.Patch) queue.Settings {
	f.Helper()
	s, err := f.line.Configure(f.ctx, p)
	if err != nil {
		f.Fatalf("Configure: %v", err)
	}
	return s
}

func (f *fixture) snapshot() queue.Snapshot {
	f.Helper()
	s, err := f.line.Snapshot(f.ctx)
	if err != nil {
		f.Fatalf("Snapshot: %v", err)
	}
	return s
}

// batch admits in the next tick that has had no batch yet.
func (f *fixture) batch(rate float64) queue.Batch {
	f.Helper()
	for {
		b, err := f.line.Admit(f.ctx, rate, queue.LimitedByCapacity)
		if err != nil {
			f.Fatalf("Admit: %v", err)
		}
		if !b.Skipped {
			return b
		}
		f.wait(f.opts.Tick / 4)
	}
}

// admit lets in exactly n from the head, over as many ticks as it takes.
func (f *fixture) admit(n int) []queue.Admission {
	f.Helper()
	var all []queue.Admission
	rate := 0.45 / f.opts.Tick.Seconds() // never two in one batch, even after a stall
	for range 10 * (n + 1) {
		if len(all) >= n {
			break
		}
		all = append(all, f.batch(rate).Admitted...)
	}
	if len(all) != n {
		f.Fatalf("admitted %d, want %d", len(all), n)
	}
	return all
}

// wait lets the store's clock go on: virtual time in a bubble, otherwise real.
func (f *fixture) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
		f.Fatal(f.ctx.Err())
	}
}

// until waits for what only the store's clock can bring about.
func (f *fixture) until(what string, done func() bool) {
	f.Helper()
	for range 1000 {
		if done() {
			return
		}
		f.wait(10 * time.Millisecond)
	}
	f.Fatalf("still not: %s", what)
}

func ptr[T any](v T) *T { return &v }

// ticket is one that was given out at a place, in an epoch, before the store lost
// its memory.
func (f *fixture) ticket(subject string, epoch, place int64) queue.Ticket {
	return queue.Ticket{
		Line: f.line.ID(), Epoch: epoch, Subject: subject, ID: queue.NewID(), Place: place, EnteredAt: queue.EnteredAt(place),
	}
}

func (f *fixture) sweep(heard ...string) queue.Swept {
	f.Helper()
	return f.sweepTold(0, heard...)
}

// sweepTold sweeps with subjects heard that were told to wait so long.
func (f *fixture) sweepTold(told time.Duration, heard ...string) queue.Swept {
	f.Helper()
	all := make([]queue.Heard, len(heard))
	for i, subject := range heard {
		all[i] = queue.Heard{Subject: subject, Told: told}
	}
	s, err := f.line.Sweep(f.ctx, all)
	if err != nil {
		f.Fatalf("Sweep: %v", err)
	}
	return s
}

// markAway has the line take subjects out of the order for their silence, while
// the others are heard.
func (f *fixture) markAway(silent []string, others ...string) {
	f.Helper()
	var gone int64
	f.until("away", func() bool {
		gone += f.sweep(others...).Away
		return gone >= int64(len(silent))
	})
	if gone > int64(len(silent)) {
		f.Fatalf("%d are away, want %d", gone, len(silent))
	}
}
