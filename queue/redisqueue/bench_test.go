package redisqueue_test

import (
	"strconv"
	"testing"

	"sluice/queue"
	"sluice/queue/redisqueue"
)

// BenchmarkStanding is the poll of somebody who waits, from many goroutines at
// once, each asking for another visitor of 10,000.
func BenchmarkStanding(b *testing.B) {
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
	b.SetParallelism(100)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := line.Standing(b.Context(), tickets[i%len(tickets)]); err != nil {
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
