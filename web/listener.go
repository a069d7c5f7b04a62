package web

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// acceptAgain is how long the listener waits after the first connection that
	// it could not take; it doubles up to acceptAgainLast.
	acceptAgain     = 5 * time.Millisecond
	acceptAgainLast = time.Second
	// acceptWarnEvery is how often that is logged at most.
	acceptWarnEvery = time.Minute
)

// listener knows its open connections, so that a drain can hurry them, may be
// closed twice, and outlives a want of file descriptors.
type listener struct {
	net.Listener
	name   string // for the log
	log    *slog.Logger
	once   sync.Once
	err    error
	closed chan struct{}
	warned time.Time // touched by Accept alone, which one goroutine calls

	hurried atomic.Pointer[time.Time] // the end of patience; nil before a drain

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

func newListener(ln net.Listener, name string, log *slog.Logger) *listener {
	return &listener{Listener: ln, name: name, log: log, closed: make(chan struct{}), conns: make(map[*conn]struct{})}
}

// Accept takes the next connection. Where there is no descriptor or memory for one
// it waits and tries again, and those who want in wait in the kernel's queue:
// fasthttp takes any error of a listener for its end.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	for wait := acceptAgain; exhausted(err); wait = min(2*wait, acceptAgainLast) {
		if now := time.Now(); l.warned.IsZero() || now.Sub(l.warned) >= acceptWarnEvery {
			l.warned = now
			l.log.Warn("new connections have to wait until others are closed; if it is the limit on open files, raise it",
				"listener", l.name, "error", err)
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(wait):
		}
		accepted, err = l.Listener.Accept()
	}
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

// exhausted reports whether a connection could not be taken for want of something
// that comes back when others close theirs.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = l.Listener.Close()
	})
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
	// Not beyond the end of patience: fasthttp's drain closes one after the other, with
	// its lock held.
	until := time.Now().Add(lingerTime)
	if end := c.from.hurried.Load(); end != nil && end.Before(until) {
		until = *end
	}
	if c.linger.Load() && c.CloseWrite() == nil && c.TCPConn.SetReadDeadline(until) == nil {
		_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes)
	}
	return c.TCPConn.Close()
}
