package orders

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrDeclined means that the provider refused the payment. The order may be paid
// another way.
var ErrDeclined = errors.New("orders: the payment was declined")

// Payment is one attempt to have an order paid.
type Payment struct {
	OrderID string
	// Attempt counts the attempts of this order from 1.
	Attempt int
	// Method is what the buyer named: the provider's business.
	Method string
	// Amount is in the smallest currency unit.
	Amount int64
	// State is the order's state after this step.
	State State
	// PaidAt is by the database's clock, in ms; zero until it is paid.
	PaidAt time.Time
}

// Key is the idempotency key of the attempt: however often a provider is asked with
// it, money moves once.
func (p Payment) Key() string { return fmt.Sprintf("%s-%d", p.OrderID, p.Attempt) }

// Outcome is a provider's word on a payment.
type Outcome struct {
	Paid bool
	// Reference is the provider's own name for it.
	Reference string
	// Reason is why it was declined, for people.
	Reason string
}

// Provider takes payments. It is asked without a transaction or a connection of the
// database being held.
type Provider interface {
	// Charge takes the payment, or says that it is declined. The same key again,
	// also at the same time, means the same payment and has the same outcome. An
	// error says nothing about the payment: it is unknown and asked for again. Charge
	// returns soon after ctx has ended.
	Charge(ctx context.Context, p Payment) (Outcome, error)
}

// PaymentStore is the part of a [Store] that keeps how orders are paid. The state of
// an order decides: of a cancellation and a payment that come at the same moment one
// happens.
type PaymentStore interface {
	// BeginPayment makes a pending or declined order payment_unknown and returns the
	// attempt to ask the provider for. For an order that is payment_unknown already
	// it returns the attempt under way, or what it has come to meanwhile, and for a
	// paid one the payment that was made.
	// An order that costs nothing is paid at once.
	//
	// Errors: [ErrOrderNotFound], [ErrOrderOfAnother] when another token made it,
	// [ErrOrderState] when it is cancelled.
	BeginPayment(ctx context.Context, orderID, tokenID, method string) (Payment, error)
	// SettlePayment stores the outcome of the attempt and returns the payment as it
	// is then. What an attempt came to is stored once: later calls change nothing,
	// and return what was stored.
	SettlePayment(ctx context.Context, p Payment, o Outcome) (Payment, error)
	// UnsettledPayments returns up to limit attempts that were last asked for longer
	// ago than age by the database's clock, and notes that they are asked for now: of
	// several processes one gets each.
	UnsettledPayments(ctx context.Context, age time.Duration, limit int) ([]Payment, error)
}
