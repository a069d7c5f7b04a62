package sqlstore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
)

// BenchmarkPayments begins and settles payments of a provider that answers at once, a
// hundred at a time: what the few connections beside the workers' can do.
func BenchmarkPayments(b *testing.B) {
	for name, fresh := range databases {
		b.Run(name, func(b *testing.B) {
			opts := fresh(b)
			opts.Workers, opts.Log = 10, discard
			s := openStore(b, opts, logger.Discard)
			product, err := s.AddProduct(b.Context(), orders.Product{Name: "Lamp", Price: 5, Stock: orders.MaxStock})
			if err != nil {
				b.Fatal(err)
			}
			ids := placeMany(b, s, product, b.N)
			var next atomic.Int64
			b.SetParallelism(50) // times GOMAXPROCS
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := next.Add(1) - 1
					p, err := s.BeginPayment(b.Context(), ids[i], fmt.Sprint("token-", i), "card")
					if err == nil {
						p, err = s.SettlePayment(b.Context(), p, orders.Outcome{Paid: true, Reference: "ref"})
					}
					if err != nil || p.State != orders.Paid {
						b.Errorf("payment %+v, %v", p, err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
		})
	}
}

// placeMany makes orders of the tokens token-0 …, in groups.
func placeMany(b *testing.B, s *Store, product int64, n int) (ids []string) {
	b.Helper()
	for len(ids) < n {
		var group []orders.Request
		for i := len(ids); i < min(n, len(ids)+100); i++ {
			group = append(group, orders.Request{
				Buyer: orders.Buyer{TokenID: fmt.Sprint("token-", i), Visitor: "v"},
				Cart:  []orders.CartItem{{ProductID: product, Quantity: 1}},
			})
		}
		for _, p := range s.Place(b.Context(), group) {
			if p.Err != nil {
				b.Fatal(p.Err)
			}
			ids = append(ids, p.Order.ID)
		}
	}
	return ids
}
