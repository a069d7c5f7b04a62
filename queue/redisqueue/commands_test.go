package redisqueue_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// sent counts the commands that a client sends, by name.
type sent struct {
	mu    sync.Mutex
	names map[string]int
}

func (s *sent) count(cmds ...redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range cmds {
		if name := cmd.Name(); name != "hello" && name != "client" { // a new connection greets
			s.names[name]++
		}
	}
}

func (s *sent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.count(cmd)
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.count(cmds...)
		return next(ctx, cmds)
	}
}

// To enter, to enter again and to leave are one script each, and nothing else.
func TestOneScriptForAChange(t *testing.T) {
	t.Parallel()
	client := dial(t)
	line, err := redisqueue.New(client, newLine(t, client), queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	changes := []struct {
		name string
		do   func(ticket queue.Ticket) (queue.Ticket, error)
	}{
		{"to enter", func(queue.Ticket) (queue.Ticket, error) {
			s, err := line.Enter(t.Context(), queue.NewID(), nil)
			return s.Ticket, err
		}},
		{"to enter again", func(held queue.Ticket) (queue.Ticket, error) {
			s, err := line.Enter(t.Context(), held.Subject, &held)
			return s.Ticket, err
		}},
		{"to leave", func(held queue.Ticket) (queue.Ticket, error) { return held, line.Leave(t.Context(), held) }},
	}
	var first queue.Ticket // opens the line, and brings Redis the scripts
	for _, change := range changes {
		if first, err = change.do(first); err != nil {
			t.Fatal(err)
		}
	}
	count := &sent{}
	client.AddHook(count)
	tickets := make([]queue.Ticket, 200)
	for _, change := range changes {
		count.names = map[string]int{}
		var all errgroup.Group
		for i := range tickets {
			all.Go(func() (err error) {
				tickets[i], err = change.do(tickets[i])
				return err
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		if want := map[string]int{"evalsha": len(tickets)}; !maps.Equal(count.names, want) {
			t.Errorf("%s took %v, want %v", change.name, count.names, want)
		}
	}
}
