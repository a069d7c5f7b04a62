package web

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// listener knows its open connections, so that a drain can hurry them, and may
// be closed twice.
type listener struct {
	net.Listener
	once sync.Once
	err  error

	hurried atomic.Pointer[time.Time] // the end of patience; nil before a drain

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

func newListener(ln net.Listener) *listener {
	return &listener{Listener: ln, conns: make(map[*conn]struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	tcp, ok := accepted.(*net.TCPConn)
	if err != nil || !ok {
		return accepted, err
	}
	c := &conn{TCPConn: tcp, from: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *listener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

// hurry ends after d whatever a client still has to send or to read. It does
// not touch what a handler is at work on.
func (l *listener) hurry(d time.Duration) {
	end := time.Now().Add(d)
	l.hurried.Store(&end)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		// An error says that the connection is closed already.
		_ = c.TCPConn.SetReadDeadline(end)
		_ = c.TCPConn.SetWriteDeadline(end)
	}
}

// conn is a connection whose deadlines a drain cuts short, and that may be told
// to read out what the client is still sending before it closes. A plain close
// with unread bytes resets the connection, and the reset can overtake the
// answer that says why.
type conn struct {
	*net.TCPConn
	from   *listener
	linger atomic.Bool
}

const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
	// parting is what any client has to read an answer that is ready only
	// after the end of patience.
	parting = time.Second
)

// SetReadDeadline sets t, or what a drain leaves of it.
func (c *conn) SetReadDeadline(t time.Time) error { return c.cutShort(t, c.TCPConn.SetReadDeadline) }

// SetWriteDeadline sets t, or what a drain leaves of it.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.cutShort(t, c.TCPConn.SetWriteDeadline) }

func (c *conn) cutShort(t time.Time, set func(time.Time) error) error {
	for {
		end := c.from.hurried.Load()
		deadline := t
		if end != nil {
			least := time.Now().Add(parting)
			if end.After(least) {
				least = *end
			}
			if least.Before(t) {
				deadline = least
			}
		}
		// Once more if a drain began meanwhile: it may have been here before us.
		if err := set(deadline); err != nil || c.from.hurried.Load() == end {
			return err
		}
	}
}

func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.mu.Unlock()
	if c.linger.Load() && c.CloseWrite() == nil && c.TCPConn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes)
	}
	return c.TCPConn.Close()
}
