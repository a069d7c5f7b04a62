package orders

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A token that is repeated is one visitor served, whatever comes of it; the pool
// tells how much of its work was repetition.
func TestRepetitionsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, soldOut: map[int64]bool{9: true}, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 2}}}}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		place := func(token string, product int64) {
			_, _, _ = s.Place(t.Context(), Request{Buyer: Buyer{TokenID: token}, Cart: []CartItem{{product, 1}}})
		}
		check := func(what string, completed, repeated, idle int64) {
			t.Helper()
			p := s.PoolStats()
			if p.Completed != completed || p.Repeated != repeated || p.RepeatTime != time.Duration(idle)*work {
				t.Errorf("%s: %d completed, %d of them repeated, %s for nothing; want %d, %d and %d", what, p.Completed, p.Repeated, p.RepeatTime, completed, repeated, idle)
			}
		}
		for range 20 {
			place("refused", 9)
		}
		check("one that is refused again and again", 20, 19, 19)
		place("refused", 1)
		check("it orders after all: no other visitor, but work", 21, 20, 19)
		for range 5 {
			place("refused", 1)
			place("refused", 2)
		}
		check("its order is asked for again, and another with it", 31, 30, 29)
		place("another", 9)
		check("another visitor", 32, 30, 29)
		for range 2 {
			_, _, _ = s.Claim(t.Context(), Buyer{TokenID: "claims", Visitor: "v"}, 1)
		}
		check("a visitor claims, and again", 34, 31, 30)
		place("claims", 1)
		check("and orders: work, but no other visitor", 35, 32, 30)
		_, _, _ = s.Claim(t.Context(), Buyer{TokenID: "another", Visitor: "w"}, 1)
		check("one who was refused an order claims", 36, 33, 30)
		stop()
	})
}

// Whom the database fails is not served: an outage is no capacity, and who comes again
// after it is another visitor.
func TestWhomTheDatabaseFailsIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 9}}}}
		s, stop := running(t, f, nil)
		served := func(want int64, idle time.Duration) {
			t.Helper()
			_, _, _ = s.Place(t.Context(), Request{Buyer: visitor("orders"), Cart: oneLamp})
			_, _, _ = s.Claim(t.Context(), visitor("claims"), 1)
			if p := s.PoolStats(); p.Completed-p.Repeated != want || p.RepeatTime != idle {
				t.Errorf("%d of %d served, %s for nothing; want %d and %s", p.Completed-p.Repeated, p.Completed, p.RepeatTime, want, idle)
			}
		}
		f.do(func() { f.away = true })
		served(0, 2*work)
		f.do(func() { f.away = false })
		served(2, 2*work)
		stop()
	})
}

func TestTriedIsBounded(t *testing.T) {
	var tried tried
	for i := range 3 * mostTried {
		if tried.again(fmt.Sprint(i)) {
			t.Fatalf("%d was never there", i)
		}
		if got := tried.again("loops"); got != (i > 0) {
			t.Fatalf("after %d others the one that goes on was there before: %v", i, got)
		}
	}
	if n := len(tried.newer) + len(tried.older); n > 2*mostTried {
		t.Errorf("%d are remembered", n)
	}
	if tried.again("0") {
		t.Error("the first is still remembered")
	}
}
