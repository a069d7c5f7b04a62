package redisqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// A process that has known the line puts back what Redis has forgotten: epoch,
// settings and the floor of places; the tickets put back the order.
func TestRedisEmptied(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	line, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := line.Restart(ctx)
	if err != nil {
		t.Fatal(err)
	}
	paused, message := true, "back in a minute"
	settings, err := line.Configure(ctx, queue.Patch{Paused: &paused, Message: &message})
	if err != nil {
		t.Fatal(err)
	}
	var tickets []queue.Ticket
	for range 5 {
		s, err := line.Enter(ctx, queue.NewID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, s.Ticket)
	}
	// A clock that runs behind after the loss must not put a newcomer in front.
	future := tickets[4]
	future.ID, future.Subject, future.Place = queue.NewID(), queue.NewID(), tickets[4].Place+time.Hour.Microseconds()
	if s, err := line.Standing(ctx, future); err != nil || s.Position != 6 {
		t.Fatalf("a place in the future: %+v, %v", s, err)
	}

	for name, touch := range map[string]func() error{
		"a newcomer comes first": func() error { _, err := line.Enter(ctx, "newcomer", nil); return err },
		"the watch comes first":  func() error { _, err := line.Snapshot(ctx); return err },
		"a batch comes first":    func() error { _, err := line.Admit(ctx, 1000, queue.LimitedByCapacity); return err },
	} {
		if err := client.Del(ctx, redisqueue.Keys(id)...).Err(); err != nil {
			t.Fatal(err)
		}
		if err := touch(); err != nil {
			t.Fatal(name, err)
		}
		newcomer, err := line.Enter(ctx, "newcomer", nil)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, i := range []int{3, 0, 4, 2, 1} {
			if s, err := line.Standing(ctx, tickets[i]); err != nil || s.State != queue.Waiting {
				t.Fatalf("%s: %+v, %v", name, s, err)
			}
		}
		for i, ticket := range tickets {
			if s, err := line.Standing(ctx, ticket); err != nil || s.Position != int64(i+1) || s.Ticket != ticket {
				t.Errorf("%s: visitor %d stands at %+v, %v", name, i, s, err)
			}
		}
		if newcomer.Ticket.Place <= future.Place || newcomer.Ticket.Epoch != epoch {
			t.Errorf("%s: a newcomer got %+v, want a place after %d in epoch %d", name, newcomer.Ticket, future.Place, epoch)
		}
		s, err := line.Snapshot(ctx)
		if err != nil || s.Epoch != epoch || s.Settings != settings {
			t.Errorf("%s: %+v, %v; want epoch %d and %+v", name, s, err, epoch, settings)
		}
	}
}

// An older copy of the line, as after a fail-over to a lagging replica, is
// brought up to date by whoever knows better.
func TestRedisFellBack(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	line, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	meta := redisqueue.Keys(id)[0]
	old, err := client.HGetAll(ctx, meta).Result()
	if err != nil {
		t.Fatal(err)
	}
	// The floor alone: a newcomer must not get in front of a place given out.
	given, err := line.Enter(ctx, "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	future := given.Ticket
	future.Subject, future.ID, future.Place = "w", queue.NewID(), future.Place+time.Hour.Microseconds()
	if _, err := line.Standing(ctx, future); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(ctx, meta, old).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := line.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := line.Enter(ctx, "x", nil); err != nil || s.Ticket.Place <= future.Place {
		t.Fatalf("a newcomer got %+v, %v; want a place after %d", s, err, future.Place)
	}

	paused := true
	want, err := line.Configure(ctx, queue.Patch{Paused: &paused})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := line.Restart(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(ctx, meta, old).Err(); err != nil {
		t.Fatal(err)
	}
	if s, err := line.Snapshot(ctx); err != nil || s.Settings != want || s.Epoch != epoch {
		t.Fatalf("%+v, %v; want epoch %d and %+v", s, err, epoch, want)
	}
	// The other way round it learns, and does not overwrite.
	other, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.Snapshot(ctx); err != nil || s.Settings != want || s.Epoch != epoch {
		t.Fatalf("another process: %+v, %v", s, err)
	}
	// A process that remembers them puts them back into an empty Redis.
	if err := client.Del(ctx, redisqueue.Keys(id)...).Err(); err != nil {
		t.Fatal(err)
	}
	opts := queue.DefaultOptions()
	opts.Known = &queue.Remembered{Epoch: epoch, Settings: want}
	restarted, err := redisqueue.New(client, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := restarted.Snapshot(ctx); err != nil || s.Settings != want || s.Epoch != epoch {
		t.Fatalf("after a restart and a loss: %+v, %v", s, err)
	}
}

// A server that takes connections and never answers: every method gives up at
// its context's deadline, with ErrUnavailable.
func TestRedisSilent(t *testing.T) {
	t.Parallel()
	client, err := redisqueue.Dial(silent(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	line, err := redisqueue.New(client, "silent", queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	ticket := queue.Ticket{Line: "silent", Subject: "v", ID: "t", Place: 1}
	for name, call := range map[string]func(context.Context) error{
		"Enter":    func(ctx context.Context) error { _, err := line.Enter(ctx, "v", nil); return err },
		"Standing": func(ctx context.Context) error { _, err := line.Standing(ctx, ticket); return err },
		"Remove":   func(ctx context.Context) error { _, err := line.Remove(ctx, "v"); return err },
		"Sweep":    func(ctx context.Context) error { _, err := line.Sweep(ctx, []queue.Heard{{Subject: "v"}}); return err },
		"Leave":    func(ctx context.Context) error { return line.Leave(ctx, ticket) },
		"Admit":    func(ctx context.Context) error { _, err := line.Admit(ctx, 1, queue.LimitedByCapacity); return err },
		"Spend": func(ctx context.Context) error {
			return line.Spend(ctx, []queue.Completion{{Subject: "v", TicketID: "t"}})
		},
		"Arrive": func(ctx context.Context) error {
			return line.Arrive(ctx, []queue.Completion{{Subject: "v", TicketID: "t"}})
		},
		"Seal":     func(ctx context.Context) error { return line.Seal(ctx) },
		"Export":   func(ctx context.Context) error { _, err := line.Export(ctx); return err },
		"Lines":    func(ctx context.Context) error { _, err := redisqueue.NewDirectory(client).Lines(ctx); return err },
		"Add":      func(ctx context.Context) error { return redisqueue.NewDirectory(client).Add(ctx, "default") },
		"Snapshot": func(ctx context.Context) error { _, err := line.Snapshot(ctx); return err },
		"Configure": func(ctx context.Context) error {
			_, err := line.Configure(ctx, queue.Patch{SoldOut: new(bool)})
			return err
		},
		"Restart": func(ctx context.Context) error { _, err := line.Restart(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			if err := call(ctx); !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
			// Twenty times the deadline, half of the socket's own timeout.
			if took := time.Since(start); took > time.Second {
				t.Errorf("gave up after %s", took)
			}
		})
	}
}

// silent is the URL of a server that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "redis://" + listener.Addr().String()
}

// What another version has left under the names of the line's keys is no line of
// ours: it starts anew, and whoever waited comes back as after a loss.
func TestAnotherLayout(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), dial(t)
	id := newLine(t, client)
	tag := "sluice:{" + id + "}:"
	t.Cleanup(func() { _ = client.Del(context.Background(), tag+"meta").Err() })
	place := time.Now().Add(-time.Minute).UnixMicro()
	for _, command := range [][]any{
		{"HSET", tag + "meta", "epoch", 3, "floor", place, "revision", 0, "paused", 0, "message", "", "mode", "normal",
			"rate_override", "", "max_active", 0, "max_length", 0, "sold_out", 0},
		{"ZADD", tag + "waiting", place, "waits"}, {"HSET", tag + "tickets", "waits", "w", "inside", "i"},
		{"HSET", tag + "admitted", "i", fmt.Sprintf("%d:1:1:1:inside", place-1)}, {"ZADD", tag + "inside", 1, "i"},
		{"ZADD", tag + "ended", 8*time.Now().Add(time.Hour).Unix() + 1, "e"},
	} {
		if err := client.Do(ctx, command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	opts := queue.DefaultOptions()
	opts.Tick, opts.RecoveryHold = 20*time.Millisecond, 100*time.Millisecond
	opts.Known = &queue.Remembered{Epoch: 3, Settings: queue.Settings{Revision: 9, Mode: queue.ModeNormal, Weight: 1, Message: "kept"}}
	line, err := redisqueue.New(client, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	if s := look(t, line); s.Waiting+s.Inside != 0 || s.Epoch != 3 || s.Settings.Message != "kept" || !s.Recovering() {
		t.Fatalf("begun anew: %+v", s)
	}
	for i, subject := range []string{"waits", "inside"} {
		ticket := queue.Ticket{Line: id, Epoch: 3, Subject: subject, ID: subject[:1], Place: place - int64(i)}
		if s := poll(t, line, ticket); s.State != queue.Waiting || s.Position != 1 {
			t.Fatalf("%s: %+v", subject, s)
		}
	}
	if err := line.Spend(ctx, []queue.Completion{{Subject: "ended", TicketID: "e"}}); err != nil {
		t.Fatal(err)
	}
	sweep(t, line, nil)
	if all, err := line.Export(ctx); err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for len(admitOne(t, line)) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

func admitOne(t *testing.T, line queue.Line) []queue.Admission {
	t.Helper()
	b, err := line.Admit(t.Context(), 50, queue.LimitedByCapacity)
	if err != nil {
		t.Fatal(err)
	}
	return b.Admitted
}
