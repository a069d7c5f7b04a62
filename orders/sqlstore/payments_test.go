package sqlstore

import (
	"testing"
	"time"

	"sluice/orders/orderstest"
)

func TestPaymentContract(t *testing.T) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orderstest.RunPayments(t, counted(fresh))
		})
	}
}

// elapse makes every payment look as if it had been asked for so much longer ago.
func elapse(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	err := s.side.Exec("UPDATE orders SET payment_asked_at = payment_asked_at - ?", d.Milliseconds()).Error
	if err != nil {
		t.Fatal(err)
	}
}
