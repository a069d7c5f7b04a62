package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// The state of the order decides, in the condition of one UPDATE each, and what is
// returned is read afterwards. So no transaction is open and no connection held while
// the provider is asked; and each of them may be run again when its outcome was not
// heard, since by then the condition no longer holds.

// BeginPayment makes the order payment_unknown, or paid if there is nothing to pay.
func (s *Store) BeginPayment(ctx context.Context, orderID, tokenID, method string) (orders.Payment, error) {
	err := s.execute(ctx, s.side, "UPDATE orders SET"+
		" state = CASE total WHEN 0 THEN ? ELSE ? END,"+
		" paid_at = CASE total WHEN 0 THEN "+s.dialect.nowMS+" END,"+
		" payment_attempt = payment_attempt + 1, payment_method = ?, payment_asked_at = "+s.dialect.nowMS+
		" WHERE id = ? AND token_id = ? AND state IN (?, ?)",
		string(orders.Paid), string(orders.PaymentUnknown), method,
		orderID, tokenID, string(orders.Pending), string(orders.Declined))
	if err != nil {
		return orders.Payment{}, s.outward("begin a payment", err)
	}
	row, err := s.findPayment(ctx, orderID)
	switch {
	case err != nil:
		return orders.Payment{}, err
	case row.TokenID != tokenID:
		return orders.Payment{}, orders.ErrOrderOfAnother
	case row.State == orders.Cancelled:
		return orders.Payment{}, orders.ErrOrderState
	}
	return row.payment(), nil
}

// SettlePayment makes the order paid or declined, if it is this attempt that is open.
func (s *Store) SettlePayment(ctx context.Context, p orders.Payment, o orders.Outcome) (orders.Payment, error) {
	state, paidAt := orders.Declined, "NULL"
	if o.Paid {
		state, paidAt = orders.Paid, s.dialect.nowMS
	}
	err := s.execute(ctx, s.side, "UPDATE orders SET state = ?, paid_at = "+paidAt+", payment_reference = ?"+
		" WHERE id = ? AND state = ? AND payment_attempt = ?",
		string(state), o.Reference, p.OrderID, string(orders.PaymentUnknown), p.Attempt)
	if err != nil {
		return orders.Payment{}, s.outward("settle a payment", err)
	}
	row, err := s.findPayment(ctx, p.OrderID)
	return row.payment(), err
}

// UnsettledPayments locks what is due and what nobody else is claiming, the longest
// waiting first, so that one that can never be settled holds up no others.
func (s *Store) UnsettledPayments(ctx context.Context, age time.Duration, limit int) ([]orders.Payment, error) {
	var due []orders.Payment
	err := s.transact(ctx, s.upkeep, 0, func(tx *gorm.DB) (err error) {
		due, err = s.claimUnsettled(tx, age, limit)
		return err
	})
	if err != nil {
		return nil, s.outward("claim payments to ask for again", err)
	}
	return due, nil
}

// claimUnsettled names the state in the statement, since SQLite's index has it as a
// condition.
func (s *Store) claimUnsettled(tx *gorm.DB, age time.Duration, limit int) ([]orders.Payment, error) {
	var rows []paymentRow
	err := tx.Raw("SELECT "+paymentColumns+" FROM orders"+
		" WHERE state = '"+string(orders.PaymentUnknown)+"' AND payment_asked_at < "+s.dialect.nowMS+" - ?"+
		" ORDER BY payment_asked_at LIMIT ?"+s.dialect.skipLocked,
		age.Milliseconds(), limit).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]string, len(rows))
	due := make([]orders.Payment, len(rows))
	for i, row := range rows {
		ids[i], due[i] = row.ID, row.payment()
	}
	err = tx.Exec("UPDATE orders SET payment_asked_at = "+s.dialect.nowMS+" WHERE id IN ?", ids).Error
	return due, err
}

// paymentRow is what an order says of its payment.
type paymentRow struct {
	ID             string
	TokenID        string
	State          orders.State
	Total          int64
	PaidAt         *int64
	PaymentAttempt int
	PaymentMethod  string
}

const paymentColumns = "id, token_id, state, total, paid_at, payment_attempt, payment_method"

func (r paymentRow) payment() orders.Payment {
	p := orders.Payment{
		OrderID: r.ID, Attempt: r.PaymentAttempt, Method: r.PaymentMethod, Amount: r.Total, State: r.State,
	}
	if r.PaidAt != nil {
		p.PaidAt = time.UnixMilli(*r.PaidAt).UTC()
	}
	return p
}

func (s *Store) findPayment(ctx context.Context, orderID string) (paymentRow, error) {
	var rows []paymentRow
	err := s.side.WithContext(ctx).Raw("SELECT "+paymentColumns+" FROM orders WHERE id = ?", orderID).Scan(&rows).Error
	switch {
	case err != nil:
		return paymentRow{}, s.outward("read a payment", err)
	case len(rows) == 0:
		return paymentRow{}, orders.ErrOrderNotFound
	}
	return rows[0], nil
}
