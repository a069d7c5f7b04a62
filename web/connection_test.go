package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

func TestUnreadableRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{orders: withOrders()})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	const enter = "POST /queue/enter HTTP/1.1\r\nHost: x\r\n"
	for _, tc := range []struct {
		name, sent string
		status     int
		code       string
	}{
		{"no request line", "rubbish\r\n\r\n", 400, "invalid_request"},
		{"binary", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "invalid_request"},
		{"space before a colon", "GET / HTTP/1.1\r\nHost: x\r\nA : c\r\n\r\n", 400, "invalid_request"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400, "invalid_request"},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "invalid_request"},
		{"a version that is not there", "GET / HTTX\r\nHost: x\r\n\r\n", 400, "invalid_request"},
		{"two lengths", enter + "Content-Length: 50\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_request"},
		{"an unknown transfer encoding", enter + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "invalid_request"},
		{"a compressed transfer encoding", enter + "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400, "invalid_request"},
		{"a zero byte in a header's name", "GET / HTTP/1.1\r\nHost: x\r\nA\x00: c\r\n\r\n", 400, "invalid_request"},
		{"huge header", "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", maxHeader) + "\r\n\r\n", 431, "header_too_large"},
		{"huge header that does not end", "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 1<<20), 431, "header_too_large"},
		{"huge request line", "GET /" + strings.Repeat("a", maxHeader) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "header_too_large"},
		{"many headers", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", maxHeader/6) + "\r\n", 431, "header_too_large"},
		{"body over the limit", enter + fmt.Sprintf("Content-Length: %d\r\n\r\n", maxBody+1) + strings.Repeat(" ", maxBody+1), 413, "body_too_large"},
		{"body of a gigabyte announced", enter + "Content-Length: 1000000000\r\n\r\n" + strings.Repeat(" ", 1<<19), 413, "body_too_large"},
		{"chunks over the limit", enter + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat(" ", 0x8000)+"\r\n", 3) + "0\r\n\r\n", 413, "body_too_large"},
		{"bad chunk size", enter + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request"},
		{"negative length", enter + "Content-Length: -1\r\n\r\n", 400, "invalid_request"},
		{"length that is no number", enter + "Content-Length: abc\r\n\r\n", 400, "invalid_request"},
		{"length out of range", enter + "Content-Length: 99999999999999999999\r\n\r\n", 400, "invalid_request"},
		{"unknown method", "BREW /queue/enter HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method_not_allowed"},
		{"path that is not there", "GET /nosuch HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"},
		{"path with dots", "GET /assets/../../server.go HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"},
		{"encoded dots", "GET /assets/%2e%2e%2fpages.go HTTP/1.1\r\nHost: x\r\n\r\n", 404, "not_found"},
		{"malformed encoding", "GET /products/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 404, "product_not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, s.public)
			go func() { _, _ = io.WriteString(c, tc.sent) }()
			a := readAnswer(t, bufio.NewReader(c), "GET").problem(tc.status, tc.code)
			if strings.Contains(a.body, "fasthttp") || strings.Contains(a.body, "rubbish") || strings.Contains(a.body, "buffer") {
				t.Errorf("not for clients: %s", a.body)
			}
		})
	}
	t.Run("truncated body", func(t *testing.T) {
		c := dial(t, s.public)
		_, _ = io.WriteString(c, enter+"Content-Length: 10\r\n\r\n{}")
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readAnswer(t, bufio.NewReader(c), "GET").problem(400, "invalid_request")
	})
	t.Run("truncated header", func(t *testing.T) {
		c := dial(t, s.public)
		_, _ = io.WriteString(c, "POST /queue/en")
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		readAnswer(t, bufio.NewReader(c), "GET").problem(400, "invalid_request")
	})
	waitingIs(t, f, 0) // none of them took a place
	if internal := strings.Count(f.log.String(), "internal error"); internal > 0 {
		t.Errorf("%d internal errors: %s", internal, f.log.String())
	}
}

// A client that sends all of its body before it reads must find the answer, and
// not a connection that was reset meanwhile.
func TestRefusedBodyIsReadOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	c := dial(t, s.public)
	_, _ = io.WriteString(c, "POST /queue/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n")
	r := bufio.NewReader(c)
	if _, err := r.Peek(1); err != nil { // the server has answered
		t.Fatal(err)
	}
	for range 3 {
		if _, err := io.WriteString(c, strings.Repeat(" ", 200_000)); err != nil {
			t.Fatalf("the connection was reset: %v", err)
		}
	}
	readAnswer(t, r, "POST").problem(413, "body_too_large")
}

// Two lengths, or a length and chunks, are how one request is smuggled inside
// another past a proxy. Whatever is made of the first, the rest must not be
// taken for a request of its own.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	const enter = "POST /queue/enter HTTP/1.1\r\nHost: x\r\n"
	for name, sent := range map[string]string{
		"length and chunks": enter + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + enter + "\r\n",
		"body of a GET":     "GET /queue/status HTTP/1.1\r\nHost: x\r\nContent-Length: 48\r\n\r\n" + enter + "\r\n",
		"body of a HEAD":    "HEAD /queue/status HTTP/1.1\r\nHost: x\r\nContent-Length: 48\r\n\r\n" + enter + "\r\n",
		"two lengths":       enter + "Content-Length: 0\r\nContent-Length: 40\r\n\r\n" + enter + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			before := must(f.line.Snapshot(t.Context()))(t).Waiting
			c := dial(t, s.public)
			_, _ = io.WriteString(c, sent)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c)
			own := int64(0)
			if strings.HasPrefix(sent, enter) {
				own = 1
			}
			if after := must(f.line.Snapshot(t.Context()))(t).Waiting; after > before+own {
				t.Errorf("%d places taken instead of %d at most", after-before, own)
			}
		})
	}
}

func TestPipelining(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	c := dial(t, s.public)
	const n = 50
	go func() {
		_, _ = io.WriteString(c, strings.Repeat("POST /queue/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", n))
	}()
	r := bufio.NewReader(c)
	for i := range n {
		if got := readAnswer(t, r, "POST").want(201).standing(); got.Position != int64(i+1) {
			t.Fatalf("answer %d is of position %d", i, got.Position)
		}
	}
	waitingIs(t, f, n)
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	c := dial(t, s.public)
	_, _ = io.WriteString(c, "POST /queue/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	r := bufio.NewReader(c)
	if a := readAnswer(t, r, "POST"); a.status != 100 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	_, _ = io.WriteString(c, "{}")
	readAnswer(t, r, "POST").want(201)
}

func TestTimeoutIsAProblem(t *testing.T) {
	if p, _ := problemOf(unreadable(fmt.Errorf("reading: %w", os.ErrDeadlineExceeded))); p.status != 408 {
		t.Errorf("%+v", p)
	}
	if p, _ := problemOf(unreadable(errors.New("anything"))); p.status != 400 {
		t.Errorf("%+v", p)
	}
}

// neverRead asks and asks and reads no answer, until it can send no more: the
// server has closed the connection, or waits (for patience) for it to read.
func neverRead(c *net.TCPConn, patience time.Duration) error {
	for {
		if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := io.WriteString(c, strings.Repeat("GET /assets/shop.js HTTP/1.1\r\nHost: x\r\n\r\n", 100)); err != nil {
			return err
		}
	}
}

// Slow clients: each of the three timeouts is short in one test and out of
// reach in the others, and all that counts is that the server ends it.
var unlimited = timeouts{read: time.Hour, idle: time.Hour, write: time.Hour, last: 100 * time.Millisecond}

func TestSlowRequestsAreEnded(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.read = 100 * time.Millisecond
	f := newFixture(t, setup{limits: limits})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	const enter = "POST /queue/enter HTTP/1.1\r\nHost: x\r\n"
	for name, tc := range map[string]struct{ sent, drip string }{
		"nothing":     {"", ""},
		"half header": {"POST /queue/en", ""},
		"half body":   {enter + "Content-Length: 10\r\n\r\n{", ""},
		"half chunk":  {enter + "Transfer-Encoding: chunked\r\n\r\n8\r\n{", ""},
		// A byte now and then must not buy more time.
		"header that drips": {"GET / HTTP/1.1\r\nHost: x\r\nA: ", "a"},
		"body that drips":   {enter + "Content-Length: 60000\r\n\r\n", " "},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s.public)
			_, _ = io.WriteString(c, tc.sent)
			if tc.drip != "" {
				go func() {
					for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
						if _, err := io.WriteString(c, tc.drip); err != nil {
							return
						}
					}
				}()
			}
			r := bufio.NewReader(c)
			if a := readAnswer(t, r, "POST").problem(408, "request_timeout"); !a.close {
				t.Error("the answer does not say that the connection is closed")
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
	waitingIs(t, f, 0)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.idle = 100 * time.Millisecond
	f := newFixture(t, setup{limits: limits})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	c := dial(t, s.public)
	_, _ = io.WriteString(c, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(c)
	if a := readAnswer(t, r, "GET").want(200); a.close {
		t.Error("closed after one request")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// longLine has more to export than the network holds.
type longLine struct{ queue.Line }

func (longLine) Export(context.Context) ([]queue.Record, error) {
	records := make([]queue.Record, 200_000)
	for i := range records {
		records[i] = queue.Record{TicketID: strconv.Itoa(i), Place: queue.MaxDrawn + int64(i), EnteredAt: time.Now(), Outcome: queue.Waiting}
	}
	return records, nil
}

// An operator far away has more time for an export than others for their answers.
func TestAnExportMayTakeLong(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.write = 100 * time.Millisecond
	f := newFixture(t, setup{limits: limits, line: func(l queue.Line) queue.Line { return longLine{l} }, config: func(c *Config) { c.AdminHosts = []string{"x"} }})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	c := dial(t, s.admin)
	if err := c.SetReadBuffer(64 << 10); err != nil { // or all of it is on its way at once
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /admin/api/lines/default/audit HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * limits.write) // real: the deadline of a socket is
	a := readAnswer(t, bufio.NewReader(c), "GET").want(200)
	if records := must(queue.ReadCSV(strings.NewReader(a.body)))(t); len(records) != 200_000 {
		t.Errorf("%d records", len(records))
	}
}

func TestClientsThatDoNotReadAreClosed(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.write = 100 * time.Millisecond
	f := newFixture(t, setup{limits: limits})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	if err := neverRead(dial(t, s.public), 20*time.Second); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server goes on with it: %v", err)
	}
}

// Two thousand clients that send half of something, and would never be ended here: they
// hold no worker of the orders and no database connection, and whoever asks beside them is
// served.
func TestSlowCrowd(t *testing.T) {
	t.Parallel()
	const slow = 2000
	o := withOrders()
	o.Workers = 2
	f := newFixture(t, setup{orders: o, limits: unlimited})
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	token := f.turn()
	order := fmt.Sprintf("POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, 1000)
	kinds := []struct{ sent, drip string }{
		{"", ""}, // connects and says nothing
		{"GET /queue/st", "a"},
		{"POST /queue/enter HTTP/1.1\r\nHost: x\r\nA: ", "a"},
		{"POST /queue/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", " "},
		{order, " "},
	}
	s := f.serve(Drain{Timeout: 20 * time.Second})
	var open [slow]*net.TCPConn
	for n := range open {
		open[n] = dial(t, s.public)
		_ = open[n].SetDeadline(time.Time{}) // the test ends it
		_, _ = io.WriteString(open[n], kinds[n%len(kinds)].sent)
	}
	until(t, "they are all inside", func() bool { return f.server.public.Server().GetOpenConnectionsCount() >= slow })
	for range 3 {
		for n := range open {
			if _, err := io.WriteString(open[n], kinds[n%len(kinds)].drip); err != nil {
				t.Fatalf("client %d of the slow is ended: %v", n, err)
			}
		}
		if figures := f.orders.PoolStats(); figures.Busy != 0 || figures.Backlog != 0 {
			t.Fatalf("half a request holds the orders: %+v", figures)
		}
		c := dial(t, s.public)
		_, _ = io.WriteString(c, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n")
		readAnswer(t, bufio.NewReader(c), "GET").want(200)
	}
	readAnswer(t, s.sendOrder(t, token, id), "POST").want(201)
	s.stop() // and they do not hold the drain
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
}
