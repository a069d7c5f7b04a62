package redisqueue_test

import (
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// given is an admission that an instance gave without the line.
func given(ticket queue.Ticket, at time.Time, good time.Duration) queue.Admission {
	at = at.Truncate(time.Millisecond)
	return queue.Admission{
		Line: ownLine, Epoch: ticket.Epoch, Subject: ticket.Subject, TicketID: ticket.ID, Place: ticket.Place,
		AdmittedAt: at, NotBefore: at, ExpiresAt: at.Add(good),
	}
}

// What an operator changed while Redis was away comes back with it, emptied or not,
// whichever process is first, and also through a restart of the process.
func TestAdoptedSettings(t *testing.T) {
	t.Parallel()
	for name, emptiedToo := range map[string]bool{"kept its memory": false, "emptied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, flush := emptied(t)
			a, b := process(t, client, nil), process(t, client, nil)
			before := look(t, a)
			look(t, b)
			older, newer := before.Settings, before.Settings
			older.Revision, older.Message = older.Revision+5, "older"
			newer.Revision, newer.Message, newer.Paused = newer.Revision+6, "newer", true
			a.Adopt(newer)
			a.Adopt(older)
			b.Adopt(older)
			if emptiedToo {
				flush()
			}
			if s := look(t, b); s.Settings.Message != "older" {
				t.Fatalf("the first back: %+v", s.Settings)
			}
			for _, line := range []*redisqueue.Line{a, b, process(t, client, nil)} {
				if s := look(t, line); s.Settings.Message != "newer" || !s.Settings.Paused || s.Settings.Revision != newer.Revision || s.Recovering() != emptiedToo {
					t.Fatalf("%+v, want %+v", s, newer)
				}
			}
			// Adopted, and the process has started again before Redis was back.
			newest := newer
			newest.Revision, newest.Message = newer.Revision+1, "newest"
			again := process(t, client, func(o *queue.Options) {
				o.Known = &queue.Remembered{Created: look(t, a).Created, Settings: newest}
			})
			if s := look(t, again); s.Settings.Message != "newest" || s.Recovering() != emptiedToo {
				t.Fatalf("after a start: %+v", s)
			}
			if s := look(t, a); s.Settings.Message != "newest" {
				t.Fatalf("another process: %+v", s)
			}
		})
	}
}

// An admission given without the line is noted in a Redis that was emptied, whose loss
// that shows; the visitor is told it and not put back into the order.
func TestRecordInAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	line := process(t, client, nil)
	look(t, line)
	passed, waits := enter(t, line, "passed"), enter(t, line, "waits")
	flush()
	a := given(passed, time.Now(), time.Hour)
	if err := line.Record(t.Context(), []queue.Admission{a}); err != nil {
		t.Fatal(err)
	}
	if s := look(t, line); !s.Recovering() || s.Inside != 1 || s.Bypassed != 1 {
		t.Fatalf("recorded: %+v", s)
	}
	if s := poll(t, line, passed); s.Admission != a {
		t.Fatalf("let in as %+v, want %+v", s, a)
	}
	if s := poll(t, line, waits); s.Position != 1 {
		t.Fatalf("who waits: %+v", s)
	}
}

// Who was let in without the line and has run out leaves nothing behind but the end.
func TestRecordedLeaveNothing(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	opts := queue.DefaultOptions()
	opts.Tick = 20 * time.Millisecond
	line, err := redisqueue.New(client, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	over, live := enter(t, line, "over"), enter(t, line, "live")
	admissions := []queue.Admission{given(over, time.Now().Add(-time.Hour), time.Minute), given(live, time.Now(), 200*time.Millisecond)}
	for range 2 {
		if err := line.Record(ctx, admissions); err != nil {
			t.Fatal(err)
		}
	}
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := line.Admit(ctx, 0, queue.LimitedByCapacity); err != nil {
			t.Fatal(err)
		}
		if look(t, line).Expired == 2 {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("still not over: %+v", look(t, line))
		}
	}
	for _, key := range []string{"waiting", "away", "lapse", "tickets", "admitted", "inside", "aliases", "early"} {
		if n, err := client.Exists(ctx, redisqueue.Key(id, key)).Result(); err != nil || n != 0 {
			t.Errorf("%s is still there: %v", key, err)
		}
	}
	for _, key := range []string{"ended", "cohorts"} {
		if n, err := client.HLen(ctx, redisqueue.Key(id, key)).Result(); err != nil || n != 2 {
			t.Errorf("%s has %d, want 2: %v", key, n, err)
		}
	}
}
