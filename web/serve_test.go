package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// serving runs the fixture's server on real listeners; these tests have real
// time, and wait for events only.
type serving struct {
	public, admin string // addresses
	stop          context.CancelFunc
	done          chan error
}

func (f *fixture) serve(d Drain) *serving {
	f.t.Helper()
	public := must(net.Listen("tcp", "127.0.0.1:0"))(f.t)
	admin := must(net.Listen("tcp", "127.0.0.1:0"))(f.t)
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{public.Addr().String(), admin.Addr().String(), cancel, make(chan error, 1)}
	go func() { s.done <- f.server.Serve(ctx, public, admin, d) }()
	f.t.Cleanup(func() {
		cancel()
		select {
		case <-s.done: //nolint:errcheck // judged by the test
		case <-time.After(30 * time.Second):
			f.t.Error("the server does not stop")
		}
	})
	return s
}

func (s *serving) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.done:
		s.done <- nil // for the clean-up
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not stop")
		return nil
	}
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c := must(net.DialTimeout("tcp", address, 5*time.Second))(t)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func readAnswer(t *testing.T, r *bufio.Reader, method string) answered {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body := must(io.ReadAll(res.Body))(t)
	return answered{t: t, asked: method, status: res.StatusCode, header: res.Header, body: string(body), close: res.Close}
}

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
		{"space in a header's name", "GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400, "invalid_request"},
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

func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	store, with := stubborn()
	f := newFixture(t, with)
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	entered := f.public("POST", "/queue/enter", "").want(201).standing()
	time.Sleep(time.Duration(entered.UsableInMS) * time.Millisecond)
	gate, placing := make(chan struct{}), make(chan struct{})
	store.set(nil, gate)
	store.placing = placing

	s := f.serve(Drain{Timeout: 20 * time.Second})
	idle := dial(t, s.public)
	_, _ = io.WriteString(idle, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n")
	idleReader := bufio.NewReader(idle)
	readAnswer(t, idleReader, "GET").want(200)

	slow := dial(t, s.public)
	body := cart(id, 1)
	_, _ = fmt.Fprintf(slow, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		entered.Token, len(body), body)
	<-placing
	s.stop()
	if _, err := idleReader.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection was not closed: %v", err)
	}
	if c, err := net.Dial("tcp", s.public); err == nil {
		_ = c.Close()
		t.Error("a new connection was taken")
	}
	select {
	case err := <-s.done:
		t.Fatalf("stopped with an order in the making: %v", err)
	default:
	}
	close(gate)
	if a := readAnswer(t, bufio.NewReader(slow), "POST").want(201); !a.close {
		t.Error("the connection stays open")
	}
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
	f.sold(t, 1)
}

func TestDrainDelayStillServes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	s := f.serve(Drain{Delay: time.Second, Timeout: 20 * time.Second})
	probe := func(address, path string) answered {
		c := dial(t, address)
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		return readAnswer(t, bufio.NewReader(c), "GET")
	}
	if a := probe(s.admin, "/readyz").want(200); a.close {
		t.Error("closed before the drain")
	}
	s.stop()
	for !f.server.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	if a := probe(s.admin, "/readyz").want(503); !a.close {
		t.Error("the connection stays open")
	}
	if a := probe(s.public, "/queue/status").want(200); !a.close {
		t.Error("the connection stays open")
	}
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
}

func TestDrainEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	store, with := stubborn()
	f := newFixture(t, with)
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	entered := f.public("POST", "/queue/enter", "").want(201).standing()
	time.Sleep(time.Duration(entered.UsableInMS) * time.Millisecond)
	gate, placing := make(chan struct{}), make(chan struct{})
	store.set(nil, gate)
	store.placing = placing
	s := f.serve(Drain{Timeout: 50 * time.Millisecond})
	c := dial(t, s.public)
	body := cart(id, 1)
	_, _ = fmt.Fprintf(c, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		entered.Token, len(body), body)
	<-placing
	s.stop()
	if err := s.wait(t); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(gate)
	readAnswer(t, bufio.NewReader(c), "POST").want(201) // late, but told
}

func TestServeEndsWhenAListenerBreaks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	public := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	admin := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = admin.Close()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { done <- f.server.Serve(ctx, public, admin, Drain{Timeout: time.Second}) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on with one listener")
	}
}
