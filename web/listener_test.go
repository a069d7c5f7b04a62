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

// A deadline is set again only when the one in force would end a wait a sixteenth too
// early, or too late; in a drain always, and never beyond its end.
func TestDeadlinesAreSetSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newListener(&scarce{}, "public", slog.New(slog.DiscardHandler))
		var d limit
		set := 0
		var last time.Time
		keep := func(wait time.Duration) {
			t.Helper()
			d.wanted = time.Time{}
			if wait > 0 {
				d.wanted = time.Now().Add(wait)
			}
			if err := d.keep(ln, func(at time.Time) error { set++; last = at; return nil }); err != nil {
				t.Fatal(err)
			}
			if late := last.Sub(d.wanted); late > 0 || -late > wait/16 {
				t.Errorf("%s wanted, and set %s later", wait, late)
			}
		}
		keep(0)
		if set != 0 {
			t.Error("set where there is none")
		}
		const minute = time.Minute
		for range 160 { // two minutes
			keep(minute)
			time.Sleep(750 * time.Millisecond)
		}
		if set < 20 || set > 32 { // each sixteenth of a minute, and the next request after it
			t.Errorf("set %d times in two minutes, with 160 requests", set)
		}
		set = 0
		keep(10 * time.Second) // for what is left of a request
		keep(minute)
		keep(0)
		if set != 3 || !last.IsZero() {
			t.Errorf("set %d times for a shorter wait, a longer one and none; at last %s", set, last)
		}
		set = 0
		ln.hurry(5 * time.Second)
		for range 3 {
			keep(3 * time.Second)
		}
		end := time.Now().Add(5 * time.Second)
		if d.wanted = end.Add(minute); d.keep(ln, func(at time.Time) error { set++; last = at; return nil }) != nil || set != 4 || !last.Equal(end) {
			t.Errorf("set %d times in a drain, at last to %s", set, last.Sub(end))
		}
	})
}
