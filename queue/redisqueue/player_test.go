package redisqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// player does at random to a line what can be done to one, at two processes.
type player struct {
	t      *testing.T
	r      *rand.Rand
	client redis.UniversalClient
	id     string
	lines  [2]*redisqueue.Line
	held   []queue.Ticket
	away   int64 // how many fell silent
}

func newPlayer(t *testing.T, seed uint64) *player {
	client := dial(t)
	p := &player{t: t, r: rand.New(rand.NewPCG(seed, 0)), client: client, id: newLine(t, client)}
	for i := range p.lines {
		opts := queue.DefaultOptions()
		opts.Tick, opts.Jitter, opts.RecoveryHold, opts.Grace = 10*time.Millisecond, 0, 0, 0
		line, err := redisqueue.New(client, p.id, opts)
		if err != nil {
			t.Fatal(err)
		}
		p.lines[i] = line
	}
	return p
}

func (p *player) line() *redisqueue.Line { return p.lines[p.r.IntN(2)] }

func (p *player) any() queue.Ticket {
	if len(p.held) == 0 {
		return queue.Ticket{Subject: "nobody"}
	}
	return p.held[p.r.IntN(len(p.held))]
}

// must takes the refusals that are part of the game.
func (p *player) must(err error) {
	p.t.Helper()
	for _, refusal := range []error{queue.ErrEpoch, queue.ErrClosed, queue.ErrFull, queue.ErrStarted} {
		if errors.Is(err, refusal) {
			return
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) enter(n int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	subjects := make([]string, n)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("s:-<\xff\n%d", p.r.IntN(20_000)) // moves are noted as text
	}
	line := p.line()
	for _, subject := range subjects {
		wg.Go(func() {
			s, err := line.Enter(p.t.Context(), subject, nil)
			mu.Lock()
			defer mu.Unlock()
			p.must(err)
			if err == nil && s.State.Live() {
				p.held = append(p.held, s.Ticket)
			}
		})
	}
	wg.Wait()
}

// inOrder sorts the tickets held by their places, each once.
func (p *player) inOrder() {
	slices.SortFunc(p.held, func(a, b queue.Ticket) int { return int(a.Place - b.Place) })
	p.held = slices.CompactFunc(p.held, func(a, b queue.Ticket) bool { return a.ID == b.ID })
}

// step does one thing; what it is, for whoever looks for the one that went wrong.
func (p *player) step() string {
	ctx, line := p.t.Context(), p.line()
	switch k := p.r.IntN(100); {
	case k < 30:
		p.enter(p.r.IntN(400))
		return "enter"
	case k < 40:
		p.must(line.Leave(ctx, p.any()))
		return "leave"
	case k < 50:
		_, err := line.Remove(ctx, p.any().Subject)
		p.must(err)
		return "remove"
	case k < 65:
		time.Sleep(10 * time.Millisecond) // a tick of the store's clock
		_, err := line.Admit(ctx, 5_000, queue.LimitedByCapacity)
		p.must(err)
		return "admit"
	case k < 75: // a poll, which brings back who is away or lost
		_, err := line.Standing(ctx, p.any())
		p.must(err)
		return "poll"
	case k < 82: // a second ticket of the same visitor, given earlier
		t := p.any()
		t.ID, t.Place = queue.NewID(), max(1, t.Place-p.r.Int64N(1e6))
		_, err := line.Standing(ctx, t)
		p.must(err)
		return "another ticket"
	case k < 86:
		t := p.any()
		now := time.Now()
		p.must(line.Record(ctx, []queue.Admission{{Line: p.id, Epoch: t.Epoch, Subject: t.Subject, TicketID: t.ID, Place: t.Place,
			AdmittedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Hour)}}))
		return "record"
	case k < 94: // with nobody heard, those near the head are away
		for range 2 { // the first begins to listen
			p.must(p.client.HSet(ctx, redisqueue.Key(p.id, "meta:3"), "marked_at", 0).Err())
			swept, err := line.Sweep(ctx, nil)
			p.must(err)
			p.away += swept.Away
		}
		return "sweep"
	case k < 95:
		_, err := line.Restart(ctx)
		p.must(err)
		return "restart"
	case k < 96:
		p.must(p.client.Del(ctx, redisqueue.Keys(p.id)...).Err())
		time.Sleep(2 * time.Millisecond) // the next incarnation is of another millisecond
		_, err := line.Snapshot(ctx)
		p.must(err)
		return "loss"
	default:
		mode := []queue.Mode{queue.ModeNormal, queue.ModePassthrough}[p.r.IntN(2)]
		_, err := line.Configure(ctx, queue.Patch{Mode: &mode})
		p.must(err)
		return string(mode)
	}
}

// same compares a copy with the line.
func (p *player) same(line *redisqueue.Line) error {
	all, err := p.client.ZRangeWithScores(p.t.Context(), redisqueue.Key(p.id, "waiting"), 0, -1).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	subjects, places := make([]string, len(all)), make([]int64, len(all))
	for i, z := range all {
		subjects[i], places[i] = z.Member.(string), int64(z.Score)
	}
	length, positions := line.Copied(subjects, places)
	if length != int64(len(all)) {
		return fmt.Errorf("a copy of %d places, the line has %d", length, len(all))
	}
	for i, position := range positions {
		if position != i+1 {
			return fmt.Errorf("%s at %d is in the copy at %d, in the line at %d", subjects[i], places[i], position, i+1)
		}
	}
	return nil
}

// follow has the processes keep copies until the test ends, with a snapshot now and then
// as the watch of a process takes.
func (p *player) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, line := range p.lines {
		wg.Go(func() { _ = line.Follow(ctx) })
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = line.Snapshot(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	p.t.Cleanup(func() { cancel(); wg.Wait() })
}

// copied waits until polls at both processes are answered from copies.
func (p *player) copied(ticket queue.Ticket) {
	p.t.Helper()
	for _, line := range p.lines {
		before := line.Reads().Copied
		for start := time.Now(); line.Reads().Copied == before; time.Sleep(5 * time.Millisecond) {
			if time.Since(start) > 20*time.Second {
				p.t.Fatal("polls are not answered from a copy")
			}
			if _, err := line.Standing(p.t.Context(), ticket); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}
