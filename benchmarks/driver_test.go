package benchmarks

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// asked is a request, prepared, and what a right answer to it is.
type asked struct {
	send   []byte
	status int
	good   []byte // what its body has in it
	// position is the one at which its visitor stood when nobody had been let in yet, 0
	// where none is told.
	position int64
}

// driven is what came of a closed loop of connections, each with the next request as
// soon as the last is answered.
type driven struct {
	requests  int
	lasted    time.Duration
	perSecond float64
	took      times
	// cpu is the time of the processors that one request took, in this process: the
	// driver's part, which is the same whatever is asked for, and the server's.
	cpu time.Duration
	// allocs and bytes are those of this process per request; the driver has none.
	allocs, bytes float64
	// moved is by how much positions were below those at the beginning, least and most.
	moved [2]int64
	// wrong is how many answers were not as they should be, and example one of them.
	wrong   int
	example error
}

// driver keeps connections open and sends prepared requests. It takes time of the
// processors that the server needs, so it does nothing but send, receive, and look
// whether the answer is the right one and complete.
type driver struct {
	conns []*driverConn
}

type driverConn struct {
	conn net.Conn
	used time.Time // when it was last driven
	in   []byte
	took []time.Duration

	sent, wrong int
	example     error
	moved       [2]int64
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
		one := &driverConn{conn: c, used: time.Now(), in: make([]byte, 16<<10), took: make([]time.Duration, 0, driverMost)}
		t.Cleanup(func() { _ = one.conn.Close() })
		d.conns = append(d.conns, one)
	}
	return d
}

// drive sends for a while, or each request once if lasts is 0. Each connection goes
// through the requests from another one on.
func (d *driver) drive(t testing.TB, requests []asked, lasts time.Duration) driven {
	t.Helper()
	var driving errgroup.Group
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, began := processorTime(t), time.Now()
	until := began.Add(lasts)
	for i, c := range d.conns {
		first, next := i*len(requests)/len(d.conns), (i+1)*len(requests)/len(d.conns)
		driving.Go(func() error {
			if err := c.begin(); err != nil {
				return err
			}
			if lasts == 0 {
				return c.drive(requests, first, next-first, time.Time{})
			}
			return c.drive(requests, first, math.MaxInt, until)
		})
	}
	err := driving.Wait()
	d.rest()
	lasted := time.Since(began)
	used = processorTime(t) - used
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	r := d.sum()
	n := max(1, r.requests)
	r.lasted, r.perSecond, r.cpu = lasted, float64(r.requests)/lasted.Seconds(), used/time.Duration(n)
	r.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	r.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	return r
}

// rest notes that the connections rest from now on.
func (d *driver) rest() {
	for _, c := range d.conns {
		c.used = time.Now()
	}
}

func (d *driver) sum() driven {
	r := driven{moved: [2]int64{math.MaxInt64, math.MinInt64}}
	var took []time.Duration
	for _, c := range d.conns {
		r.requests, r.wrong = r.requests+c.sent, r.wrong+c.wrong
		if c.example != nil {
			r.example = c.example
		}
		r.moved = [2]int64{min(r.moved[0], c.moved[0]), max(r.moved[1], c.moved[1])}
		took = append(took, c.took...)
	}
	r.took = timesOf(took)
	return r
}

// rested is how long a connection may rest: a server closes one that sends nothing for
// ten seconds.
const rested = 5 * time.Second

// begin makes a connection ready, a new one if it has rested for too long.
func (c *driverConn) begin() error {
	if !c.used.IsZero() && time.Since(c.used) > rested {
		address := c.conn.RemoteAddr().String()
		_ = c.conn.Close()
		again, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		c.conn = again
	}
	c.took, c.sent, c.wrong, c.example = c.took[:0], 0, 0, nil
	c.moved = [2]int64{math.MaxInt64, math.MinInt64}
	return nil
}

// drive sends until a time, at most so many; a zero time does not end it.
func (c *driverConn) drive(requests []asked, first, most int, until time.Time) error {
	for now := time.Now(); c.sent < most && (until.IsZero() || now.Before(until)); c.sent++ {
		one := &requests[(first+c.sent)%len(requests)]
		if _, err := c.conn.Write(one.send); err != nil {
			return err
		}
		status, _, body, err := c.receive()
		if err != nil {
			return err
		}
		sent := now
		now = time.Now()
		if len(c.took) < cap(c.took) {
			c.took = append(c.took, now.Sub(sent))
		}
		if !c.judge(one, status, body) {
			c.wrong++
			c.example = fmt.Errorf("wanted %d, %s, position %d: %s", one.status, one.good, one.position, body)
		}
	}
	return nil
}

var positionField = []byte(`"position":`)

func (c *driverConn) judge(one *asked, status int, body []byte) bool {
	if status != one.status || !bytes.Contains(body, one.good) {
		return false
	}
	if one.position == 0 {
		return true
	}
	at := bytes.Index(body, positionField)
	if at < 0 {
		return false
	}
	position, digits := number(body[at+len(positionField):])
	moved := one.position - position
	c.moved = [2]int64{min(c.moved[0], moved), max(c.moved[1], moved)}
	return digits > 0
}

// number reads the digits that b begins with.
func number(b []byte) (n int64, digits int) {
	for ; digits < len(b) && b[digits] >= '0' && b[digits] <= '9'; digits++ {
		n = 10*n + int64(b[digits]-'0')
	}
	return n, digits
}

var (
	statusLine              = []byte("HTTP/1.1 ")
	endOfHeader, bodyLength = []byte("\r\n\r\n"), []byte("\r\nContent-Length: ")
)

// receive reads one answer: its status, all of it, and its body.
func (c *driverConn) receive() (status int, answer, body []byte, err error) {
	for have, header, whole := 0, 0, 0; ; {
		n, err := c.conn.Read(c.in[have:])
		if err != nil {
			return 0, nil, nil, err
		}
		have += n
		if whole == 0 {
			end := bytes.Index(c.in[:have], endOfHeader)
			if end < 0 {
				continue
			}
			code, _ := number(bytes.TrimPrefix(c.in[:end], statusLine))
			status, header = int(code), end+len(endOfHeader)
			whole = header
			if at := bytes.Index(c.in[:end], bodyLength); at >= 0 {
				length, _ := number(c.in[at+len(bodyLength) : end])
				whole += int(length)
			} else if status != 204 {
				return 0, nil, nil, fmt.Errorf("an answer without a length: %s", c.in[:have])
			}
		}
		if have >= whole {
			return status, c.in[:whole], c.in[header:whole], nil
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
		b = append(b, "Content-Length: 0\r\n"...)
	}
	return append(b, "\r\n"...)
}
