package redisqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
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

// TestCopyFollows plays with a line and compares two copies with it, one that follows
// each step and one that misses many. Seldom may one begin anew: after a loss, a restart,
// or when Redis kept fewer moves than were missed.
func TestCopyFollows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		p := newPlayer(t, seed)
		p.enter(2*redisqueue.Chunk + 500)
		excused, steps := int64(0), []string{}
		for range 80 {
			did := p.step()
			steps = append(steps, did)
			if did == "restart" || did == "loss" {
				excused++
			}
			for i, line := range p.lines {
				if i == 1 && p.r.IntN(8) > 0 {
					continue
				}
				line.Catch(t.Context())
				if err := p.same(line); err != nil {
					t.Fatalf("seed %d, process %d after %q: %v", seed, i, steps, err)
				}
			}
		}
		if p.away == 0 {
			t.Errorf("seed %d: nobody fell silent", seed)
		}
		for i, line := range p.lines {
			if renewed := line.Reads().Renewed; renewed > excused {
				t.Errorf("seed %d: the copy of process %d was begun anew %d times, with %d reasons", seed, i, renewed, excused)
			}
		}
	}
}

// twice runs every command twice, as a client does that lost the first answer.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook { return next }

func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = next(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds)
		for _, cmd := range cmds {
			cmd.SetErr(nil)
		}
		return next(ctx, cmds)
	}
}

// TestCopyFollowsWhatIsRepeated plays with a line on which every script runs twice: no move
// is noted that was not made, nobody has two places.
func TestCopyFollowsWhatIsRepeated(t *testing.T) {
	t.Parallel()
	p := newPlayer(t, 9)
	p.client.AddHook(twice{})
	p.enter(redisqueue.Chunk + 200)
	p.inOrder()
	if n := p.client.ZCard(t.Context(), redisqueue.Key(p.id, "waiting")).Val(); n != int64(len(p.held)) {
		t.Fatalf("%d places of %d who entered", n, len(p.held))
	}
	var steps []string
	excused := int64(0)
	for range 60 {
		did := p.step()
		steps = append(steps, did)
		if did == "restart" || did == "loss" {
			excused++
		}
		p.lines[0].Catch(t.Context())
		if err := p.same(p.lines[0]); err != nil {
			t.Fatalf("after %q: %v", steps, err)
		}
	}
	if renewed := p.lines[0].Reads().Renewed; renewed > excused {
		t.Errorf("the copy was begun anew %d times, with %d reasons: %q", renewed, excused, steps)
	}
}

// TestCopyNoticesAnotherHistory has Redis fail over to a replica that lacks the last move,
// and makes as many others before the copy is brought up to date: the count of moves, the
// length and the first place are all what they were.
func TestCopyNoticesAnotherHistory(t *testing.T) {
	t.Parallel()
	for more := range 3 {
		p := newPlayer(t, uint64(6+more))
		p.enter(20)
		p.inOrder()
		leave := func(i int) {
			t.Helper()
			if err := p.lines[1].Leave(t.Context(), p.held[i]); err != nil {
				t.Fatal(err)
			}
		}
		leave(3)
		replica := map[string]string{}
		for _, key := range redisqueue.Keys(p.id) {
			if dump, err := p.client.Dump(t.Context(), key).Result(); err == nil {
				replica[key] = dump
			} else if !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
		leave(7)
		line := p.lines[0]
		line.Catch(t.Context())
		for _, key := range redisqueue.Keys(p.id) {
			p.must(p.client.Del(t.Context(), key).Err())
			if dump, ok := replica[key]; ok {
				p.must(p.client.Restore(t.Context(), key, 0, dump).Err())
			}
		}
		leave(11)
		for i := range more {
			leave(14 + i)
		}
		line.Catch(t.Context())
		if err := p.same(line); err != nil {
			t.Errorf("%d moves more: %v", more, err)
		}
	}
}

// TestCopyInADraw follows a line whose places are drawn, all equal in the order of
// arrival and some in place.
func TestCopyInADraw(t *testing.T) {
	t.Parallel()
	p := newPlayer(t, 1)
	opens := time.Now().Add(time.Second)
	at := &opens
	if _, err := p.lines[0].Configure(t.Context(), queue.Patch{OpensAt: &at}); err != nil {
		t.Fatal(err)
	}
	p.enter(3 * redisqueue.Chunk)
	early := slices.Clone(p.held)
	for p.line(); time.Now().Before(opens.Add(50 * time.Millisecond)); {
		time.Sleep(10 * time.Millisecond)
	}
	for range 20 {
		p.enter(100)
		if _, err := p.line().Standing(t.Context(), early[p.r.IntN(len(early))]); err != nil {
			t.Fatal(err)
		}
		p.must(p.line().Leave(t.Context(), early[p.r.IntN(len(early))]))
		for _, line := range p.lines {
			line.Catch(t.Context())
			if err := p.same(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := p.lines[0].Reads().Renewed; n > 0 {
		t.Errorf("begun anew %d times", n)
	}
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

// TestPositionsFallAtEveryProcess polls at any of two processes, as often as the shortest
// interval allows, while people are let in, leave and come: nobody's position grows, and
// the position of whoever has not moved is what Redis says.
func TestPositionsFallAtEveryProcess(t *testing.T) {
	t.Parallel()
	p := newPlayer(t, 2)
	p.enter(2*redisqueue.Chunk + redisqueue.Nearest)
	p.inOrder()
	crowd := p.held
	p.follow()
	p.copied(crowd[len(crowd)-1])

	stop := make(chan struct{})
	var busy, polling sync.WaitGroup
	busy.Go(func() { // lets in, leaves and enters until the polls are over
		r := rand.New(rand.NewPCG(3, 0))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			line := p.lines[i%2]
			if _, err := line.Admit(t.Context(), 200, queue.LimitedByCapacity); err != nil {
				t.Error(err)
			}
			if err := line.Leave(t.Context(), crowd[r.IntN(len(crowd)/2)]); err != nil {
				t.Error(err)
			}
			if _, err := line.Enter(t.Context(), queue.NewID(), nil); err != nil {
				t.Error(err)
			}
		}
	})
	var polls atomic.Int64
	for k := range 20 {
		mine := crowd[len(crowd)/2+k*len(crowd)/41]
		polling.Go(func() {
			r, last := rand.New(rand.NewPCG(uint64(k), 1)), int64(1<<62)
			for range 6 {
				s, err := p.lines[r.IntN(2)].Standing(t.Context(), mine)
				if err != nil {
					t.Error(err)
					return
				}
				if s.State == queue.Waiting && s.Position > last {
					t.Errorf("%d after %d", s.Position, last)
				}
				last = s.Position
				polls.Add(1)
				time.Sleep(800*time.Millisecond + time.Duration(r.IntN(100))*time.Millisecond)
			}
		})
	}
	polling.Wait()
	close(stop)
	busy.Wait()
	for i, line := range p.lines {
		reads := line.Reads()
		t.Logf("process %d: %+v", i, reads)
		if reads.Renewed > 0 {
			t.Errorf("process %d began its copy anew: %+v", i, reads)
		}
	}
}

// TestCopyIsNotAnswered are the times at which a copy must not be: after this process
// changed something of the visitor's, after a restart, and near the head.
func TestCopyIsNotAnswered(t *testing.T) {
	t.Parallel()
	p := newPlayer(t, 4)
	p.enter(2 * redisqueue.Nearest)
	p.inOrder()
	p.follow()
	last := func(back int) queue.Ticket { return p.held[len(p.held)-back] }
	p.copied(last(1))

	line := p.lines[0]
	before := line.Reads()
	if s, err := line.Standing(t.Context(), p.held[10]); err != nil || s.Position != 11 {
		t.Errorf("near the head: %+v %v", s, err)
	}
	if r := line.Reads(); r.Asked != before.Asked+1 {
		t.Errorf("the head was answered from a copy: %+v %+v", before, r)
	}
	for i := 1; i < 20; i++ { // each would be answered from the copy, had it not just left
		if err := line.Leave(t.Context(), last(i)); err != nil {
			t.Fatal(err)
		}
		if s, err := line.Standing(t.Context(), last(i)); err != nil || s.State != queue.Left {
			t.Errorf("after leaving: %+v %v", s, err)
		}
	}
	p.copied(last(30))
	if _, err := line.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := line.Standing(t.Context(), last(30)); !errors.Is(err, queue.ErrEpoch) {
		t.Errorf("after a restart: %+v %v", s, err)
	}
}

// TestLossUnderCopies empties the line under processes that answer from copies: whoever
// polls again is back at their place, in the old order.
func TestLossUnderCopies(t *testing.T) {
	t.Parallel()
	p := newPlayer(t, 5)
	p.enter(2 * redisqueue.Nearest)
	p.inOrder()
	p.follow()
	p.copied(p.held[len(p.held)-1])
	if err := p.client.Del(t.Context(), redisqueue.Keys(p.id)...).Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(redisqueue.MaxAge) // older ones answer nobody
	for _, i := range rand.Perm(len(p.held)) {
		if _, err := p.line().Standing(t.Context(), p.held[i]); err != nil {
			t.Fatal(err)
		}
	}
	p.copied(p.held[len(p.held)-1])
	for i, ticket := range p.held {
		s, err := p.lines[i%2].Standing(t.Context(), ticket)
		if err != nil || s.Position != int64(i+1) {
			t.Fatalf("%d after the loss is at %d: %v", i+1, s.Position, err)
		}
	}
}
