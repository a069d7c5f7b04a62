package orders

import "context"

// Claim gives the buyer's visitor a coupon, or finds the one that they have; created
// tells which. It does not spend the token. Claims wait for a worker as orders do.
//
// Errors: [ErrCouponNotFound], [ErrOtherLine], [ErrSoldOut], [ErrOverloaded],
// [ErrStopping], [ErrDatabase].
func (s *Service) Claim(ctx context.Context, b Buyer, couponID int64) (c Claim, created bool, err error) {
	return Claim{}, false, ErrCouponNotFound
}

// Coupon is one coupon, at most a second old while the database answers; or
// [ErrCouponNotFound].
func (s *Service) Coupon(id int64) (Coupon, error) { return Coupon{}, ErrCouponNotFound }

// AddCoupon stores a coupon and returns its id; this process knows it at once.
// Errors: [ErrInvalid], [ErrDatabase].
func (s *Service) AddCoupon(ctx context.Context, c Coupon) (int64, error) {
	return 0, ErrInvalid
}
