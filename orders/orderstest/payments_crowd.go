package orderstest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/orders"
)

func oneAttemptHoweverManyBegin(t *testing.T, db Database) {
	const times = 50
	s := two(t, db)
	o := place(t, s[0], buyer(1), cart(addProduct(t, s[0], orders.Product{Price: 5, Stock: 9}), 1))
	for attempt := range 3 { // the later ones after a refusal
		together(times, func(i int) {
			p, err := s[i%2].BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "card")
			if err != nil || p.Attempt != attempt+1 || p.State != orders.PaymentUnknown {
				t.Errorf("begin %d of attempt %d: %+v, %v", i, attempt+1, p, err)
			}
		})
		settle(t, s[attempt%2], orders.Payment{OrderID: o.ID, Attempt: attempt + 1}, false)
	}
}

// settledOnceHoweverManyTell has a provider that contradicts itself: what was stored
// first stands, and everybody is told that.
func settledOnceHoweverManyTell(t *testing.T, db Database) {
	const rounds, times = 10, 20
	s := two(t, db)
	product := addProduct(t, s[0], orders.Product{Price: 5, Stock: rounds})
	for round := range rounds {
		o := place(t, s[0], buyer(round), cart(product, 1))
		attempt := begin(t, s[0], o)
		told := make([]orders.Payment, times)
		together(times, func(i int) { told[i] = settle(t, s[i%2], attempt, i%3 == 0) })
		for i, p := range told {
			if p != told[0] || p.State != orders.Paid && p.State != orders.Declined {
				t.Errorf("round %d: %d was told %+v, and 0 %+v", round, i, p, told[0])
			}
		}
		wantState(t, s[1], o.ID, told[0].State)
	}
}

// paidOrCancelled has the sweeper and a payment meet at one order after the other, half
// of them declined before: one of the two gets it, and what a cancelled order took comes
// back once.
func paidOrCancelled(t *testing.T, db Database) {
	const rounds = 200
	s := two(t, db)
	product := addProduct(t, s[0], orders.Product{Price: 5, Stock: 3 * rounds})
	coupon := addCoupon(t, s[0], orders.Coupon{Quantity: rounds, Discount: 1})
	paid := map[string]bool{} // by the code that the order used
	for round := range rounds {
		code := s[0].Claim(t.Context(), []orders.ClaimRequest{claimant(round, coupon)})[0].Claim.Code
		placed := s[0].Place(t.Context(), []orders.Request{{Buyer: buyer(round), Cart: cart(product, 2), Coupon: code}})[0]
		if placed.Err != nil {
			t.Fatalf("place: %v", placed.Err)
		}
		o := placed.Order
		if round%2 == 0 {
			settle(t, s[0], begin(t, s[0], o), false)
		}
		begun, cancelled := payAndCancel(t, s, o, round)
		if begun {
			settle(t, s[1], begin(t, s[0], o), true)
		}
		if begun != (cancelled == 0) {
			t.Errorf("round %d: begun %v, %d cancelled", round, begun, cancelled)
		}
		paid[code] = begun
	}
	var n int64
	for _, p := range paid {
		if p {
			n++
		}
	}
	t.Logf("%d of %d were paid", n, rounds)
	if sum := summary(t, s[0]); sum.ByState[orders.Paid] != n || sum.ByState[orders.Cancelled] != rounds-n {
		t.Errorf("%d paid; summary %+v", n, sum)
	}
	if left := stock(t, s[1], product); left != 3*rounds-2*n {
		t.Errorf("stock %d after %d of %d were paid", left, n, rounds)
	}
	// A code that came back is good for one more order.
	i := rounds
	for code, p := range paid {
		for _, free := range []bool{!p, false} {
			i++
			got := s[0].Place(t.Context(), []orders.Request{{Buyer: buyer(i), Cart: cart(product, 1), Coupon: code}})[0]
			if free && got.Err != nil || !free && !errors.Is(got.Err, orders.ErrCouponSpent) {
				t.Errorf("a coupon whose order was paid: %v: %v", p, got.Err)
			}
		}
	}
}

// payAndCancel has two sweepers and a payment come to the order at the same time.
func payAndCancel(t *testing.T, s [2]orders.Store, o orders.Order, round int) (begun bool, cancelled int64) {
	t.Helper()
	var n atomic.Int64
	together(3, func(i int) {
		if i != round%3 { // whoever starts last is often first
			cancelled, err := s[i%2].CancelUnpaid(t.Context(), aMinuteAhead, 10)
			if err != nil {
				t.Errorf("sweep: %v", err)
			}
			n.Add(int64(cancelled))
			return
		}
		_, err := s[i%2].BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "card")
		if err != nil && !errors.Is(err, orders.ErrOrderState) {
			t.Errorf("begin: %v", err)
		}
		begun = err == nil
	})
	return begun, n.Load()
}

func unsettledIsClaimedOnce(t *testing.T, db Database) {
	const unknown = 60
	s := two(t, db)
	product := addProduct(t, s[0], orders.Product{Price: 5, Stock: unknown})
	for n := range unknown {
		begin(t, s[0], place(t, s[0], buyer(n), cart(product, 1)))
	}
	db.Elapse(t, time.Hour)
	var mu sync.Mutex
	claims := map[string]int{} // guarded by mu
	together(4, func(i int) {
		for misses := 0; misses < 20 && !t.Failed(); {
			due, err := s[i%2].UnsettledPayments(t.Context(), time.Minute, 7)
			if err != nil {
				t.Errorf("claim: %v", err)
				return
			}
			if len(due) == 0 {
				misses++
			}
			mu.Lock()
			for _, p := range due {
				if claims[p.Key()]++; claims[p.Key()] > 1 {
					t.Errorf("%s was claimed again", p.Key())
				}
			}
			mu.Unlock()
		}
	})
	if len(claims) != unknown {
		t.Errorf("%d claimed of %d", len(claims), unknown)
	}
}
