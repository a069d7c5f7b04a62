package main

import (
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// crowded is a line in which everybody waits, polling every minute.
type crowded struct{ n atomic.Int64 }

func (c *crowded) answer(status int) answer {
	return answer{Status: status, State: "waiting", Position: 1, PollAfter: time.Minute.Milliseconds(), ServerTime: "2026-01-02T03:04:09.001Z"}
}

func (c *crowded) enter(int, string) (answer, error) {
	a := c.answer(201)
	n := c.n.Add(1)
	// As long as the service's own tickets.
	a.Ticket = newFake().jwt(`{"iss":"sluice","line":"default","epoch":0,"sub":"%016d","jti":"%016d","place":%d,"iat":1767323045,"exp":1767366245,"x":"%080d"}`, n, n, n, 0)
	return a, nil
}
func (c *crowded) position(int, string) (answer, error)           { return c.answer(200), nil }
func (c *crowded) leave(int, string) (answer, error)              { return answer{Status: 204}, nil }
func (c *crowded) claim(int, string) (answer, error)              { return answer{Status: 503}, nil }
func (c *crowded) order(int, string, int, string) (answer, error) { return answer{Status: 503}, nil }

// BenchmarkWaitingVisitors tells what a visitor who waits costs.
func BenchmarkWaitingVisitors(b *testing.B) {
	s := calm()
	s.Visitors, s.Connections, s.Arrival, s.Duration = 100_000, 200, arriveSpike, 5*time.Second
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		e := newEngine(s, &crowded{}, newRecorder())
		e.Run(b.Context())
		if e.born < s.Visitors {
			b.Fatalf("only %d came", e.born)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Visitors), "B/visitor")
		runtime.KeepAlive(e)
	}
}

// BenchmarkRequests polls a server that answers at once, in the same process.
func BenchmarkRequests(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"line":"default","state":"waiting","position":342,"waiting":1207,"estimated_wait_ms":31000,"estimated_wait_range_ms":[26000,38000],` +
		`"poll_after_ms":3000,"entered_at":"2026-01-02T03:04:05.678Z","server_time":"2026-01-02T03:04:09.001Z"}`)
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.Response.SetBody(body) }}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Shutdown() })
	u, err := url.Parse("http://" + l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	c := newClient([]*url.URL{u}, "default", 0, 1, 200, time.Second, false)
	b.Cleanup(c.close)
	rec := newRecorder()
	e := newEngine(calm(), c, rec)
	ticket := fmt.Sprintf("%0330d", 0)
	b.SetParallelism(100)
	b.RunParallel(func(pb *testing.PB) {
		v := &visitor{}
		for pb.Next() {
			if _, _, _, ok := e.call(epPosition, v, func(t int) (answer, error) { return c.position(t, ticket) }); !ok {
				b.Error("no answer")
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
