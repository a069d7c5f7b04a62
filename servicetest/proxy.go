package servicetest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what a [Proxy] does to what passes through it.
type Fault string

// The faults of a network.
const (
	None   Fault = ""
	Silent Fault = "silent" // connections are taken and stay open, and nothing passes any more
	Reset  Fault = "reset"  // every connection is reset, also those that come
	Cut    Fault = "cut"    // half of an answer passes, then the connection is reset
)

// Proxy is a network between a test and a server, which can be slow or fail.
type Proxy struct {
	// URL of the server through it.
	URL string

	to       string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	fault Fault                 // guarded by mu
	delay time.Duration         // guarded by mu; of each answer
	open  map[net.Conn]struct{} // guarded by mu; both sides; nil once closed
}

// NewProxy begins one in front of the server of a URL. It ends with the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{to: u.Host, listener: l, open: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	p.URL = u.String()
	p.serving.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Set has it fail from now on, or work again with [None].
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == Reset {
		for c := range p.open {
			hardClose(c)
		}
	}
}

// Delay holds up every answer from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Open is how many connections it holds to the server.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) / 2
}

func (p *Proxy) state() (Fault, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.delay
}

func (p *Proxy) serve() {
	for {
		from, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if f, _ := p.state(); f == Reset {
			hardClose(from)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		to, err := new(net.Dialer).DialContext(ctx, "tcp", p.to)
		cancel()
		if err != nil {
			hardClose(from) // as a server does that is not there
			continue
		}
		if !p.hold(from, to) {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { p.pass(from, to, false) })
		both.Go(func() { p.pass(to, from, true) })
		p.serving.Go(func() {
			both.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, from)
			delete(p.open, to)
		})
	}
}

// hold notes a pair, or closes it if the proxy is closed.
func (p *Proxy) hold(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range pair {
		if p.open == nil {
			hardClose(c)
			continue
		}
		p.open[c] = struct{}{}
	}
	return p.open != nil
}

// pass copies one direction until a side ends, and then ends both.
func (p *Proxy) pass(from, to net.Conn, answers bool) {
	defer hardClose(from)
	defer hardClose(to)
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		fault, delay := p.state()
		if answers && delay > 0 {
			time.Sleep(delay)
		}
		switch {
		case fault == Silent:
			continue
		case fault == Cut && answers:
			n /= 2
		}
		if _, err := to.Write(chunk[:n]); err != nil || fault == Cut && answers {
			return
		}
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.open {
		hardClose(c)
	}
	p.open = nil
	p.mu.Unlock()
	p.serving.Wait()
}

// hardClose ends a connection with a reset.
func hardClose(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
