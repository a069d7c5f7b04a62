package rediscoupons

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/orders/sqlstore"
	"sluice/servicetest"
)

// BenchmarkClaim has 500 claim at once, by way of giving out, on MySQL or MariaDB: each
// gets one, or nobody does.
func BenchmarkClaim(b *testing.B) {
	for _, way := range []string{"database", string(Committed), string(Issued)} {
		for name, quantity := range map[string]int64{"winners": 1_000_000_000, "losers": 1} {
			b.Run(name+"/"+way, func(b *testing.B) { benchmarkClaim(b, way, quantity) })
		}
	}
}

func benchmarkClaim(b *testing.B, way string, quantity int64) {
	h := &house{redis: servicetest.OwnRedis(b).URL, ack: Committed}
	if way == string(Issued) {
		h.ack = Issued
	}
	h.database = sqlstore.Options{URL: servicetest.MySQL(b), Workers: orders.DefaultOptions().Workers, Log: discard}
	h.store = h.open(b)
	coupon, in, _ := h.two(b, quantity)
	claim := in.Claim
	if way == "database" {
		claim = orderstest.Serve(b, h.store, func(*orders.Service) {}).Claim
	}
	if _, _, err := claim(b.Context(), orders.Buyer{TokenID: "first", Visitor: "first"}, coupon); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.SetParallelism(250) // on two cores
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			visitor := fmt.Sprint("visitor-", n.Add(1))
			_, _, err := claim(b.Context(), orders.Buyer{TokenID: visitor, Visitor: visitor}, coupon)
			if err != nil && !errors.Is(err, orders.ErrSoldOut) {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}
