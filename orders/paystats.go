package orders

import "sync/atomic"

// PaymentStats is what this process has done about payments since it was made.
type PaymentStats struct {
	// Paid and Declined count the provider's answers that were stored, and
	// Reconciled those of them that nobody was waiting for any more.
	Paid, Declined, Reconciled int64
	// Unknown counts how often the provider gave no answer, or one that could not be
	// stored: each time it is asked again.
	Unknown int64
	// Refused counts the payments that were not begun because too many were under way.
	Refused int64
}

// PaymentStats reads the figures; all are 0 where no payments are taken.
func (s *Service) PaymentStats() PaymentStats {
	if s.payments == nil {
		return PaymentStats{}
	}
	c := &s.payments.counts
	return PaymentStats{
		Paid:       c.paid.Load(),
		Declined:   c.declined.Load(),
		Reconciled: c.reconciled.Load(),
		Unknown:    c.unknown.Load(),
		Refused:    c.refused.Load(),
	}
}

type paymentCounts struct {
	paid, declined, reconciled, unknown, refused atomic.Int64
}

// count counts what one attempt came to.
func (c *paymentCounts) count(state State, err error) {
	switch {
	case err != nil:
		c.unknown.Add(1)
	case state == Paid:
		c.paid.Add(1)
	case state == Declined:
		c.declined.Add(1)
	}
}
