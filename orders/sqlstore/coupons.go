package sqlstore

import (
	"context"

	"gorm.io/gorm"

	"sluice/orders"
)

// Coupons lists every coupon in id order.
func (s *Store) Coupons(ctx context.Context) ([]orders.Coupon, error) {
	coupons := []orders.Coupon{} // never nil: no coupons are a reading too
	err := s.upkeep.WithContext(ctx).
		Raw("SELECT id, name, quantity, issued, discount, line FROM coupons ORDER BY id").
		Scan(&coupons).Error
	return coupons, s.outward("read the coupons", err)
}

// AddCoupon stores a new coupon and returns its id.
func (s *Store) AddCoupon(ctx context.Context, c orders.Coupon) (int64, error) {
	row := newCoupon{Coupon: c}
	row.ID, row.Issued = 0, 0
	err := s.transact(ctx, s.side, 0, func(tx *gorm.DB) error {
		return tx.Table("coupons").Create(&row).Error
	})
	return row.ID, s.outward("add a coupon", err)
}

// newCoupon is a coupons row as it is written.
type newCoupon struct {
	orders.Coupon
	CreatedAt int64 `gorm:"autoCreateTime:milli"`
}

// Claims lists claims of a coupon by visitor. What is left is read in the same
// statement, so that it is of the same moment as the claims.
func (s *Store) Claims(ctx context.Context, couponID int64, after string, limit int) ([]orders.Claim, error) {
	var claims []orders.Claim
	err := s.side.WithContext(ctx).
		Raw("SELECT n.coupon_id, n.visitor, n.code, c.quantity - c.issued AS remaining"+
			" FROM coupon_claims n JOIN coupons c ON c.id = n.coupon_id"+
			" WHERE n.coupon_id = ? AND n.visitor > ? ORDER BY n.visitor LIMIT ?", couponID, after, limit).
		Scan(&claims).Error
	return claims, s.outward("read the claims of a coupon", err)
}
