package sqlstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

// TestDelayTakesNoLock holds one order in its test delay and places another of
// the same product meanwhile. On MySQL the first is in its transaction by then;
// SQLite's BEGIN is its lock, so there the delay comes before. The store whose
// only worker is held answers everything else meanwhile.
func TestDelayTakesNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		quick := openStore(t, opts, logger.Discard)
		opts.Workers = 1
		slow := openStore(t, opts, logger.Discard)
		product, err := slow.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 10})
		if err != nil {
			t.Fatal(err)
		}
		cart := []orders.CartItem{{ProductID: product, Quantity: 1}}
		slow.SetTestDelay(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := orderstest.Ask(ctx, slow, orders.Buyer{TokenID: "slow"}, cart)
			done <- err
		}()
		if !slow.dialect.oneWriter {
			inUse(t, slow, 1)
		}
		if _, created, err := orderstest.Ask(t.Context(), quick, orders.Buyer{TokenID: "quick"}, cart); err != nil || !created {
			t.Errorf("beside a delayed order: created %v, %v", created, err)
		}
		// The same token is not held either.
		if _, created, err := orderstest.Ask(t.Context(), quick, orders.Buyer{TokenID: "slow"}, cart); err != nil || !created {
			t.Errorf("the delayed token: created %v, %v", created, err)
		}
		_, errOrder := slow.ByToken(t.Context(), "quick")
		_, errProducts := slow.Products(t.Context())
		_, errSummary := slow.Summary(t.Context())
		_, errCancel := slow.CancelUnpaid(t.Context(), time.Hour, 10)
		_, errAdd := slow.AddProduct(t.Context(), orders.Product{Name: "Chair"})
		if err := errors.Join(errOrder, errProducts, errSummary, errCancel, errAdd, slow.Ping(t.Context())); err != nil {
			t.Errorf("beside a delayed order: %v", err)
		}
		select {
		case err := <-done:
			t.Fatalf("the delayed order ended: %v", err)
		default:
		}
		cancel()
		if err := <-done; !errors.Is(err, orders.ErrDatabase) {
			t.Errorf("the delayed order, given up: %v", err)
		}
		slow.SetTestDelay(0)
		if _, created, err := orderstest.Ask(t.Context(), slow, orders.Buyer{TokenID: "slow"}, cart); err != nil || created {
			t.Errorf("after the delay: created %v, %v", created, err)
		}
	})
}

// inUse waits until so many workers' connections are.
func inUse(t *testing.T, s *Store, connections int) {
	t.Helper()
	db, err := s.workers.DB()
	if err != nil {
		t.Fatal(err)
	}
	for db.Stats().InUse != connections {
		runtime.Gosched()
	}
}
