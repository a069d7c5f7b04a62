package sqlstore

import (
	"context"
	"time"

	"sluice/orders"
)

// BeginPayment makes an order payment_unknown.
func (s *Store) BeginPayment(context.Context, string, string, string) (orders.Payment, error) {
	panic("not built")
}

// SettlePayment stores the outcome of an attempt.
func (s *Store) SettlePayment(context.Context, orders.Payment, orders.Outcome) (orders.Payment, error) {
	panic("not built")
}

// UnsettledPayments returns attempts to ask for again.
func (s *Store) UnsettledPayments(context.Context, time.Duration, int) ([]orders.Payment, error) {
	return nil, nil
}
