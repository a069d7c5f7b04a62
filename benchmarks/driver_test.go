package benchmarks

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// driven is what came of a closed loop of connections, each with the next request as
// soon as the last is answered.
type driven struct {
	requests  int
	perSecond float64
	took      times
	// cpu is the time of the processors that one request took, in this process: the
	// driver's part, which is the same whatever is asked for, and the server's.
	cpu time.Duration
	// allocs are those of this process per request; the driver has none.
	allocs float64
}

// driver keeps connections open and sends prepared requests. It takes time of the
// processors that the server needs, so it does nothing but send, receive, and look
// whether the answer is a good one and complete.
type driver struct {
	conns []*driverConn
}

type driverConn struct {
	conn net.Conn
	in   []byte
	took []time.Duration
}

const driverMost = 1 << 14 // requests of one connection whose times are kept

func openDriver(t testing.TB, address string, over int) *driver {
	t.Helper()
	d := &driver{}
	for range over {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		d.conns = append(d.conns, &driverConn{conn: c, in: make([]byte, 16<<10), took: make([]time.Duration, 0, driverMost)})
	}
	return d
}

// drive sends for a while. Each connection goes through the requests from another one on.
func (d *driver) drive(t testing.TB, requests [][]byte, good string, lasts time.Duration) driven {
	t.Helper()
	var driving errgroup.Group
	var before, after runtime.MemStats
	counts := make([]int, len(d.conns))
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, began := processorTime(t), time.Now()
	until := began.Add(lasts)
	for i, c := range d.conns {
		first := i * len(requests) / len(d.conns)
		driving.Go(func() error {
			n, err := c.drive(requests, first, []byte(good), until)
			counts[i] = n
			return err
		})
	}
	err := driving.Wait()
	lasted := time.Since(began)
	used = processorTime(t) - used
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	r := driven{}
	var took []time.Duration
	for i, c := range d.conns {
		r.requests += counts[i]
		took = append(took, c.took...)
	}
	r.perSecond, r.took = float64(r.requests)/lasted.Seconds(), timesOf(took)
	r.cpu = used / time.Duration(max(1, r.requests))
	r.allocs = float64(after.Mallocs-before.Mallocs) / float64(max(1, r.requests))
	return r
}

func (c *driverConn) drive(requests [][]byte, next int, good []byte, until time.Time) (n int, err error) {
	c.took = c.took[:0]
	for now := time.Now(); now.Before(until); n++ {
		if _, err := c.conn.Write(requests[next%len(requests)]); err != nil {
			return n, err
		}
		answer, err := c.receive()
		if err != nil {
			return n, err
		}
		if !bytes.Contains(answer, good) {
			return n, fmt.Errorf("an answer without %s: %s", good, answer)
		}
		sent := now
		now = time.Now()
		if len(c.took) < cap(c.took) {
			c.took = append(c.took, now.Sub(sent))
		}
		next++
	}
	return n, nil
}

var (
	okStatus, createdStatus = []byte("HTTP/1.1 200 "), []byte("HTTP/1.1 201 ")
	endOfHeader, bodyLength = []byte("\r\n\r\n"), []byte("\r\nContent-Length: ")
)

// receive reads one answer of 200 or 201.
func (c *driverConn) receive() ([]byte, error) {
	for have, whole := 0, 0; ; {
		n, err := c.conn.Read(c.in[have:])
		if err != nil {
			return nil, err
		}
		have += n
		if whole == 0 {
			header := bytes.Index(c.in[:have], endOfHeader)
			if header < 0 {
				continue
			}
			at := bytes.Index(c.in[:header], bodyLength)
			if at < 0 || !bytes.HasPrefix(c.in, okStatus) && !bytes.HasPrefix(c.in, createdStatus) {
				return nil, fmt.Errorf("not a good answer: %s", c.in[:have])
			}
			whole = header + len(endOfHeader)
			length := 0
			for _, digit := range c.in[at+len(bodyLength) : header] {
				if digit < '0' || digit > '9' {
					break
				}
				length = 10*length + int(digit-'0')
			}
			whole += length
		}
		if have >= whole {
			return c.in[:whole], nil
		}
	}
}

// processorTime is what this process has had of the processors.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func medianOf(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// request is one of HTTP/1.1 as a browser's script would send it, but for what a
// browser adds.
func request(method, target, host string, headers ...string) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	for _, h := range headers {
		b = append(append(b, h...), "\r\n"...)
	}
	if method != "GET" {
		b = append(b, "Content-Length: "+strconv.Itoa(0)+"\r\n"...)
	}
	return append(b, "\r\n"...)
}
