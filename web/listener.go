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
	name   string        // for the log
	slack  time.Duration // by which a wait may end too early
	log    *slog.Logger
	once   sync.Once
	err    error
	closed chan struct{}
	warned time.Time // touched by Accept alone, which one goroutine calls

	hurried atomic.Pointer[time.Time] // the end of patience; nil before a drain

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

func newListener(ln net.Listener, name string, slack time.Duration, log *slog.Logger) *listener {
	return &listener{Listener: ln, name: name, slack: slack, log: log, closed: make(chan struct{}), conns: make(map[*conn]struct{})}
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
	c := &conn{Conn: tcp, tcp: tcp, from: l}
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
		_ = c.tcp.SetReadDeadline(end)
		_ = c.tcp.SetWriteDeadline(end)
	}
}

// conn is a connection whose deadlines a drain cuts short, and that may be told
// to read out what the client is still sending before it closes. A plain close
// with unread bytes resets the connection, and the reset can overtake the
// answer that says why.
//
// A deadline is set only when something may have to wait for it, and not again for a few
// moments more: fasthttp asks for three with every request, each of which costs a timer.
// One goroutine at a time reads, writes and asks for deadlines.
type conn struct {
	net.Conn // the same as tcp
	tcp      *net.TCPConn
	from     *listener
	linger   atomic.Bool

	reading, writing limit
}

// limit is a deadline of one direction.
type limit struct {
	wanted time.Time
	set    time.Time // the one in force
}

const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
	// parting is what any client has to read an answer that is ready only
	// after the end of patience.
	parting = time.Second
)

// SetReadDeadline makes t, or what a drain leaves of it, the end of reads to come.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.reading.wanted = t
	return nil
}

// SetWriteDeadline makes t, or what a drain leaves of it, the end of writes to come.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writing.wanted = t
	return nil
}

// SetDeadline does both.
func (c *conn) SetDeadline(t time.Time) error {
	c.reading.wanted, c.writing.wanted = t, t
	return nil
}

func (c *conn) Read(b []byte) (int, error) {
	if err := c.reading.keep(c.from, c.tcp.SetReadDeadline); err != nil {
		return 0, err
	}
	return c.tcp.Read(b)
}

func (c *conn) Write(b []byte) (int, error) {
	if err := c.writing.keep(c.from, c.tcp.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.tcp.Write(b)
}

// keep has the wanted deadline in force, or one shortly before it. In a drain each is set
// anew, since what is left of it is less each time.
func (d *limit) keep(from *listener, set func(time.Time) error) error {
	if from.hurried.Load() == nil && !d.wanted.Before(d.set) && d.wanted.Sub(d.set) <= from.slack {
		return nil
	}
	if err := from.cutShort(d.wanted, set); err != nil {
		return err
	}
	d.set = d.wanted
	return nil
}

// cutShort sets a deadline, or what a drain leaves of it.
func (l *listener) cutShort(t time.Time, set func(time.Time) error) error {
	for {
		end := l.hurried.Load()
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
		if err := set(deadline); err != nil || l.hurried.Load() == end {
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
	if c.linger.Load() && c.tcp.CloseWrite() == nil && c.tcp.SetReadDeadline(until) == nil {
		_, _ = io.CopyN(io.Discard, c.tcp, lingerBytes)
	}
	return c.tcp.Close()
}
