package sqlstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/servicetest"
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

// TestPaymentsOverLostConnections: a payment begins and is settled once, whether the
// statement was lost or its answer.
func TestPaymentsOverLostConnections(t *testing.T) {
	t.Parallel()
	opts := Options{URL: servicetest.MySQL(t), Workers: 1, Log: discard}
	n := &network{}
	s := openThrough(t, n, opts)
	watch := openStore(t, opts, logger.Discard)
	product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Price: 5, Stock: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []fault{updateLost, updateUnheard} {
		b := orders.Buyer{TokenID: fmt.Sprint("token-", i)}
		o, _, err := orderstest.Ask(t.Context(), s, b, []orders.CartItem{{ProductID: product, Quantity: 1}})
		if err != nil {
			t.Fatal(err)
		}
		n.fault.Store(int32(f))
		p, err := s.BeginPayment(t.Context(), o.ID, b.TokenID, "card")
		if err != nil || p.State != orders.PaymentUnknown || p.Attempt != 1 {
			t.Errorf("fault %d: begun %+v, %v", f, p, err)
		}
		n.fault.Store(int32(f))
		p, err = s.SettlePayment(t.Context(), p, orders.Outcome{Paid: true})
		if err != nil || p.State != orders.Paid || p.Attempt != 1 {
			t.Errorf("fault %d: settled %+v, %v", f, p, err)
		}
		if got, err := watch.Order(t.Context(), o.ID); err != nil || got.State != orders.Paid || !got.PaidAt.Equal(p.PaidAt) {
			t.Errorf("fault %d: stored %+v, %v", f, got, err)
		}
		if fault(n.fault.Load()) != none {
			t.Errorf("fault %d did not happen", f)
		}
	}
	n.fault.Store(int32(unreachable))
	if _, err := s.BeginPayment(t.Context(), "order", "token", "card"); !errors.Is(err, orders.ErrDatabase) {
		t.Errorf("begun on a database that is away: %v", err)
	}
	if _, err := s.SettlePayment(t.Context(), orders.Payment{}, orders.Outcome{}); !errors.Is(err, orders.ErrDatabase) {
		t.Errorf("settled on a database that is away: %v", err)
	}
	if _, err := s.UnsettledPayments(t.Context(), 0, 1); !errors.Is(err, orders.ErrDatabase) {
		t.Errorf("claimed on a database that is away: %v", err)
	}
}
