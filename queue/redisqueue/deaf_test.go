package redisqueue_test

import (
	"context"
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// A Redis that does what it is told and is not heard: whoever polls in vain meanwhile is
// not taken for silent, neither then nor when it is heard again.
func TestNobodyIsAwayWhoPollsInVain(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*servicetest.Proxy){
		"slow": func(p *servicetest.Proxy) { p.Delay(time.Second) },
		"cut":  func(p *servicetest.Proxy) { p.Set(servicetest.Cut) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := queue.DefaultOptions()
			opts.Grace = 300 * time.Millisecond
			server := servicetest.OwnRedis(t)
			wire := servicetest.NewProxy(t, server.URL)
			open := func(url string) queue.Line {
				line, err := redisqueue.New(dialTo(t, url), "default", opts)
				if err != nil {
					t.Fatal(err)
				}
				return line
			}
			line, beside := open(wire.URL), open(server.URL)
			s, err := line.Enter(t.Context(), "v", nil)
			if err != nil {
				t.Fatal(err)
			}
			heard := []queue.Heard{{Subject: "v"}}
			if _, err := line.Sweep(t.Context(), heard); err != nil {
				t.Fatal(err)
			}
			soon := func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			fault(wire)
			for begun := time.Now(); time.Since(begun) < 5*opts.Grace; time.Sleep(50 * time.Millisecond) {
				if _, err := line.Standing(soon(), s.Ticket); err == nil {
					t.Fatal("the poll was answered")
				}
				if _, err := line.Sweep(soon(), nil); err == nil {
					t.Fatal("the sweep was answered")
				}
			}
			wire.Delay(0)
			wire.Set(servicetest.None)
			await(t, "swept again", func() bool {
				_, err := line.Sweep(soon(), nil)
				return err == nil
			})
			if s, err := beside.Snapshot(t.Context()); err != nil || s.Away != 0 || s.Waiting != 1 {
				t.Fatalf("%+v, %v", s, err)
			}
			// Who is silent from now on is.
			await(t, "away", func() bool {
				swept, err := line.Sweep(t.Context(), nil)
				return err == nil && swept.Away == 1
			})
		})
	}
}
