package rediscoupons

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
	"sluice/servicetest"
)

// shelf is a database in memory, with faults to order.
type shelf struct {
	mu     sync.Mutex
	coupon orders.Coupon           // guarded by mu; the only one
	claims map[string]orders.Claim // guarded by mu; by visitor
	away   bool                    // guarded by mu
	bad    string                  // guarded by mu; the visitor whose row cannot be written
	asked  int                     // guarded by mu; claims that were asked for
}

// process is an issuer on a shelf. Nothing runs: the test says what happens when.
type process struct {
	*Issuer
	shelf  *shelf
	coupon orders.Coupon // as the process's catalogue has it
}

// onShelf is a process on a Redis of its own, which knows the coupon.
func onShelf(t *testing.T, quantity int64, ack Ack) (*process, *shelf) {
	t.Helper()
	p := newProcess(t, new(wire).dial(t, servicetest.OwnRedis(t).URL), newShelf(quantity), ack)
	if err := p.learnOnce(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return p, p.shelf
}

func newProcess(t *testing.T, client redis.UniversalClient, s *shelf, ack Ack) *process {
	t.Helper()
	p := &process{Issuer: newIssuer(t, client, s, ack), shelf: s}
	p.leftAfter = 0
	p.look()
	return p
}

// look brings the catalogue up to date.
func (p *process) look() { p.shelf.do(func() { p.coupon = p.shelf.coupon }) }

// claim asks for the coupon as the order side does, without the pool.
func (p *process) claim(visitor string) orders.Claimed {
	return p.Claim(context.Background(), p.coupon, request(visitor), p.shelf.write)
}

func request(visitor string) orders.ClaimRequest {
	return orders.ClaimRequest{CouponID: 1, Visitor: visitor, Line: "default", Code: orders.NewCode()}
}

// entries is how many claims wait in the stream.
func (p *process) entries(t *testing.T) int64 {
	t.Helper()
	n, err := p.client.XLen(t.Context(), claims).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newShelf(quantity int64) *shelf {
	return &shelf{coupon: orders.Coupon{ID: 1, Quantity: quantity}, claims: map[string]orders.Claim{}}
}

func (s *shelf) do(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *shelf) Claim(_ context.Context, group []orders.ClaimRequest) []orders.Claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]orders.Claimed, len(group))
	for k, r := range group {
		s.asked++
		answers[k] = s.claim(r)
	}
	return answers
}

func (s *shelf) write(ctx context.Context, r orders.ClaimRequest) orders.Claimed {
	return s.Claim(ctx, []orders.ClaimRequest{r})[0]
}

// claim is called with mu held.
func (s *shelf) claim(r orders.ClaimRequest) orders.Claimed {
	claim, has := s.claims[r.Visitor]
	switch {
	case s.away || s.bad == r.Visitor:
		return orders.Claimed{Err: fmt.Errorf("%w: as ordered", orders.ErrDatabase)}
	case r.CouponID != s.coupon.ID:
		return orders.Claimed{Err: orders.ErrCouponNotFound}
	case has:
		claim.Remaining = s.coupon.Quantity - s.coupon.Issued
		return orders.Claimed{Claim: claim}
	case s.coupon.Issued == s.coupon.Quantity:
		return orders.Claimed{Err: orders.ErrSoldOut}
	}
	s.coupon.Issued++
	claim = orders.Claim{CouponID: r.CouponID, Visitor: r.Visitor, Code: r.Code, Remaining: s.coupon.Quantity - s.coupon.Issued}
	s.claims[r.Visitor] = claim
	return orders.Claimed{Claim: claim, Created: true}
}

func (s *shelf) Coupons(context.Context) ([]orders.Coupon, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, orders.ErrDatabase
	}
	return []orders.Coupon{s.coupon}, nil
}

func (s *shelf) AddCoupon(context.Context, orders.Coupon) (int64, error) {
	return 0, orders.ErrDatabase
}

func (s *shelf) Claims(_ context.Context, _ int64, after string, limit int) (page []orders.Claim, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, orders.ErrDatabase
	}
	for _, claim := range s.claims {
		if claim.Visitor > after {
			page = append(page, claim)
		}
	}
	slices.SortFunc(page, func(a, b orders.Claim) int { return strings.Compare(a.Visitor, b.Visitor) })
	return page[:min(limit, len(page))], nil
}
