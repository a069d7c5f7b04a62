package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// CancelUnpaid locks the orders that are due and that nobody else is working on, so
// that each is cancelled once however many sweep, and none whose payment begins at
// that moment; then it raises the stock and frees the coupons, rows locked in the
// same order as in Place.
func (s *Store) CancelUnpaid(ctx context.Context, age time.Duration, limit int) (int, error) {
	var cancelled int
	err := s.transact(ctx, s.upkeep, 0, func(tx *gorm.DB) (err error) {
		cancelled, err = s.cancelUnpaid(tx, age, limit)
		return err
	})
	if err != nil {
		return 0, s.outward("cancel unpaid orders", err)
	}
	return cancelled, nil
}

func (s *Store) cancelUnpaid(tx *gorm.DB, age time.Duration, limit int) (int, error) {
	due, err := s.lockUnpaid(tx, age, limit)
	if err != nil || len(due.ids) == 0 {
		return 0, err
	}
	var amounts []amount
	err = tx.Raw("SELECT product_id AS id, SUM(quantity) AS quantity FROM order_items"+
		" WHERE order_id IN ? GROUP BY product_id ORDER BY product_id", due.ids).Scan(&amounts).Error
	if err != nil {
		return 0, err
	}
	result := tx.Exec("UPDATE orders SET state = ?, cancelled_at = "+s.dialect.nowMS+
		" WHERE id IN ?", string(orders.Cancelled), due.ids)
	if result.Error != nil {
		return 0, result.Error
	}
	if result.RowsAffected != int64(len(due.ids)) {
		return 0, fmt.Errorf("cancelled %d of %d locked orders", result.RowsAffected, len(due.ids))
	}
	if err := s.write(tx, adding("products", "stock", +1, amounts)); err != nil || len(due.codes) == 0 {
		return len(due.ids), err
	}
	err = tx.Exec("UPDATE coupon_claims SET order_id = NULL WHERE code IN ?", due.codes).Error
	return len(due.ids), err
}

// unpaid are orders to be cancelled, and the coupons they used.
type unpaid struct{ ids, codes []string }

// lockUnpaid takes the oldest of each state. It reads in the order of the index, so
// that it locks no more than it takes.
func (s *Store) lockUnpaid(tx *gorm.DB, age time.Duration, limit int) (due unpaid, err error) {
	var rows []struct{ ID, CouponCode string }
	err = tx.Raw("SELECT id, coupon_code FROM orders WHERE state IN (?, ?) AND created_at < "+s.dialect.nowMS+" - ?"+
		" ORDER BY state, created_at LIMIT ?"+s.dialect.skipLocked,
		string(orders.Declined), string(orders.Pending), age.Milliseconds(), limit).Scan(&rows).Error
	for _, r := range rows {
		due.ids = append(due.ids, r.ID)
		if r.CouponCode != "" {
			due.codes = append(due.codes, r.CouponCode)
		}
	}
	slices.Sort(due.codes)
	return due, err
}
