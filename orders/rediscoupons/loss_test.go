package rediscoupons

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/orders"
	"sluice/servicetest"
)

// crowd remembers what its visitors were told.
type crowd struct {
	coupon int64
	// forgetful is whether somebody may be told another code later: what was
	// acknowledged when it was issued may have gone with Redis.
	forgetful bool

	mu      sync.Mutex
	codes   map[string]string // guarded by mu; by visitor
	created int               // guarded by mu
}

// ask has visitors from … to-1 claim at once, each three times, at any of the instances.
func (c *crowd) ask(t *testing.T, from, to int, instances ...*instance) {
	t.Helper()
	var wg sync.WaitGroup
	for n := from; n < to; n++ {
		for k := range 3 {
			wg.Go(func() { c.one(t, fmt.Sprintf("visitor-%d", n), instances[(n+k)%len(instances)]) })
		}
	}
	wg.Wait()
}

// one asks until somebody knows.
func (c *crowd) one(t *testing.T, visitor string, in *instance) {
	got, created, err := in.Claim(t.Context(), orders.Buyer{TokenID: visitor, Visitor: visitor}, c.coupon)
	switch {
	case errors.Is(err, orders.ErrDatabase), errors.Is(err, orders.ErrOverloaded):
		time.Sleep(10 * time.Millisecond)
		c.one(t, visitor, in)
		return
	case errors.Is(err, orders.ErrSoldOut):
		return
	case err != nil:
		t.Errorf("%s: %v", visitor, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codes == nil {
		c.codes = map[string]string{}
	}
	if code, has := c.codes[visitor]; has && code != got.Code && !c.forgetful {
		t.Errorf("%s got %s and %s", visitor, code, got.Code)
	}
	c.codes[visitor] = got.Code
	if created {
		c.created++
	}
	if got.Visitor != visitor || got.Code == "" || got.Remaining < 0 {
		t.Errorf("%s got %+v", visitor, got)
	}
}

// reaches waits until so many have a coupon.
func (c *crowd) reaches(t *testing.T, n int) {
	t.Helper()
	eventually(t, "enough have a coupon", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.codes) >= n
	})
}

// endsWith asks until all coupons are in the database: whatever has happened, none is
// left over. What was acknowledged must be there, unless it was promised by a Redis that
// has forgotten it.
func (c *crowd) endsWith(t *testing.T, h *house, coupons, visitors int, instances ...*instance) {
	t.Helper()
	var written map[string]string
	eventually(t, "all coupons are given", func() bool {
		c.ask(t, 0, visitors, instances...)
		settled(t, instances[0].issuer.client)
		written = h.written(t, c.coupon)
		return len(written) == coupons
	})
	if c.forgetful {
		return
	}
	for visitor, code := range c.codes {
		if written[visitor] != code {
			t.Errorf("%s was told %s and has %q", visitor, code, written[visitor])
		}
	}
	// Not as many, if answers of the first were lost.
	if c.created > coupons || len(c.codes) != coupons {
		t.Errorf("%d said to be created, told %d, of %d", c.created, len(c.codes), coupons)
	}
}

// TestRedisLosesEverything empties Redis under a crowd, some times.
func TestRedisLosesEverything(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *house) {
		const coupons, visitors, rounds = 400, 500, 5
		h := fresh(t)
		coupon, a, b := h.two(t, coupons)
		all := crowd{coupon: coupon, forgetful: h.ack == Issued}
		for round := range rounds {
			var flush sync.WaitGroup
			flush.Go(func() {
				all.reaches(t, 60*round)
				if err := a.issuer.client.FlushAll(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			})
			all.ask(t, round*visitors/rounds, (round+1)*visitors/rounds, a, b)
			flush.Wait()
		}
		a.answers(t, coupon)
		all.endsWith(t, h, coupons, visitors, a, b)
	})
}

// TestRedisDies has Redis end for good under a crowd; some time later there is another
// one, empty.
func TestRedisDies(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *house) {
		const coupons, visitors = 300, 400
		h := fresh(t)
		coupon, a, b := h.two(t, coupons)
		all := crowd{coupon: coupon, forgetful: h.ack == Issued}
		var rush sync.WaitGroup
		rush.Go(func() { all.ask(t, 0, visitors/4, a, b) })
		all.reaches(t, 50)
		_ = a.issuer.client.ShutdownNoSave(t.Context()).Err() // it dies before it can answer
		if h.ack == Committed {
			rush.Wait() // with the database
			all.ask(t, visitors/4, visitors/2, a, b)
			if s := a.IssuerStats(); s.Bypassed == 0 {
				t.Errorf("nobody went to the database: %+v", s)
			}
		} else if _, _, err := a.Claim(t.Context(), orders.Buyer{TokenID: "t", Visitor: "v"}, coupon); !errors.Is(err, orders.ErrDatabase) {
			t.Errorf("without the Redis that promises: %v", err)
		}
		another := servicetest.OwnRedis(t).URL
		a.wire.mend(another)
		b.wire.mend(another)
		rush.Wait()
		all.ask(t, visitors/4, visitors, a, b)
		a.answers(t, coupon)
		all.endsWith(t, h, coupons, visitors, a, b)
	})
}

// TestProcessLosesRedis cuts one of two off under a crowd, and then both. Redis forgets
// nothing: what was acknowledged holds.
func TestProcessLosesRedis(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *house) {
		const coupons, visitors = 300, 400
		h := fresh(t)
		coupon, a, b := h.two(t, coupons)
		all := crowd{coupon: coupon}
		var rush sync.WaitGroup
		rush.Go(func() { all.ask(t, 0, visitors/2, a, b) })
		all.reaches(t, 50)
		a.wire.cut()
		all.reaches(t, 100)
		b.wire.cut()
		a.wire.mend("")
		rush.Go(func() { all.ask(t, visitors/2, visitors, a, b) })
		all.reaches(t, 250)
		b.wire.mend("")
		rush.Wait()
		all.endsWith(t, h, coupons, visitors, a, b)
	})
}
