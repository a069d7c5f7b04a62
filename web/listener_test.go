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
		c, err := newListener(ln, "public", 0, slog.New(slog.NewTextHandler(&text, nil))).Accept()
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
		ln := newListener(&scarce{refusals: 1 << 30}, "public", 0, slog.New(slog.DiscardHandler))
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

// A deadline is set again only when the one in force would end a wait too late, or too
// early by more than the slack; in a drain always, and never beyond its end.
func TestDeadlinesAreSetSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slack = 500 * time.Millisecond
		ln := newListener(&scarce{}, "public", slack, slog.New(slog.DiscardHandler))
		var d limit
		set := 0
		var last time.Time
		want := func(at time.Time) {
			t.Helper()
			d.wanted = at
			if err := d.keep(ln, func(at time.Time) error { set++; last = at; return nil }); err != nil {
				t.Fatal(err)
			}
			if early := d.wanted.Sub(last); early < 0 || early > slack {
				t.Errorf("in force %s before what is wanted", early)
			}
		}
		times := func(n int) {
			t.Helper()
			if set != n {
				t.Errorf("set %d times, want %d", set, n)
			}
			set = 0
		}
		want(time.Time{})
		times(0)
		for range 20 {
			want(time.Now().Add(10 * time.Second))
			time.Sleep(100 * time.Millisecond)
		}
		times(4)
		want(time.Now().Add(time.Second)) // for what is left of a request
		want(time.Now().Add(time.Hour))
		want(time.Time{})
		times(3)
		want(time.Now().Add(time.Hour))
		time.Sleep(time.Hour) // that one is over, and what is wanted now is little later
		want(time.Now().Add(time.Second))
		times(2)
		ln.hurry(5 * time.Second)
		for range 3 {
			want(time.Now().Add(3 * time.Second))
		}
		times(3)
		end := time.Now().Add(5 * time.Second)
		d.wanted = end.Add(time.Minute)
		if err := d.keep(ln, func(at time.Time) error { last = at; return nil }); err != nil || !last.Equal(end) {
			t.Errorf("in force %s after the end of the drain, %v", last.Sub(end), err)
		}
	})
}
