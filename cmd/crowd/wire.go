package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// instance is one of the service, and the connections to it. A connection belongs to
// one request at a time, is written to once for each, and is never pipelined.
type instance struct {
	address string
	base    string // path in front of all of its routes
	timeout time.Duration
	open    func(ctx context.Context, address string) (net.Conn, error)
	// free are the connections that no request has. The longest unused one goes first:
	// a spike opens all of them, and none is left to be closed by the service.
	free chan *link
	dials
}

// dials count what became of connections; safe for concurrent use.
type dials struct {
	begun  atomic.Int64 // when the first was opened, in Unix ns; 0 before
	opened atomic.Int64
	all    atomic.Int64 // when as many had been opened as there are links
}

// link is a place for a connection, which is opened when it is first needed, and again
// after it broke.
type link struct {
	conn   net.Conn // nil: not open
	in     *bufio.Reader
	out    []byte
	answer fasthttp.Response
	used   time.Time
	// until is the deadline of the connection: set anew for each request it would be a
	// timer each time.
	until time.Time
}

const (
	// longestIdle is how long a connection may rest: below every server's own limit.
	longestIdle = 30 * time.Second
	// readBuffer holds an answer to a newcomer, ticket and headers.
	readBuffer = 2 << 10
)

func newInstance(u *url.URL, connections int, timeout time.Duration, remote bool) *instance {
	d := dialer(timeout, remote)
	i := &instance{
		address: address(u), base: strings.TrimSuffix(u.EscapedPath(), "/"), timeout: timeout,
		free: make(chan *link, connections),
	}
	i.open = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	if u.Scheme == "https" {
		secure := &tls.Dialer{NetDialer: d, Config: &tls.Config{MinVersion: tls.VersionTLS12}}
		i.open = func(ctx context.Context, address string) (net.Conn, error) {
			return secure.DialContext(ctx, "tcp", address)
		}
	}
	for range connections {
		i.free <- &link{}
	}
	return i
}

// close ends the connections that no request has.
func (i *instance) close() {
	for {
		select {
		case l := <-i.free:
			l.close()
		default:
			return
		}
	}
}

// errNoLink is the answer of a crowd that has too few connections.
var errNoLink = errors.New("no connection became free")

// take waits for a connection to become free.
func (i *instance) take() (*link, error) {
	select {
	case l := <-i.free:
		return l, nil
	default:
	}
	timer := time.NewTimer(i.timeout)
	defer timer.Stop()
	select {
	case l := <-i.free:
		return l, nil
	case <-timer.C:
		return nil, errNoLink
	}
}

// ask sends a request and gives the answer to read, which must not keep any of it. An
// error of either closes the connection.
func (i *instance) ask(write func([]byte) []byte, read func(*fasthttp.Response) error) error {
	l, err := i.take()
	if err != nil {
		return err
	}
	defer func() { i.free <- l }()
	if err := i.ready(l); err != nil {
		return err
	}
	l.out = write(l.out[:0])
	if _, err := l.conn.Write(l.out); err != nil {
		l.close()
		return err
	}
	if err := l.answer.ReadLimitBody(l.in, maxBody); err != nil {
		l.close()
		return err
	}
	if l.answer.ConnectionClose() {
		l.close()
	}
	return read(&l.answer)
}

// ready sees to it that a link has a connection with enough time.
func (i *instance) ready(l *link) error {
	now := time.Now()
	if l.conn != nil && now.Sub(l.used) > longestIdle {
		l.close()
	}
	l.used = now
	if l.conn == nil {
		i.begun.CompareAndSwap(0, now.UnixNano())
		ctx, cancel := context.WithDeadline(context.Background(), now.Add(i.timeout))
		defer cancel()
		conn, err := i.open(ctx, i.address)
		if err != nil {
			return err
		}
		l.conn, l.until = conn, time.Time{}
		if i.opened.Add(1) == int64(cap(i.free)) {
			i.all.Store(time.Now().UnixNano())
		}
		if l.in == nil {
			l.in = bufio.NewReaderSize(nil, readBuffer)
		}
		l.in.Reset(conn)
	}
	if l.until.Sub(now) >= i.timeout {
		return nil
	}
	l.until = now.Add(i.timeout + i.timeout/4)
	return l.conn.SetDeadline(l.until)
}

func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.Close() // nothing that it says matters any more
		l.conn = nil
	}
}

// troubleOf is what kept a request from being answered.
func troubleOf(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, errNoLink):
		return "crowd" // has no files, ports or connections left
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "other"
}

// request is the part of a request that is the same for all visitors.
func (i *instance) request(method, path, more string) string {
	head := fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: %s\r\n%s", method, i.base, path, i.address, more)
	if method == http.MethodPost && more == "" {
		head += "Content-Length: 0\r\n"
	}
	return head
}
