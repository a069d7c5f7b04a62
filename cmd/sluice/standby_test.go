package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/servicetest"
)

// waited is how long the line's store is left away once that is known.
const waited = 3 * time.Second

// troubled are two instances on a Redis of their own, and visitors who poll them.
type troubled struct {
	t         *testing.T
	redis     *servicetest.RedisServer
	instances []*instance
	visitors  []*polling // in the order of their entering
}

// polling is a visitor who keeps asking, at one instance after the other.
type polling struct {
	visitor
	mu   sync.Mutex
	last map[string]any // the last answer; guarded by mu
	when time.Time      // it was asked for; guarded by mu
	in   map[string]any // the answer that let them in, after which nobody asks; guarded by mu
}

func (p *polling) seen() (answer map[string]any, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.when
}

func newTroubled(t *testing.T, onFailure string, environ ...string) *troubled {
	t.Helper()
	s := &troubled{t: t, redis: servicetest.OwnRedis(t)}
	environ = append([]string{
		"SLUICE_REDIS=" + s.redis.URL, "SLUICE_SECRET=" + strings.Repeat("k", 32),
		"SLUICE_ADMISSION_ON_REDIS_FAILURE=" + onFailure, "SLUICE_LIMITS_POLL_FACTOR=0",
	}, environ...)
	for range 2 {
		s.instances = append(s.instances, serveEmbedded(t, environ...))
	}
	return s
}

// poll has so many enter, one after the other, and poll until the test ends or they are
// let in.
func (s *troubled) poll(n int) {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var polls sync.WaitGroup
	s.t.Cleanup(func() { stop(); polls.Wait() })
	for i := range n {
		p := &polling{visitor: visitor{t: s.t}}
		p.last = p.enter(s.instances[i%2])
		s.visitors = append(s.visitors, p)
	}
	for i, p := range s.visitors {
		polls.Go(func() {
			for n := i; ctx.Err() == nil && p.admitted() == nil; n++ {
				s.ask(ctx, p, s.instances[n%2])
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
}

func (s *troubled) ask(ctx context.Context, p *polling, at *instance) {
	began := time.Now()
	status, answer, err := try(ctx, http.MethodGet, "", p.to(at, "/queue/position"), map[string]string{"X-Queue-Ticket": p.ticket}, "")
	if ctx.Err() != nil {
		return
	}
	if err != nil || status != http.StatusOK && (status != http.StatusServiceUnavailable || answer["code"] != "queue_unavailable") {
		s.t.Errorf("a poll was answered with %d %v, %v", status, answer, err)
	}
	if answer == nil {
		answer = map[string]any{}
	}
	answer["status"], answer["took"] = status, time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.when = answer, began
	if answer["state"] == "admitted" {
		p.in = answer
	}
}

func (p *polling) admitted() map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in
}

// all waits until what every visitor was told last, asked for after the call, is as it
// should be.
func (s *troubled) all(what string, good func(i int, answer map[string]any) bool) {
	s.t.Helper()
	from := time.Now()
	eventually(s.t, what, func() bool {
		for i, p := range s.visitors {
			if answer, asked := p.seen(); asked.Before(from) && p.admitted() == nil || !good(i, answer) {
				return false
			}
		}
		return true
	})
}

// inOrder: each has the position in which they entered.
func (s *troubled) inOrder() {
	s.t.Helper()
	s.all("everybody is told their place again", func(i int, answer map[string]any) bool {
		return answer["state"] == "waiting" && answer["position"] == float64(i+1)
	})
}

func (s *troubled) line(at *instance) map[string]any {
	s.t.Helper()
	status, answer := call(s.t, http.MethodGet, at.admin+"/admin/api/lines/default", nil, "")
	if status != http.StatusOK {
		s.t.Fatalf("operators are told %d %v", status, answer)
	}
	return answer
}

func (s *troubled) storeIs(want string) {
	s.t.Helper()
	eventually(s.t, "both instances know that the store is "+want, func() bool {
		return s.line(s.instances[0])["store"] == want && s.line(s.instances[1])["store"] == want
	})
}

// Redis freezes, and dies, under visitors who poll: while it is away every answer is a
// prompt 503, then everything goes on by itself and in order.
func TestBlockWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := newTroubled(t, "block", "SLUICE_LINE_RECOVERY_HOLD=1s")
	call(t, http.MethodPatch, s.instances[0].admin+"/admin/api/lines/default", nil, `{"rate_override":0}`)
	s.poll(40)
	s.inOrder()
	for _, trouble := range []struct {
		what       string
		begin, end func()
	}{
		{"frozen", s.redis.Freeze, s.redis.Thaw},
		{"killed", s.redis.Stop, s.redis.Start},
	} {
		trouble.begin()
		s.storeIs("away")
		from := time.Now()
		var asked, slow atomic.Int64
		for time.Since(from) < waited {
			for _, p := range s.visitors {
				answer, when := p.seen()
				if when.Before(from) {
					continue
				}
				asked.Add(1)
				if answer["status"] != http.StatusServiceUnavailable {
					t.Fatalf("%s: %v", trouble.what, answer)
				}
				// Whoever asked the store would have waited for two seconds: all of them, and
				// not a few whom a machine with much to do made wait.
				if took, _ := answer["took"].(time.Duration); took >= 2*time.Second {
					slow.Add(1)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if asked.Load() == 0 || 2*slow.Load() > asked.Load() {
			t.Errorf("%s: of %d answers %d waited for the store", trouble.what, asked.Load(), slow.Load())
		}
		for _, at := range s.instances {
			if l := s.line(at); l["mode_in_force"] != "block" || l["mode"] != "normal" || l["limited_by"] != "block" {
				t.Errorf("%s: operators see %v", trouble.what, l)
			}
		}
		trouble.end()
		s.storeIs("there")
		s.inOrder()
		for _, at := range s.instances {
			if log := at.log.String(); strings.Count(log, "the line's store is away") != strings.Count(log, "the line's store is back") {
				t.Errorf("%s: log:\n%s", trouble.what, log)
			}
		}
	}
	call(t, http.MethodPatch, s.instances[0].admin+"/admin/api/lines/default", nil, fmt.Sprintf(`{"rate_override":%d}`, 200))
	s.all("everybody is let in", func(_ int, answer map[string]any) bool { return answer["state"] == "admitted" })
}
