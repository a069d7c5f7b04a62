package redisqueue_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// BenchmarkStanding is the poll of somebody who waits, from many goroutines at
// once, each asking for another visitor of 10,000.
func BenchmarkStanding(b *testing.B) {
	benchmarkPolls(b, func(b *testing.B, _ redis.UniversalClient, line *redisqueue.Line) func(queue.Ticket) error {
		return func(t queue.Ticket) error {
			_, err := line.Standing(b.Context(), t)
			return err
		}
	})
}

// BenchmarkAutoPipeliner is the same poll through go-redis's auto-pipeliner,
// the library that our own reads stand in for.
func BenchmarkAutoPipeliner(b *testing.B) {
	benchmarkPolls(b, func(b *testing.B, client redis.UniversalClient, line *redisqueue.Line) func(queue.Ticket) error {
		auto, err := client.AsyncAutoPipeline()
		if err != nil {
			b.Fatal(err)
		}
		waiting := redisqueue.Keys(line.ID())[1]
		return func(t queue.Ticket) error {
			rank := auto.ZRank(b.Context(), waiting, t.Subject)
			place := auto.ZScore(b.Context(), waiting, t.Subject)
			length := auto.ZCard(b.Context(), waiting)
			return errors.Join(rank.Err(), place.Err(), length.Err())
		}
	})
}

func benchmarkPolls(b *testing.B, poller func(*testing.B, redis.UniversalClient, *redisqueue.Line) func(queue.Ticket) error) {
	client := dial(b)
	line, err := redisqueue.New(client, newLine(b, client), queue.DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	tickets := make([]queue.Ticket, 10_000)
	for i := range tickets {
		s, err := line.Enter(b.Context(), strconv.Itoa(i), nil)
		if err != nil {
			b.Fatal(err)
		}
		tickets[i] = s.Ticket
	}
	poll := poller(b, client, line)
	b.SetParallelism(100)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if err := poll(tickets[i%len(tickets)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkEnter is a new visitor's enter.
func BenchmarkEnter(b *testing.B) {
	client := dial(b)
	line, err := redisqueue.New(client, newLine(b, client), queue.DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := line.Enter(b.Context(), queue.NewID(), nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
