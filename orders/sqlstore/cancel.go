package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// CancelUnpaid locks the orders that are due and that nobody else is working
// on, so that each is cancelled once however many sweep; then it raises the
// stock, rows locked in the same order as in Place.
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
	var ids []string
	err := tx.Raw("SELECT id FROM orders WHERE state = ? AND created_at < "+s.dialect.nowMS+" - ?"+
		" ORDER BY created_at LIMIT ?"+s.dialect.skipLocked,
		string(orders.Pending), age.Milliseconds(), limit).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	var amounts []amount
	err = tx.Raw("SELECT product_id, SUM(quantity) AS quantity FROM order_items"+
		" WHERE order_id IN ? GROUP BY product_id ORDER BY product_id", ids).Scan(&amounts).Error
	if err != nil {
		return 0, err
	}
	result := tx.Exec("UPDATE orders SET state = ?, cancelled_at = "+s.dialect.nowMS+
		" WHERE id IN ? AND state = ?", string(orders.Cancelled), ids, string(orders.Pending))
	if result.Error != nil {
		return 0, result.Error
	}
	if result.RowsAffected != int64(len(ids)) {
		return 0, fmt.Errorf("cancelled %d of %d locked orders", result.RowsAffected, len(ids))
	}
	n, products, args := perProduct(amounts)
	err = tx.Exec("UPDATE products SET stock = stock + "+n+" WHERE id IN "+products,
		slices.Concat(args.perID, args.ids)...).Error
	return len(ids), err
}
