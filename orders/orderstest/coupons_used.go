package orderstest

import (
	"errors"
	"sync/atomic"
	"testing"

	"sluice/orders"
)

// codes gives out a coupon to buyers 0 … n-1 and returns their codes.
func codes(t testing.TB, s orders.Store, n int, c orders.Coupon) (all []string) {
	t.Helper()
	c.Quantity = int64(n)
	id := addCoupon(t, s, c)
	var group []orders.ClaimRequest
	for i := range n {
		r := claimant(i, id)
		if c.Line != "" {
			r.Line = c.Line
		}
		group = append(group, r)
	}
	for _, claimed := range s.Claim(t.Context(), group) {
		if claimed.Err != nil {
			t.Fatalf("claim: %v", claimed.Err)
		}
		all = append(all, claimed.Claim.Code)
	}
	return all
}

// couponsUsedAtOnce has four buyers use each code, in groups that share no product.
func couponsUsedAtOnce(t *testing.T, db Database) {
	const groups, coupons, rounds = 4, 25, 8
	s := two(t, db)
	var ids []int64
	for range groups {
		ids = append(ids, addProduct(t, s[0], orders.Product{Price: 10, Stock: rounds * coupons}))
	}
	for round := range rounds {
		code := codes(t, s[0], coupons, orders.Coupon{Discount: 3})
		var used [coupons]atomic.Int64
		together(groups, func(g int) {
			var group []orders.Request
			for i := range coupons {
				group = append(group, request((round*groups+g)*coupons+i, cart(ids[g], 1), code[i]))
			}
			for i, placed := range s[g%2].Place(t.Context(), group) {
				switch {
				case placed.Err == nil && placed.Created && placed.Order.Total == 7:
					used[i].Add(1)
				case !errors.Is(placed.Err, orders.ErrCouponSpent):
					t.Errorf("group %d, order %d: %+v", g, i, placed)
				}
			}
		})
		for i := range used {
			if n := used[i].Load(); n != 1 {
				t.Errorf("round %d: coupon %d was used %d times", round, i, n)
			}
		}
	}
	if sum := summary(t, s[0]); sum.Orders != rounds*coupons || sum.Revenue != 7*rounds*coupons {
		t.Errorf("summary %+v", sum)
	}
}

// couponsComeBack: what a cancelled order used may be used once more.
func couponsComeBack(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: 10, Stock: 10})
	code := codes(t, s, 3, orders.Coupon{Discount: 3})
	use := func(n int, code string) orders.Order {
		t.Helper()
		placed := s.Place(t.Context(), []orders.Request{request(n, cart(p, 1), code)})[0]
		if placed.Err != nil || !placed.Created {
			t.Fatalf("order with a coupon: %+v", placed)
		}
		return placed.Order
	}
	pending, declined, paid := use(1, code[0]), use(2, code[1]), use(3, code[2])
	settle(t, s, begin(t, s, declined), false)
	settle(t, s, begin(t, s, paid), true)
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 2 || err != nil {
		t.Fatalf("cancelled %d, %v", n, err)
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 0 || err != nil {
		t.Errorf("again: cancelled %d, %v", n, err)
	}
	for _, o := range []orders.Order{pending, declined} {
		wantState(t, s, o.ID, orders.Cancelled)
		if left, err := s.Order(t.Context(), o.ID); err != nil || left.Coupon != o.Coupon || left.Discount != 3 {
			t.Errorf("the cancelled order: %+v, %v", left, err)
		}
	}
	if left := stock(t, s, p); left != 9 {
		t.Errorf("stock %d", left)
	}
	again := use(4, code[0])
	use(5, code[1])
	for i := range code {
		placed := s.Place(t.Context(), []orders.Request{request(6, cart(p, 1), code[i])})[0]
		if !errors.Is(placed.Err, orders.ErrCouponSpent) {
			t.Errorf("coupon %d a third time: %+v", i, placed)
		}
	}
	// The token of a cancelled order has made its order all the same.
	if placed := s.Place(t.Context(), []orders.Request{request(1, cart(p, 1), code[0])})[0]; placed.Order.ID != pending.ID || placed.Created {
		t.Errorf("the cancelled order, asked for again: %+v; the coupon is of %s", placed, again.ID)
	}
}

// cancelWhileBuyingWithCoupons has each code tried again and again while orders are
// cancelled: never do two orders that stand share one, and in the end all are free.
func cancelWhileBuyingWithCoupons(t *testing.T, db Database) {
	const coupons, rounds, pieces = 20, 10, 1000
	s := two(t, db)
	p := addProduct(t, s[0], orders.Product{Price: 10, Stock: pieces})
	code := codes(t, s[0], coupons, orders.Coupon{Discount: 3})
	together(6, func(i int) {
		for round := range rounds {
			if i >= 4 {
				if _, err := s[i%2].CancelUnpaid(t.Context(), aMinuteAhead, 7); err != nil {
					t.Errorf("sweep: %v", err)
				}
				continue
			}
			var group []orders.Request
			for n := range coupons {
				group = append(group, request((i*rounds+round)*coupons+n, cart(p, 1), code[n]))
			}
			for _, placed := range s[i%2].Place(t.Context(), group) {
				if placed.Err != nil && !errors.Is(placed.Err, orders.ErrCouponSpent) {
					t.Errorf("order: %+v", placed)
				}
			}
		}
	})
	standing := map[string]int{}
	for n := range 4 * rounds * coupons {
		o, err := s[0].ByToken(t.Context(), buyer(n).TokenID)
		if err == nil && o.State != orders.Cancelled {
			standing[o.Coupon]++
		}
	}
	for c, n := range standing {
		if n > 1 {
			t.Errorf("%d orders stand with the coupon %s", n, c)
		}
	}
	for {
		n, err := s[0].CancelUnpaid(t.Context(), aMinuteAhead, 100)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if left := stock(t, s[0], p); left != pieces {
		t.Errorf("%d left of %d", left, pieces)
	}
	for n := range code {
		if placed := s[0].Place(t.Context(), []orders.Request{request(10_000+n, cart(p, 1), code[n])})[0]; placed.Err != nil {
			t.Errorf("coupon %d: %v", n, placed.Err)
		}
	}
}
