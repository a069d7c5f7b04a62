package sqlstore

import (
	"context"

	"sluice/orders"
)

// Claim writes a group of claims.
func (s *Store) Claim(context.Context, []orders.ClaimRequest) []orders.Claimed { panic("not built") }

// Coupons lists every coupon in id order.
func (s *Store) Coupons(context.Context) ([]orders.Coupon, error) { return nil, nil }

// AddCoupon stores a new coupon and returns its id.
func (s *Store) AddCoupon(context.Context, orders.Coupon) (int64, error) { panic("not built") }

// Claims lists claims of a coupon by visitor.
func (s *Store) Claims(context.Context, int64, string, int) ([]orders.Claim, error) {
	panic("not built")
}
