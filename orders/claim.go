package orders

import (
	"context"
	"fmt"
	"time"
)

// mostClaims is how many claims are written in one transaction at most. Larger groups
// were no quicker: from 100 on, the rows themselves are the work.
const mostClaims = 500

// Claim gives the buyer's visitor a coupon, or finds the one that they have; created
// tells which. It does not spend the token. Claims wait for a worker as orders do, but
// for those that an [Issuer] answers. Of all that ask for one coupon for one visitor at
// the same time, one is at work or in the backlog; the others share what it comes to,
// and so wait no longer than it does. As it is not theirs to give up, an end of ctx does
// not end that wait.
//
// Errors: [ErrInvalid], [ErrCouponNotFound], [ErrOtherLine], [ErrSoldOut],
// [ErrOverloaded], [ErrStopping], [ErrDatabase].
func (s *Service) Claim(ctx context.Context, b Buyer, couponID int64) (c Claim, created bool, err error) {
	if err := validateClaim(b); err != nil {
		return Claim{}, false, err
	}
	shared, err, _ := s.claiming.Do(fmt.Sprintf("%d %q %q", couponID, b.Line, b.Visitor), func() (any, error) {
		s.arrived(b)
		until := time.Now().Add(s.opts.Deadline)
		r := ClaimRequest{CouponID: couponID, Visitor: b.Visitor, Line: b.Line, Code: NewCode()}
		claimed := s.issue(context.WithoutCancel(ctx), r, func(ctx context.Context, r ClaimRequest) Claimed {
			u := &claiming{token: b.TokenID, request: r}
			if err := s.pool.submit(ctx, until, s.claims, u); err != nil {
				return Claimed{Err: err}
			}
			return u.Claimed
		})
		created = claimed.Created
		return claimed.Claim, claimed.Err
	})
	if err != nil {
		return Claim{}, false, err
	}
	return shared.(Claim), created, nil
}

// claiming is a claim on its way through the pool.
type claiming struct {
	token    string
	request  ClaimRequest
	standing standing // once it is done
	Claimed
}

func (c *claiming) keys() []int64    { return []int64{c.request.CouponID} }
func (c *claiming) counts() standing { return c.standing }

// claim has the store write a group of claims.
func (s *Service) claim(ctx context.Context, group []unit) {
	requests := make([]ClaimRequest, len(group))
	for i, u := range group {
		requests[i] = u.(*claiming).request
	}
	for i, claimed := range s.store.Claim(ctx, requests) {
		c := group[i].(*claiming)
		c.Claimed = claimed
		c.standing = s.tried.standing(c.token, claimed.Created, claimed.Err)
	}
}

// Coupons lists every coupon in id order, as fresh as [Service.Products]. The
// caller must not change the slice. [ErrDatabase] before the first read.
func (s *Service) Coupons() ([]Coupon, error) {
	r, err := s.catalog.read()
	return r.coupons, err
}

// Coupon is one of [Service.Coupons], or [ErrCouponNotFound].
func (s *Service) Coupon(id int64) (Coupon, error) { return s.catalog.coupon(id) }

// AddCoupon stores a coupon, of which nobody has one yet, and returns its id; this
// process's catalogue has it at once. Errors: [ErrInvalid], [ErrDatabase].
func (s *Service) AddCoupon(ctx context.Context, c Coupon) (int64, error) {
	if err := c.validate(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	id, err := s.store.AddCoupon(ctx, c)
	if err != nil {
		return 0, err
	}
	// The coupon is stored whatever comes of this; the next refresh has it.
	_ = s.catalog.refresh(ctx)
	return id, nil
}
