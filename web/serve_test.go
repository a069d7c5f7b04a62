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

// turn takes a place in a line that lets everybody in, and waits until the
// token is usable.
func (f *fixture) turn() (token string) {
	f.t.Helper()
	entered := f.public("POST", "/queue/enter", "").want(201).standing()
	time.Sleep(time.Duration(entered.UsableInMS) * time.Millisecond)
	return entered.Token
}

// sendOrder sends an order on a connection of its own.
func (s *serving) sendOrder(t *testing.T, token string, product int64) *bufio.Reader {
	t.Helper()
	c := dial(t, s.public)
	body := cart(product, 1)
	_, _ = fmt.Fprintf(c, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		token, len(body), body)
	return bufio.NewReader(c)
}

// until waits for something that happens by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happens: ", what)
		}
	}
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

func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	store, with := stubborn()
	f := newFixture(t, with)
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	token := f.turn()
	gate, placing := make(chan struct{}), make(chan struct{})
	store.set(nil, gate)
	store.placing = placing

	s := f.serve(Drain{Timeout: 20 * time.Second})
	idle := dial(t, s.public)
	_, _ = io.WriteString(idle, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n")
	idleReader := bufio.NewReader(idle)
	readAnswer(t, idleReader, "GET").want(200)

	slow := s.sendOrder(t, token, id)
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
	if a := readAnswer(t, slow, "POST").want(201); !a.close {
		t.Error("the connection stays open")
	}
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
	f.sold(t, 1)
}

// A stop under load: what a worker has taken is finished, who waits for one is
// told at once to go elsewhere, and nothing of theirs was done.
func TestDrainRefusesTheBacklog(t *testing.T) {
	t.Parallel()
	store, with := stubborn()
	with.orders.Workers = 1
	f := newFixture(t, with)
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	tokens := []string{f.turn(), f.turn(), f.turn(), f.turn()}
	gate, placing := make(chan struct{}), make(chan struct{})
	store.set(nil, gate)
	store.placing = placing
	s := f.serve(Drain{Timeout: 20 * time.Second})
	running := s.sendOrder(t, tokens[0], id)
	<-placing
	var backlog []*bufio.Reader
	for _, token := range tokens[1:] {
		backlog = append(backlog, s.sendOrder(t, token, id))
	}
	until(t, "the backlog fills", func() bool { return f.orders.PoolStats().Backlog == len(backlog) })
	s.stop()
	for _, waiting := range backlog {
		if a := readAnswer(t, waiting, "POST").problem(503, "shutting_down"); !a.close {
			t.Error("the connection stays open")
		}
	}
	select {
	case err := <-s.done:
		t.Fatalf("stopped with an order in the making: %v", err)
	default:
	}
	close(gate)
	readAnswer(t, running, "POST").want(201)
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
	f.sold(t, 1)
}

// Clients that have sent nothing, or half of a request, or that do not read
// their answers, cannot hold the drain: their own deadlines are far away here.
func TestDrainHurriesClients(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{limits: unlimited})
	s := f.serve(Drain{Timeout: 15 * time.Second})
	for _, address := range []string{s.public, s.admin} {
		for _, sent := range []string{"", "GET /queue/sta", "POST /queue/enter HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", "GET /assets/shop.js HTTP/1.1\r\nHost: x\r\n\r\n"} {
			_, _ = io.WriteString(dial(t, address), sent)
		}
	}
	if err := neverRead(dial(t, s.public), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	until(t, "the server has heard them all", func() bool {
		return f.server.public.Server().GetOpenConnectionsCount() == 5 && f.server.admin.Server().GetOpenConnectionsCount() == 4
	})
	s.stop()
	if err := s.wait(t); err != nil {
		t.Error(err)
	}
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
	until(t, "the drain begins", f.server.draining.Load)
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
	token := f.turn()
	gate, placing := make(chan struct{}), make(chan struct{})
	store.set(nil, gate)
	store.placing = placing
	s := f.serve(Drain{Timeout: 50 * time.Millisecond})
	order := s.sendOrder(t, token, id)
	<-placing
	s.stop()
	if err := s.wait(t); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(gate)
	readAnswer(t, order, "POST").want(201) // late, but told
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
