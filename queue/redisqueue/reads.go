package redisqueue

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"sluice/together"
)

// maxReads bounds one pipeline, so that a burst of polls is answered piece by
// piece and not all at its end.
const maxReads = 1000

// reads puts the position reads of concurrent polls into shared pipelines, each for at
// most ioTimeout.
//
// go-redis has an auto-pipeliner, but its waits ignore the context: against a
// server that never answers, a poll with a deadline of 50 ms was held for 16 s.
// It is also a little slower (BenchmarkAutoPipeliner), since every poll has to ask
// for the length of the line by itself.
type reads struct {
	client        redis.UniversalClient
	waiting, meta string // keys
	pipelines     *together.Calls[*read]
}

func newReads(client redis.UniversalClient, waiting, meta string) *reads {
	r := &reads{client: client, waiting: waiting, meta: meta}
	r.pipelines = together.New(r.fill, maxReads, ioTimeout)
	return r
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
}

// draw is what a place was drawn from, and the schedule: with it a poll is judged
// by what holds at the moment of its reading, at one command for a whole pipeline.
type draw struct{ seed, opensAt, closesAt string }

// find reads where a subject stands, at the latest until ctx ends.
func (r *reads) find(ctx context.Context, subject string) (*read, error) {
	one := &read{subject: subject}
	if err := r.pipelines.Do(ctx, one); err != nil {
		return nil, err
	}
	return one, one.err
}

// fill is one pipeline: a rank for each, and once for all of them the places, the length
// and the settings. What fails is noted with each read.
func (r *reads) fill(ctx context.Context, some []*read) error {
	pipe := r.client.Pipeline()
	ranks := make([]*redis.IntCmd, len(some))
	var key any = r.waiting // boxed once, as each subject is
	asked := make([]any, 2, 2+len(some))
	asked[0], asked[1] = "zmscore", key
	for i, one := range some {
		var subject any = one.subject
		ranks[i] = redis.NewIntCmd(ctx, "zrank", key, subject)
		_ = pipe.Process(ctx, ranks[i]) // of a pipeline: only puts it in
		asked = append(asked, subject)
	}
	places := redis.NewFloatSliceCmd(ctx, asked...)
	_ = pipe.Process(ctx, places)
	length := pipe.ZCard(ctx, r.waiting)
	settings := pipe.HMGet(ctx, r.meta, "seed", "opens_at", "closes_at")
	_, _ = pipe.Exec(ctx) // each command has its own error
	v := values(settings.Val())
	d := draw{seed: v.text(0), opensAt: v.text(1), closesAt: v.text(2)}
	failed := errors.Join(places.Err(), length.Err(), settings.Err())
	for i, one := range some {
		one.draw = d
		one.err = errors.Join(notNil(ranks[i].Err()), failed)
		if one.found = one.err == nil && ranks[i].Err() == nil && i < len(places.Val()); one.found {
			one.rank, one.place = ranks[i].Val(), int64(places.Val()[i]) // 0 of who has gone in between
		}
		one.length = max(length.Val(), one.rank+1) // somebody may be let in between two reads
	}
	return nil
}

// notNil drops the error that says that a key or member is not there.
func notNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
