package rediscoupons

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/orders"
)

// crowd asks for a coupon again and again, each visitor until they know, and remembers
// what they were told.
type crowd struct {
	mu      sync.Mutex
	codes   map[string]string // guarded by mu; acknowledged, by visitor
	created int               // guarded by mu
	soldOut atomic.Int64
	// forgetful is whether somebody may be told another code later: what was
	// acknowledged when it was issued may have gone with Redis.
	forgetful bool
}

// ask has visitors from … to-1 claim at once, each several times, at any of the
// processes. Who is told that the database does not answer asks again.
func (c *crowd) ask(t *testing.T, from, to int, processes ...*process) {
	t.Helper()
	var wg sync.WaitGroup
	for n := from; n < to; n++ {
		for k := range 3 {
			wg.Go(func() { c.one(t, fmt.Sprintf("visitor-%d", n), processes[(n+k)%len(processes)]) })
		}
	}
	wg.Wait()
}

func (c *crowd) one(t *testing.T, visitor string, p *process) {
	for {
		got := p.claim(visitor)
		switch {
		case errors.Is(got.Err, orders.ErrDatabase):
			continue
		case errors.Is(got.Err, orders.ErrSoldOut):
			c.soldOut.Add(1)
		case got.Err != nil:
			t.Errorf("%s: %v", visitor, got.Err)
		default:
			c.acknowledged(t, visitor, got)
		}
		return
	}
}

func (c *crowd) acknowledged(t *testing.T, visitor string, got orders.Claimed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes == nil {
		c.codes = map[string]string{}
	}
	if code, has := c.codes[visitor]; has && code != got.Claim.Code && !c.forgetful {
		t.Errorf("%s got %s and %s", visitor, code, got.Claim.Code)
	}
	c.codes[visitor] = got.Claim.Code
	if got.Created {
		c.created++
	}
	if got.Claim.Visitor != visitor || got.Claim.Code == "" || got.Claim.Remaining < 0 {
		t.Errorf("%s got %+v", visitor, got.Claim)
	}
}

// holds compares what was acknowledged with the claims in the database.
func (c *crowd) holds(t *testing.T, claims map[string]string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for visitor, code := range c.codes {
		if claims[visitor] != code {
			t.Errorf("%s was told %s and has %q", visitor, code, claims[visitor])
		}
	}
}

// TestRush has a crowd three times as large as there are coupons ask two processes.
func TestRush(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		const coupons, visitors = 100, 300
		store := h.store(t)
		c := addCoupon(t, store, coupons)
		a, b := h.start(t, c.ID, nil), h.start(t, c.ID, nil)
		a.knows(t, c.ID)
		var all crowd
		all.ask(t, 0, visitors, a, b)
		if len(all.codes) != coupons || all.created != coupons || all.soldOut.Load() != 3*(visitors-coupons) {
			t.Errorf("%d have one, %d created, %d times sold out", len(all.codes), all.created, all.soldOut.Load())
		}
		a.drained(t)
		written := claimsOf(t, store, c)
		all.holds(t, written)
		if len(written) != coupons {
			t.Errorf("%d claims", len(written))
		}
		// Who has one gets it, also from a process that has just come, and nobody else
		// gets one: all that without the database.
		before := a.Stats()
		late := h.start(t, c.ID, refusing{store, t})
		all.ask(t, 0, visitors, late)
		all.holds(t, written)
		if s := late.Stats(); s.Bypassed != 0 || s.Issued != 0 || s.SoldOut != 3*(visitors-coupons) {
			t.Errorf("the late process: %+v", s)
		}
		if before.Issued+b.Stats().Issued != coupons || before.Bypassed+b.Stats().Bypassed != 0 || before.Refused+b.Stats().Refused != 0 {
			t.Errorf("counted %+v and %+v", before, b.Stats())
		}
	})
}

// TestRedisLosesEverything empties Redis under a crowd, some times.
func TestRedisLosesEverything(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		const coupons, visitors, rounds = 400, 500, 5
		store := h.store(t)
		c := addCoupon(t, store, coupons)
		a, b := h.start(t, c.ID, nil), h.start(t, c.ID, nil)
		a.knows(t, c.ID)
		all := crowd{forgetful: h.ack == Issued}
		for round := range rounds {
			var flush sync.WaitGroup
			flush.Go(func() {
				eventually(t, "the round has begun", func() bool { all.mu.Lock(); defer all.mu.Unlock(); return len(all.codes) >= 60*round })
				if err := a.client.FlushAll(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			})
			all.ask(t, round*visitors/rounds, (round+1)*visitors/rounds, a, b)
			flush.Wait()
		}
		a.knows(t, c.ID)
		a.drained(t)
		// None is left over: whoever has none yet is asked once more.
		eventually(t, "all are given", func() bool {
			all.ask(t, 0, visitors, a, b)
			a.drained(t)
			return len(claimsOf(t, store, c)) == coupons
		})
		if h.ack == Committed {
			all.holds(t, claimsOf(t, store, c))
			if all.created != coupons {
				t.Errorf("%d created", all.created)
			}
		}
	})
}

// refusing is a store that must not be asked for a claim.
type refusing struct {
	orders.CouponStore
	t testing.TB
}

func (r refusing) Claim(_ context.Context, group []orders.ClaimRequest) []orders.Claimed {
	r.t.Errorf("the database was asked for %+v", group)
	return make([]orders.Claimed, len(group))
}
