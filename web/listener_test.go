package web

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scarce is a listener without descriptors for the first refusals attempts; then it
// has a connection.
type scarce struct {
	net.Listener
	refusals, attempts int
	end                net.Conn
}

func (s *scarce) Accept() (net.Conn, error) {
	s.attempts++
	if s.attempts <= s.refusals {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.end, nil
}

func (s *scarce) Close() error { return nil }

// Without descriptors the listener neither ends nor spins nor fills the log.
func TestAcceptOutlivesScarcity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		end, other := net.Pipe()
		defer func() { _, _ = end.Close(), other.Close() }()
		ln := &scarce{refusals: 100, end: end}
		began := time.Now()
		c, err := newListener(ln, "public", slog.New(slog.NewTextHandler(&text, nil))).Accept()
		if err != nil || c != end {
			t.Fatalf("%v, %v", c, err)
		}
		if took := time.Since(began); took < 90*time.Second || took > 100*time.Second {
			t.Errorf("%d attempts took %v", ln.attempts, took)
		}
		if n := strings.Count(text.String(), "level=WARN"); n != 2 { // at the start and a minute later
			t.Errorf("%d warnings:\n%s", n, &text)
		}
	})
}

// A drain does not wait for descriptors.
func TestAcceptEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newListener(&scarce{refusals: 1 << 30}, "public", slog.New(slog.DiscardHandler))
		ended := make(chan error)
		go func() {
			_, err := ln.Accept()
			ended <- err
		}()
		time.Sleep(10 * time.Second)
		closed := time.Now()
		_ = ln.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(closed) > 0 {
			t.Errorf("%v after %v", err, time.Since(closed))
		}
	})
}
