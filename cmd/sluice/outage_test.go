package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/servicetest"
)

// databaseAway is how long the database is away under load.
const databaseAway = 20 * time.Second

// The database dies under load and comes back: orders are told to come again and do,
// nothing acknowledged is lost, and the line does not notice.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	const stock = 1_000_000
	database := servicetest.OwnMariaDB(t)
	r := newRushOn(t, database.URL)
	product := addProduct(t, r.at, stock)
	side := r.at.admin + "/admin/api/lines/side"
	if status, answer := call(t, http.MethodPut, side, nil, `{"rate_override":5}`); status != http.StatusCreated {
		t.Fatalf("a line that moves slowly: %d %v", status, answer)
	}

	polls := pollTimes{times: map[bool][]time.Duration{}}
	var before int
	r.buying(r.ordering(product), func() {
		ctx, end := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 8 {
			waiting.Go(func() { polls.wait(ctx, t, r.at) })
		}
		time.Sleep(3 * time.Second)
		database.Stop()
		polls.away.Store(true)
		before = r.acknowledged()
		time.Sleep(databaseAway)
		polls.away.Store(false)
		if n := r.acknowledged() - before; n > buyers {
			t.Errorf("%d orders were acknowledged without a database", n)
		}
		before = r.acknowledged()
		database.Start()
		eventually(t, "orders are taken again", func() bool { return r.acknowledged() > before+buyers })
		end()
		waiting.Wait()
	})
	r.ordersStand(product, stock)
	for code := range r.refused.Range {
		if code != "database_unavailable" && code != "overloaded" && code != "queue_unavailable" {
			t.Errorf("refused with %v", code)
		}
	}
	if _, ok := r.refused.Load("database_unavailable"); !ok {
		t.Error("nobody was told that the database is away")
	}
	polls.mu.Lock()
	answered := len(polls.times[true])
	polls.mu.Unlock()
	if n := polls.refused.Load(); n > int64(answered)/10 {
		t.Errorf("%d times the line did not answer, %d times it did without the database", n, answered)
	}
	t.Logf("a poll took, p95: %s with the database, %s without", polls.p95(false), polls.p95(true))
}

// acknowledged is how much was answered so far.
func (r *rush) acknowledged() (n int) {
	for range r.answers.Range {
		n++
	}
	return n
}

// pollTimes is how long polls took, apart for a database that is there and one that is
// away.
type pollTimes struct {
	away atomic.Bool
	// refused are those who were told that the line does not answer. A machine with much
	// to do may let Redis wait for longer than it is waited for.
	refused atomic.Int64

	mu    sync.Mutex
	times map[bool][]time.Duration // guarded by mu; by whether it was away
}

// wait is one visitor of the side line after the other, all the time. Each answer must
// be what it would be with a database.
func (p *pollTimes) wait(ctx context.Context, t *testing.T, at *instance) {
	v := &visitor{t: t, line: "side"}
	ask := func(method, route string, want int) map[string]any {
		away, begun := p.away.Load(), time.Now()
		status, answer, err := try(ctx, method, "", v.to(at, route), map[string]string{"X-Queue-Ticket": v.ticket}, "")
		if ctx.Err() != nil {
			return nil
		}
		if status == http.StatusServiceUnavailable && answer["code"] == "queue_unavailable" {
			p.refused.Add(1)
			return nil
		}
		if err != nil || status != want {
			t.Errorf("%s with the database away %v: %d %v, %v", route, away, status, answer, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.times[away] = append(p.times[away], time.Since(begun))
		return answer
	}
	for ctx.Err() == nil {
		v.ticket = ""
		answer := ask(http.MethodPost, "/queue/enter", http.StatusCreated)
		if v.ticket, _ = answer["ticket"].(string); v.ticket == "" {
			continue
		}
		for ctx.Err() == nil && answer["state"] != "admitted" {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
				answer = ask(http.MethodGet, "/queue/position", http.StatusOK)
			}
		}
	}
}

func (p *pollTimes) p95(away bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := p.times[away]
	slices.Sort(times)
	if len(times) == 0 {
		return 0
	}
	return times[len(times)*95/100]
}
