package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// crowded is a line in which everybody waits, polling every minute.
type crowded struct{ n atomic.Int64 }

func (c *crowded) answer(status int) answer {
	return answer{Status: status, State: "waiting", Position: 1, PollAfter: time.Minute.Milliseconds(), ServerTime: 1767323049001}
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

var waiting = flag.Int("waiting", 100_000, "visitors of BenchmarkWaitingVisitors")

// BenchmarkWaitingVisitors tells what a visitor who waits costs.
func BenchmarkWaitingVisitors(b *testing.B) {
	s := calm()
	s.Visitors, s.Connections, s.Arrival, s.Duration = *waiting, 200, arriveSpike, time.Duration(*waiting)*50*time.Microsecond
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
		b.ReportMetric(float64(after.HeapSys-after.HeapReleased-before.HeapSys+before.HeapReleased)/float64(s.Visitors), "B-of-system/visitor")
		began := time.Now()
		h := e.rec.history()
		h.stays = e.stays()
		judge(h)
		b.ReportMetric(time.Since(began).Seconds(), "s-judging")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Visitors), "B/visitor")
		runtime.KeepAlive(e)
	}
}

// BenchmarkRequests polls a server that answers at once, in another process: CPU-µs/op
// is the crowd's own.
func BenchmarkRequests(b *testing.B) {
	u := serveAtOnce(b)
	c := newClient([]*url.URL{u}, "default", 0, 1, 200, time.Second, false)
	b.Cleanup(c.close)
	rec := newRecorder()
	e := newEngine(calm(), c, rec)
	ticket := fmt.Sprintf("%0330d", 0)
	b.ReportAllocs()
	b.SetParallelism(100)
	before := cpuTime()
	b.RunParallel(func(pb *testing.PB) {
		v := &visitor{}
		for pb.Next() {
			if _, _, _, ok := e.call(epPosition, v, func(t int) (answer, error) { return c.position(t, ticket) }); !ok {
				b.Error("no answer")
			}
		}
	})
	used := cpuTime()
	b.ReportMetric(float64((used.User+used.System-before.User-before.System).Microseconds())/float64(b.N), "CPU-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// atOnce is the variable that makes a test binary the server of BenchmarkRequests.
const atOnce = "CROWD_TEST_SERVE_AT_ONCE"

// serveAtOnce starts that server; it ends with its standard input.
func serveAtOnce(b *testing.B) *url.URL {
	b.Helper()
	server := exec.Command(os.Args[0], "-test.run", "^TestServeAtOnce$", "-test.v")
	server.Env = append(os.Environ(), atOnce+"=1")
	stop, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stop.Close()
		_ = server.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
			u, err := url.Parse("http://" + at)
			if err != nil {
				b.Fatal(err)
			}
			return u
		}
	}
	b.Fatal("the server did not start")
	return nil
}

// TestServeAtOnce is that server.
func TestServeAtOnce(t *testing.T) {
	if os.Getenv(atOnce) == "" {
		t.Skip("only for BenchmarkRequests")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"line":"default","state":"waiting","position":342,"waiting":1207,"estimated_wait_ms":31000,"estimated_wait_range_ms":[26000,38000],` +
		`"poll_after_ms":3000,"entered_at":"2026-01-02T03:04:05.678Z","server_time":"2026-01-02T03:04:09.001Z"}`)
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) {
		c.SetContentType("application/json")
		c.Response.SetBody(body)
	}}
	go func() { _ = server.Serve(l) }()
	fmt.Printf("\nlistening on %s\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Shutdown()
}
