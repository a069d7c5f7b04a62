package sqlstore

import (
	"crypto/rand"
	"fmt"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

// BenchmarkPlace has the given number of workers buy one hot product, one or
// five products an order.
func BenchmarkPlace(b *testing.B) {
	for name, fresh := range databases {
		for _, workers := range []int{1, 10} {
			for _, items := range []int{1, 5} {
				b.Run(fmt.Sprintf("%s/workers=%d/items=%d", name, workers, items), func(b *testing.B) {
					opts := fresh(b)
					opts.Workers, opts.Log = workers, discard
					benchmarkPlace(b, openStore(b, opts, logger.Discard), workers, items)
				})
			}
		}
	}
}

func benchmarkPlace(b *testing.B, s *Store, workers, items int) {
	var cart []orders.CartItem
	for range items {
		id, err := s.AddProduct(b.Context(), orders.Product{Name: "Lamp", Price: 1, Stock: orders.MaxStock})
		if err != nil {
			b.Fatal(err)
		}
		cart = append(cart, orders.CartItem{ProductID: id, Quantity: 1})
	}
	b.ReportAllocs()
	b.ResetTimer()
	work := make(chan struct{})
	failed := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for range work {
				if err == nil {
					_, _, err = orderstest.Ask(b.Context(), s, orders.Buyer{TokenID: rand.Text(), Visitor: "v", Line: "default"}, cart)
				}
			}
			failed <- err
		}()
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	for range workers {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}
