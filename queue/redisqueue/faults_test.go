package redisqueue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// Ten thousand at once in front of a Redis that is silent, resets everybody or is not
// there: all are told so when their time is up, nothing of them stays behind, and whoever
// comes when it answers again is served at once.
func TestACrowdInFrontOfNoRedis(t *testing.T) {
	server := servicetest.OwnRedis(t)
	wire := servicetest.NewProxy(t, server.URL)
	for _, fault := range []struct {
		name, url   string
		begin, over func()
	}{
		{"silent", wire.URL, func() { wire.Set(servicetest.Silent) }, func() { wire.Set(servicetest.None) }},
		{"reset", wire.URL, func() { wire.Set(servicetest.Reset) }, func() { wire.Set(servicetest.None) }},
		{"refused", server.URL, server.Stop, server.Start},
	} {
		line, err := redisqueue.New(dialTo(t, fault.url), "default", queue.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		entered, err := line.Enter(t.Context(), "v", nil)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		fault.begin()
		begun := time.Now()
		tenThousand(t, line, entered.Ticket)
		t.Logf("%s: the last was told after %s", fault.name, time.Since(begun).Round(time.Millisecond))
		// What stays is of a pipeline on its way, and of dials.
		await(t, "those who gave up are gone", func() bool { return runtime.NumGoroutine() < before+redisqueue.PoolSize })
		if n := wire.Open(); n > 2*redisqueue.PoolSize {
			t.Errorf("%s: %d connections", fault.name, n)
		}

		fault.over()
		back := time.Now()
		await(t, "served again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			s, err := line.Standing(ctx, entered.Ticket)
			return err == nil && s.Position == 1
		})
		t.Logf("%s: served again after %s", fault.name, time.Since(back).Round(time.Millisecond))
	}
}

// tenThousand ask at once, each with a second. None of them may be answered.
func tenThousand(t *testing.T, line queue.Line, ticket queue.Ticket) {
	t.Helper()
	var all sync.WaitGroup
	for n := range 10_000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var err error
			if n%2 == 0 {
				_, err = line.Standing(ctx, ticket)
			} else {
				_, err = line.Enter(ctx, strconv.Itoa(n), nil)
			}
			if !errors.Is(err, queue.ErrUnavailable) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// A server that nobody has checked takes over: it is said once, and that it is over.
func TestGuardAfterAFailOver(t *testing.T) {
	t.Parallel()
	s := servicetest.OwnSentinel(t)
	client := dialTo(t, s.URL)
	for _, replica := range s.Nodes[1:] {
		for _, setting := range [][]any{{"maxmemory", "100mb"}, {"maxmemory-policy", "allkeys-lru"}} {
			if _, err := replica.Ask(append([]any{"CONFIG", "SET"}, setting...)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := redisqueue.Check(t.Context(), client); err != nil {
		t.Fatalf("the master: %v", err)
	}
	var log lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- redisqueue.Guard(ctx, client, 50*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	s.Nodes[0].Stop()
	await(t, "said", func() bool { return strings.Contains(log.String(), "allkeys-lru") })
	if _, err := s.Master().Ask("CONFIG", "SET", "maxmemory-policy", "noeviction"); err != nil {
		t.Fatal(err)
	}
	await(t, "over", func() bool { return strings.Contains(log.String(), "level=INFO") })
	stop()
	if err := <-ended; err != nil || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
