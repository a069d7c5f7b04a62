package redisqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// Ends are forgotten with the last ticket that could ask, in the hash and in the
// list, also of a ticket that has ended twice; and not before.
func TestEndsAreForgotten(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	opts := queue.DefaultOptions()
	opts.Tick, opts.TicketTTL = 20*time.Millisecond, time.Second
	line, err := redisqueue.New(client, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	end := func(subject string) queue.Ticket {
		s, err := line.Enter(ctx, subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := line.Leave(ctx, s.Ticket); err != nil {
			t.Fatal(err)
		}
		return s.Ticket
	}
	count := func() (records, entries int64) {
		if _, err := line.Admit(ctx, 0, queue.LimitedByCapacity); err != nil {
			t.Fatal(err)
		}
		return client.HLen(ctx, redisqueue.Key(id, "ended")).Val(), client.LLen(ctx, redisqueue.Key(id, "forget")).Val()
	}
	twice := end("twice")
	for i := range 50 {
		end(strconv.Itoa(i))
	}
	time.Sleep(950 * time.Millisecond) // ends are remembered in whole seconds: into the next one
	if err := line.Spend(ctx, []queue.Completion{{Subject: "twice", TicketID: twice.ID}}); err != nil {
		t.Fatal(err)
	}
	again := time.Now()
	for start := again; time.Since(start) < 10*time.Second; time.Sleep(30 * time.Millisecond) {
		records, entries := count()
		if time.Since(again) < opts.TicketTTL-100*time.Millisecond {
			if s, err := line.Standing(ctx, twice); err != nil || s.State != queue.Spent {
				t.Fatalf("the second end: %+v, %v", s, err)
			}
		}
		if records == 0 && entries == 0 {
			return
		}
	}
	t.Fatal("they are remembered for ever")
}

// The oldest cohort gives way to a new one.
func TestCohortsAreBounded(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	line, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Enter(ctx, "v", nil); err != nil {
		t.Fatal(err)
	}
	for i := range queue.MaxCohorts {
		if err := client.HSet(ctx, redisqueue.Key(id, "cohorts"), 999_999_990+i, "3:1").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := line.Admit(ctx, 1000, queue.LimitedByCapacity); err != nil || len(b.Admitted) != 1 {
		t.Fatal(b, err)
	}
	s, err := line.Snapshot(ctx)
	if err != nil || len(s.Cohorts) != queue.MaxCohorts {
		t.Fatalf("%d cohorts, %v; want %d", len(s.Cohorts), err, queue.MaxCohorts)
	}
	first, last := s.Cohorts[0], s.Cohorts[queue.MaxCohorts-1]
	if first != (queue.Cohort{Second: 999_999_991, Admitted: 3, Arrived: 1}) || last.Admitted != 1 || last.Arrived != 0 {
		t.Fatalf("from %+v to %+v", first, last)
	}
}

// After a fail-over to a slower clock the cohorts of before are in the future: they
// give way first, or none of the present would stay.
func TestCohortsOfTheFutureGiveWayFirst(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	line, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Enter(ctx, "v", nil); err != nil {
		t.Fatal(err)
	}
	lately := time.Now().Unix() - 3
	for i := range int64(queue.MaxCohorts) {
		second := lately + 1000 + i
		if i == 0 {
			second = lately
		}
		if err := client.HSet(ctx, redisqueue.Key(id, "cohorts"), second, "3:1").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := line.Admit(ctx, 1000, queue.LimitedByCapacity); err != nil || len(b.Admitted) != 1 {
		t.Fatal(b, err)
	}
	s, err := line.Snapshot(ctx)
	if err != nil || len(s.Cohorts) != queue.MaxCohorts {
		t.Fatalf("%d cohorts, %v; want %d", len(s.Cohorts), err, queue.MaxCohorts)
	}
	if s.Cohorts[0].Second != lately || s.Cohorts[1].Admitted != 1 {
		t.Fatalf("%+v", s.Cohorts[:2])
	}
}

// crowd is a line with n waiting and its cap reached, so that it has a rate and
// admits nobody.
func crowd(t *testing.T, n int, opts queue.Options) (line *redisqueue.Line, id string, subjects []string, rate func(float64)) {
	t.Helper()
	client := dial(t)
	id = newLine(t, client)
	opts.Tick, opts.Initial.MaxActive = 20*time.Millisecond, 1
	line, err := redisqueue.New(client, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n + 1 {
		subjects = append(subjects, fmt.Sprint("v", i))
		if _, err := line.Enter(t.Context(), subjects[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	rate = func(perSecond float64) {
		t.Helper()
		for {
			b, err := line.Admit(t.Context(), perSecond, queue.LimitedByCapacity)
			if err != nil {
				t.Fatal(err)
			}
			if !b.Skipped {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	rate(1000)
	return line, id, subjects[1:], rate
}

func sweep(t *testing.T, line *redisqueue.Line, heard []string) queue.Swept {
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

// Nobody is judged by what was heard before they were near the head, whichever way
// they came near it again, and nothing is kept of those who are not.
func TestSweepForgetsStrangers(t *testing.T) {
	t.Parallel()
	opts := queue.DefaultOptions()
	opts.Grace, opts.Told = 700*time.Millisecond, &queue.Told{}
	line, id, subjects, rate := crowd(t, 2*queue.MinZone, opts)
	client := dial(t)
	seen := func() int64 { return client.ZCard(t.Context(), redisqueue.Key(id, "seen")).Val() }
	if s := sweep(t, line, subjects); s.Zone != 1400 || seen() != int64(len(subjects)) {
		t.Fatalf("%+v, %d seen", s, seen())
	}
	// The zone shrinks slowly. Those behind it are listened to no longer.
	rate(1)
	near := subjects[:queue.MinZone]
	if s := sweep(t, line, subjects); s.Zone < 1200 || s.Zone >= 1400 {
		t.Fatalf("%+v", s)
	}
	if err := client.HSet(t.Context(), redisqueue.Keys(id)[0], "zone", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 1500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		if s := sweep(t, line, slices.Concat(near, []string{"nobody"})); s.Zone != queue.MinZone || s.Away != 0 {
			t.Fatalf("%+v", s)
		}
	}
	time.Sleep(500 * time.Millisecond)
	sweep(t, line, near)
	if n := seen(); n != queue.MinZone {
		t.Fatalf("%d seen, want the %d of the zone", n, queue.MinZone)
	}
	// It grows again.
	rate(1000)
	time.Sleep(500 * time.Millisecond)
	if s := sweep(t, line, near); s.Zone != 1400 || s.Away != 0 {
		t.Fatalf("%+v, and nobody had listened to the others", s)
	}
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if s := sweep(t, line, near); s.Away == queue.MinZone {
			break
		} else if s.Away != 0 || time.Since(start) > 5*time.Second {
			t.Fatalf("%+v, want all who were silent", s)
		}
	}
}

// The longest interval that any process told counts for all, and more heard than
// one script takes are all heard.
func TestSweepOfManyProcesses(t *testing.T) {
	t.Parallel()
	opts := queue.DefaultOptions()
	opts.Grace, opts.Told = 400*time.Millisecond, &queue.Told{}
	line, id, subjects, _ := crowd(t, 2500, opts)
	patient := opts
	patient.Told = &queue.Told{}
	patient.Told.Note(2 * time.Second)
	other, err := redisqueue.New(dial(t), id, patient)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	sweep(t, other, nil)
	for time.Since(start) < 2*time.Second {
		if s := sweep(t, line, nil); s.Away != 0 || s.Zone != 4800 {
			t.Fatalf("after %s: %+v", time.Since(start), s)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for time.Since(start) < 3500*time.Millisecond {
		if s := sweep(t, line, subjects); s.Away != 0 {
			t.Fatalf("%+v, and all were heard", s)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	one, two := newLine(t, client), newLine(t, client)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := client.SRem(ctx, redisqueue.DirectoryKey, one, two).Err(); err != nil {
			t.Error(err)
		}
	})
	d, other := redisqueue.NewDirectory(client), redisqueue.NewDirectory(dial(t))
	for range 2 {
		if err := d.Add(ctx, two, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Add(ctx); err != nil {
		t.Fatal(err)
	}
	ids, err := other.Lines(ctx)
	if err != nil || !slices.IsSorted(ids) {
		t.Fatal(ids, err)
	}
	for _, id := range []string{one, two} {
		if n := len(slices.DeleteFunc(slices.Clone(ids), func(s string) bool { return s != id })); n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
}

// After a fail-over to a slower clock all that was noted is in the future: the
// silent are found all the same, and seen does not grow until that clock has caught
// up.
func TestSweepAfterSlowerClock(t *testing.T) {
	t.Parallel()
	opts := queue.DefaultOptions()
	opts.Grace, opts.Told = 300*time.Millisecond, &queue.Told{}
	line, id, subjects, rate := crowd(t, queue.MinZone+10, opts)
	rate(1)
	client, ctx := dial(t), t.Context()
	sweep(t, line, subjects)
	meta, seen := redisqueue.Keys(id)[0], redisqueue.Key(id, "seen")
	for _, field := range []string{"swept_at", "marked_at", "listening", "told_at"} {
		if err := client.HIncrBy(ctx, meta, field, time.Hour.Milliseconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range subjects {
		if err := client.ZIncrBy(ctx, seen, float64(time.Hour.Milliseconds()), subject).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for away, start := int64(0), time.Now(); away < queue.MinZone; time.Sleep(50 * time.Millisecond) {
		if s := sweep(t, line, nil); s.Away > 0 && time.Since(start) < opts.Grace {
			t.Fatalf("away after %s: %+v", time.Since(start), s)
		} else if away += s.Away; time.Since(start) > 5*time.Second {
			t.Fatalf("%d are away", away)
		}
	}
	if n := client.ZCard(ctx, seen).Val(); n > 10 {
		t.Fatalf("%d seen, of nobody but those who came near the head since", n)
	}
}
