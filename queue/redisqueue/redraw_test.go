package redisqueue_test

import (
	"slices"
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// How a draw comes back after a loss.

// While nobody who knows the seed has come back, early tickets stand in front in
// any order; then the draw is what it was.
func TestDrawIsPutBack(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	knowing := process(t, client, nil)
	opens := look(t, knowing).At.Add(time.Hour)
	p := &opens
	if _, err := knowing.Configure(t.Context(), queue.Patch{OpensAt: &p}); err != nil {
		t.Fatal(err)
	}
	var early []queue.Ticket
	for range 50 {
		early = append(early, enter(t, knowing, queue.NewID()))
	}
	opens = opens.Add(-2 * time.Hour)
	settings, err := knowing.Configure(t.Context(), queue.Patch{OpensAt: &p})
	if err != nil {
		t.Fatal(err)
	}
	late := enter(t, knowing, "late")
	slices.SortFunc(early, func(a, b queue.Ticket) int {
		return int(queue.DrawPlace(settings.Seed, a.ID) - queue.DrawPlace(settings.Seed, b.ID))
	})
	flush()
	fresh := process(t, client, nil)
	for _, ticket := range append([]queue.Ticket{late}, early...) {
		if s := poll(t, fresh, ticket); s.State != queue.Waiting || s.Ticket != ticket {
			t.Fatalf("without the seed: %+v", s)
		}
	}
	if s := poll(t, fresh, late); s.Position != 51 {
		t.Fatalf("who came after the opening: %+v", s)
	}
	if s := look(t, knowing); s.Settings.Seed != settings.Seed || !s.Recovering() {
		t.Fatalf("put back: %+v", s)
	}
	for _, line := range []*redisqueue.Line{fresh, knowing} {
		for _, ticket := range early {
			if s := poll(t, line, ticket); s.State != queue.Waiting {
				t.Fatalf("with the seed: %+v", s)
			}
		}
	}
	for i, ticket := range append(slices.Clone(early), late) {
		if s := poll(t, fresh, ticket); s.Position != int64(i+1) || s.Length != 51 {
			t.Fatalf("ticket %d of the draw: %+v", i, s)
		}
	}
}

// When another draw is put back, nothing of the old one counts against those who
// were away in it: they come back, and stay.
func TestAwayFromAnotherDraw(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	short := func(o *queue.Options) { o.Grace, o.KeepPlace = 100*time.Millisecond, 1500*time.Millisecond }
	knowing := process(t, client, short)
	opens := look(t, knowing).At.Add(time.Hour)
	p := &opens
	if _, err := knowing.Configure(t.Context(), queue.Patch{OpensAt: &p}); err != nil {
		t.Fatal(err)
	}
	early := []queue.Ticket{enter(t, knowing, "a"), enter(t, knowing, "b")}
	opens = opens.Add(-2 * time.Hour)
	if _, err := knowing.Configure(t.Context(), queue.Patch{OpensAt: &p}); err != nil {
		t.Fatal(err)
	}
	flush()
	fresh := process(t, client, short)
	for _, ticket := range early {
		poll(t, fresh, ticket)
	}
	slices.SortFunc(early, func(a, b queue.Ticket) int { return int(queue.DrawPlace("", a.ID) - queue.DrawPlace("", b.ID)) })
	first, last := early[0], early[1]
	for look(t, fresh).Recovering() {
		time.Sleep(50 * time.Millisecond)
	}
	for away := int64(0); away == 0; time.Sleep(50 * time.Millisecond) {
		away = sweep(t, fresh, []string{last.Subject}).Away
	}
	for admitted := 0; admitted == 0; time.Sleep(5 * time.Millisecond) {
		b, err := fresh.Admit(t.Context(), 1000, queue.LimitedByCapacity)
		if err != nil {
			t.Fatal(err)
		}
		admitted = len(b.Admitted)
	}
	sweep(t, fresh, nil) // the head has passed the one who is away
	// Nobody goes in before those of the draw can have come back to it.
	if s := look(t, knowing); hold(s) != time.Second {
		t.Fatalf("held for %s, want 1s: %+v", hold(s), s)
	}
	back := time.Now()
	for time.Since(back) < 2500*time.Millisecond {
		if s := poll(t, fresh, first); s.State != queue.Waiting {
			t.Fatalf("%s after coming back: %+v", time.Since(back), s)
		}
		sweep(t, fresh, []string{first.Subject})
		time.Sleep(100 * time.Millisecond)
	}
}

// A draw that was announced at the birth of a line stands, also if a process that
// never knew the line has made another one since the loss.
func TestBornDrawIsPutBack(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	opens := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	born := func(o *queue.Options) { o.Initial.OpensAt = &opens }
	knowing := process(t, client, born)
	announced := look(t, knowing).Settings.Seed
	early := enter(t, knowing, "early")
	for range 5 { // which of two seeds has the larger hash is chance
		flush()
		fresh := process(t, client, born)
		enter(t, fresh, "fresh")
		if s := look(t, fresh); s.Settings.Seed == announced {
			t.Fatal("it has guessed the seed")
		}
		look(t, knowing)
		if s := poll(t, fresh, early); s.State != queue.Scheduled || s.Ticket != early {
			t.Fatalf("%+v", s)
		}
		for _, line := range []*redisqueue.Line{fresh, knowing} {
			if s := look(t, line).Settings; s.Seed != announced || !s.OpensAt.Equal(opens) {
				t.Fatalf("%+v, want the seed %s", s, announced)
			}
		}
	}
}
