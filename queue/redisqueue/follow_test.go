package redisqueue_test

import (
	"context"
	"errors"
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
