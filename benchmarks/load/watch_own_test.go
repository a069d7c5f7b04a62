//go:build linux

package load

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Connections that nobody accepts are in the queue, and established on both sides.
func TestSockets(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range 3 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	port := portOf("http://" + l.Addr().String())
	want := socketCounts{queue: 3, established: 3}
	var got socketCounts
	for deadline := time.Now().Add(patience); got != want; time.Sleep(10 * time.Millisecond) {
		got = sockets(port, false)
		got.timeWait = 0 // of others, who had the port before
		if got != want && time.Now().After(deadline) {
			t.Fatalf("%+v, and not %+v", got, want)
		}
	}
	if q := sockets(port, true).queue; q != 3 {
		t.Errorf("at a glance %d wait to be accepted, not 3", q)
	}
}

func TestOwnProcess(t *testing.T) {
	if cpuSeconds(os.Getpid()) == 0 && resident(os.Getpid()) == 0 {
		t.Error("this process uses nothing")
	}
	if cpuSeconds(-1) != 0 || resident(-1) != 0 {
		t.Error("a process that is not there uses something")
	}
}

// Every step can be named alone, and has something to run.
func TestSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps(1) {
		if seen[s.name] {
			t.Errorf("%s is there twice", s.name)
		}
		seen[s.name] = true
		if k6, ok := s.driver.(script); ok {
			if _, err := os.Stat(filepath.Join("..", "..", "k6", k6.name)); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	if got := choose(t, steps(0.01), "arrivals,spike"); len(got) != 2 || got[0].name != "spike" || got[1].name != "arrivals" {
		t.Errorf("chose %v", got)
	}
}
