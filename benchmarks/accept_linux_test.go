package benchmarks

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sluice/servicetest"
)

// Ways to take connections.
const (
	onePlain    = "one listener" // what web does
	twoInOne    = "two with SO_REUSEPORT"
	twoPrefork  = "two processes with SO_REUSEPORT"
	acceptAtEnv = "SLUICE_BENCH_ACCEPT_AT"
	acceptByEnv = "SLUICE_BENCH_ACCEPT_BY" // how many listeners; 0 is a plain one
)

// TestAcceptServer is the server of TestAccept, in a process of its own, which answers a
// constant until it is killed.
func TestAcceptServer(t *testing.T) {
	at := os.Getenv(acceptAtEnv)
	if at == "" {
		t.Skip("only as TestAccept starts it")
	}
	by, err := strconv.Atoi(os.Getenv(acceptByEnv))
	if err != nil {
		t.Fatal(err)
	}
	config := net.ListenConfig{}
	if by > 0 {
		config.Control = func(_, _ string, c syscall.RawConn) (err error) {
			const reusePort = 0xf // the syscall package lacks it
			if e := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, reusePort, 1) }); e != nil {
				return e
			}
			return err
		}
	}
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.SetBodyString(`{"state":"waiting"}`) }}
	var serving sync.WaitGroup
	for range max(1, by) {
		ln, err := config.Listen(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() { _ = server.Serve(ln) })
	}
	serving.Wait()
}

// startAccepting starts the processes of a way; it returns their address.
func startAccepting(t *testing.T, way string) (at string, pids []int) {
	t.Helper()
	at = servicetest.Address(t)
	processes, by, environ := 1, 0, os.Environ()
	switch way {
	case twoInOne:
		by = 2
	case twoPrefork:
		processes, by, environ = 2, 1, append(environ, "GOMAXPROCS=1")
	}
	for range processes {
		cmd := osexec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run", "^TestAcceptServer$")
		cmd.Env = append(environ, acceptAtEnv+"="+at, acceptByEnv+"="+strconv.Itoa(by))
		wait, err := servicetest.Bound(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = wait()
		})
		pids = append(pids, cmd.Process.Pid)
	}
	for deadline := time.Now().Add(20 * time.Second); listening(t, at) < max(1, processes*by); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody listens at %s", at)
		}
	}
	return at, pids
}

// listening is how many sockets listen at an address of IPv4.
func listening(t *testing.T, at string) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(at)
	number, _ := strconv.Atoi(port)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) && f[3] == "0A" {
			n++
		}
	}
	return n
}

// accepted is what came of a crowd that connects and asks once.
type accepted struct {
	failed                            int
	connected, answered               times // since the wish to connect
	connectedLongest, answeredLongest time.Duration
	cpu, request                      time.Duration // of the server: a connection, and a request on one that is kept
}

// TestAccept has a crowd connect within a second, and all at once, each asking as soon as
// it is connected, and then polls over connections that are kept: with one listener as
// web has it, with two in a process, and with two processes.
func TestAccept(t *testing.T) {
	crowd, kept, repeat, lasts := 300, 20, 1, 200*time.Millisecond
	if *full {
		crowd, kept, repeat, lasts = 10_000, 200, *rounds, 2*time.Second
	}
	runs := map[string][]accepted{}
	ways := []string{onePlain, twoInOne, twoPrefork}
	for n := range repeat {
		for _, way := range ways {
			for _, within := range []time.Duration{time.Second, 0} {
				t.Run(fmt.Sprintf("%d, %s, %v", n+1, way, within), func(t *testing.T) {
					at, pids := startAccepting(t, way)
					cpu := func() (used time.Duration) {
						for _, pid := range pids {
							used += cpuOf(t, pid)
						}
						return used
					}
					before, overflows := cpu(), servicetest.ListenOverflows()
					r := connect(t, at, crowd, within)
					r.cpu = (cpu() - before) / time.Duration(crowd)
					overflows = servicetest.ListenOverflows() - overflows
					before = cpu()
					requests := []asked{{send: request("GET", "/", "x"), status: 200, good: []byte(`"waiting"`)}}
					polled := right(t, openDriver(t, at, kept).drive(t, requests, lasts))
					r.request = (cpu() - before) / time.Duration(max(1, polled.requests))
					t.Logf("%d failed; connected p50 %s max %s ms; answered p50 %s max %s ms; %.1f µs of the server a connection; "+
						"%d turned away by the kernel's queue; then %.0f requests/s, p99 %s ms, %.1f µs of the server a request",
						r.failed, ms(r.connected.p50), ms(r.connectedLongest), ms(r.answered.p50), ms(r.answeredLongest),
						micros(r.cpu), overflows, polled.perSecond, ms(polled.took.p99), micros(r.request))
					runs[way] = append(runs[way], r)
					if r.failed > 0 {
						t.Errorf("%d of %d were refused or had no answer", r.failed, crowd)
					}
				})
			}
		}
	}
	for _, way := range ways {
		of := func(value func(accepted) time.Duration) float64 {
			return micros(value(median(runs[way], func(r accepted) float64 { return float64(value(r)) })))
		}
		t.Logf("%s, medians of %d: %.1f µs of the server a connection, %.1f µs a request", way, len(runs[way]),
			of(func(r accepted) time.Duration { return r.cpu }), of(func(r accepted) time.Duration { return r.request }))
	}
}

// connect has so many connect, evenly within a time; all stay until all have an answer.
func connect(t *testing.T, at string, crowd int, within time.Duration) (r accepted) {
	t.Helper()
	ask := request("GET", "/", "x")
	connected, answered, failed := make([]time.Duration, crowd), make([]time.Duration, crowd), make([]bool, crowd)
	var all, stay sync.WaitGroup
	stay.Add(1)
	began := time.Now().Add(50 * time.Millisecond) // until all are ready to go
	var asked sync.WaitGroup
	for i := range crowd {
		asked.Add(1)
		all.Go(func() {
			due := began.Add(within * time.Duration(i) / time.Duration(crowd))
			time.Sleep(time.Until(due))
			c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(t.Context(), "tcp", at)
			connected[i] = time.Since(due)
			if err == nil {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				if _, err = c.Write(ask); err == nil {
					in := make([]byte, 512)
					var have int
					have, err = c.Read(in)
					if err == nil && !bytes.Contains(in[:have], []byte("waiting")) {
						err = fmt.Errorf("%q", in[:have])
					}
				}
			}
			answered[i], failed[i] = time.Since(due), err != nil
			asked.Done()
			stay.Wait()
		})
	}
	asked.Wait()
	stay.Done()
	all.Wait()
	for _, f := range failed {
		if f {
			r.failed++
		}
	}
	r.connected, r.connectedLongest = timesOf(connected), slices.Max(connected)
	r.answered, r.answeredLongest = timesOf(answered), slices.Max(answered)
	return r
}
