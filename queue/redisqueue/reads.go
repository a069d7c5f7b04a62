package redisqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// maxReads bounds one pipeline, so that a burst of polls is answered piece by
// piece and not all at its end.
const maxReads = 1000

// reads puts the position reads of concurrent polls into shared pipelines: while
// one is on its way, those who come meanwhile gather for the next. A single poll
// goes at once. A goroutine runs only while there is something to read, and a
// pipeline for at most ioTimeout.
//
// go-redis has an auto-pipeliner, but its waits ignore the context: against a
// server that never answers, a poll with a deadline of 50 ms was held for 16 s.
// It is also a little slower (BenchmarkAutoPipeliner), since every poll has to ask
// for the length of the line by itself.
type reads struct {
	client        redis.UniversalClient
	waiting, meta string // keys

	mu      sync.Mutex
	pending []*batch // guarded by mu
	running bool     // guarded by mu
}

// batch is one pipeline; done is closed when its reads are filled in.
type batch struct {
	reads []*read
	done  chan struct{}
}

// read is where one subject stands.
type read struct {
	subject string
	found   bool
	rank    int64 // how many stand before them
	place   int64
	length  int64
	draw    draw
	err     error
	gone    atomic.Bool // nobody waits for it any more
}

// draw is what a place was drawn from, and the schedule: with it a poll is judged
// by what holds at the moment of its reading, at one command for a whole pipeline.
type draw struct{ seed, opensAt, closesAt string }

// find reads where a subject stands, at the latest until ctx ends.
func (r *reads) find(ctx context.Context, subject string) (*read, error) {
	one := &read{subject: subject}
	b := r.add(one)
	select {
	case <-b.done:
		return one, one.err
	case <-ctx.Done():
		one.gone.Store(true)
		return nil, ctx.Err()
	}
}

func (r *reads) add(one *read) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.pending); n == 0 || len(r.pending[n-1].reads) == maxReads {
		r.pending = append(r.pending, &batch{done: make(chan struct{})})
	}
	b := r.pending[len(r.pending)-1]
	b.reads = append(b.reads, one)
	if !r.running {
		r.running = true
		go r.run()
	}
	return b
}

func (r *reads) run() {
	for {
		r.mu.Lock()
		if len(r.pending) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		b := r.pending[0]
		r.pending = r.pending[1:]
		r.mu.Unlock()
		// While Redis is silent those who gave up must not pile up in front of
		// those who come when it is back.
		b.reads = slices.DeleteFunc(b.reads, func(one *read) bool { return one.gone.Load() })
		if len(b.reads) > 0 {
			r.fill(b)
		}
		close(b.done)
	}
}

func (r *reads) fill(b *batch) {
	// Nobody's own deadline may cut what others wait for too.
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	pipe := r.client.Pipeline()
	ranks := make([]*redis.IntCmd, len(b.reads))
	places := make([]*redis.FloatCmd, len(b.reads))
	for i, one := range b.reads {
		ranks[i] = pipe.ZRank(ctx, r.waiting, one.subject)
		places[i] = pipe.ZScore(ctx, r.waiting, one.subject)
	}
	length := pipe.ZCard(ctx, r.waiting)
	settings := pipe.HMGet(ctx, r.meta, "seed", "opens_at", "closes_at")
	_, _ = pipe.Exec(ctx) // each command has its own error
	v := values(settings.Val())
	d := draw{seed: v.text(0), opensAt: v.text(1), closesAt: v.text(2)}
	for i, one := range b.reads {
		one.draw = d
		one.err = errors.Join(notNil(ranks[i].Err()), notNil(places[i].Err()), length.Err(), settings.Err())
		one.found = ranks[i].Err() == nil && places[i].Err() == nil
		one.rank, one.place = ranks[i].Val(), int64(places[i].Val())
		one.length = max(length.Val(), one.rank+1) // somebody may be let in between two reads
	}
}

// notNil drops the error that says that a key or member is not there.
func notNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
