package orderstest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/orders"
)

// together runs fn(0) … fn(n-1) at the same time and waits for all.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// two handles, as two processes would have.
func two(t testing.TB, db Database) [2]orders.Store {
	return [2]orders.Store{db.Open(t, 10), db.Open(t, 10)}
}

func crowdForOneProduct(t *testing.T, db Database) {
	const buyers, pieces = 500, 100
	s := two(t, db)
	p := addProduct(t, s[0], orders.Product{Price: 3, Stock: pieces})
	var sold, refused atomic.Int64
	together(buyers, func(i int) {
		o, created, err := Ask(t.Context(), s[i%2], buyer(i), cart(p, 1))
		switch {
		case err == nil && created && o.Items[0].Quantity == 1:
			sold.Add(1)
		case errors.Is(err, orders.ErrSoldOut):
			refused.Add(1)
		default:
			t.Errorf("buyer %d: created %v, %v", i, created, err)
		}
	})
	if sold.Load() != pieces || refused.Load() != buyers-pieces {
		t.Errorf("%d sold and %d refused, of %d pieces for %d buyers", sold.Load(), refused.Load(), pieces, buyers)
	}
	if left := stock(t, s[0], p); left != 0 {
		t.Errorf("stock %d", left)
	}
	if sum := summary(t, s[1]); sum.Orders != pieces || sum.ItemsSold != pieces || sum.Revenue != 3*pieces {
		t.Errorf("summary %+v", sum)
	}
	if items := piecesOrdered(t, s[0], buyers)[p]; items != pieces {
		t.Errorf("the orders' items add up to %d", items)
	}
}

// piecesOrdered adds up the items of the orders of buyers 0 … n-1.
func piecesOrdered(t testing.TB, s orders.Store, n int) map[int64]int64 {
	t.Helper()
	sum := map[int64]int64{}
	for i := range n {
		o, err := s.ByToken(t.Context(), buyer(i).TokenID)
		if errors.Is(err, orders.ErrOrderNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.State == orders.Cancelled {
			continue
		}
		for _, item := range o.Items {
			sum[item.ProductID] += item.Quantity
		}
	}
	return sum
}

// crowdForMixedCarts has everybody list the same products in another order,
// which deadlocks whoever locks them as listed.
func crowdForMixedCarts(t *testing.T, db Database) {
	const buyers, products, pieces = 200, 8, 150
	s := two(t, db)
	var ids []int64
	for range products {
		ids = append(ids, addProduct(t, s[0], orders.Product{Stock: pieces}))
	}
	var sold atomic.Int64
	together(buyers, func(i int) {
		var items []orders.CartItem
		for k := range 4 { // four products, from another start, up or down
			at := i + k
			if i%2 == 0 {
				at = i + 3 - k
			}
			items = append(items, orders.CartItem{ProductID: ids[at%products], Quantity: int64(1 + k%2)})
		}
		_, created, err := Ask(t.Context(), s[i%2], buyer(i), items)
		switch {
		case err == nil && created:
			sold.Add(1)
		case !errors.Is(err, orders.ErrSoldOut):
			t.Errorf("buyer %d: created %v, %v", i, created, err)
		}
	})
	// Repetitions hide deadlocks; products locked as listed make two for each
	// buyer. On a slow disk somebody may have waited too long.
	if n := db.Repeated(); n > buyers/20 {
		t.Errorf("%d transactions were repeated", n)
	}
	ordered := piecesOrdered(t, s[0], buyers)
	for _, id := range ids {
		if left := stock(t, s[0], id); left < 0 || left+ordered[id] != pieces {
			t.Errorf("product %d: %d left and %d ordered of %d", id, left, ordered[id], pieces)
		}
	}
	if sum := summary(t, s[0]); sum.Orders != sold.Load() {
		t.Errorf("%d orders, %d acknowledged", sum.Orders, sold.Load())
	}
}

func oneTokenManyTimes(t *testing.T, db Database) {
	const times = 50
	s := two(t, db)
	p := addProduct(t, s[0], orders.Product{Stock: 10})
	other := addProduct(t, s[0], orders.Product{Stock: 10})
	var created atomic.Int64
	ids := make([]string, times)
	together(times, func(i int) {
		if i%10 == 9 { // somebody tries to buy more with the same token
			_, made, err := Ask(t.Context(), s[i%2], buyer(1), cart(p, 1, other, 1))
			if made {
				created.Add(1)
			}
			if err != nil && !errors.Is(err, orders.ErrTokenSpent) {
				t.Errorf("another cart: %v", err)
			}
			return
		}
		o, made, err := Ask(t.Context(), s[i%2], buyer(1), cart(p, 1))
		if made {
			created.Add(1)
		}
		if err != nil && !errors.Is(err, orders.ErrTokenSpent) {
			t.Errorf("try %d: %v", i, err)
		}
		ids[i] = o.ID
	})
	if created.Load() != 1 {
		t.Errorf("%d of %d said they created the order", created.Load(), times)
	}
	distinct := map[string]bool{}
	for _, id := range ids {
		if id != "" {
			distinct[id] = true
		}
	}
	if len(distinct) > 1 {
		t.Errorf("%d different orders for one token", len(distinct))
	}
	if sum := summary(t, s[0]); sum.Orders != 1 || stock(t, s[0], p) != 9 {
		t.Errorf("summary %+v, stock %d", sum, stock(t, s[0], p))
	}
}

// oneTokenManyTimesWhileSellingOut has the order itself take the last piece,
// so that each of its twins finds the stock at 0.
func oneTokenManyTimesWhileSellingOut(t *testing.T, db Database) {
	const rounds, times = 5, 20
	s := two(t, db)
	for round := range rounds {
		p := addProduct(t, s[0], orders.Product{Stock: 1})
		var created atomic.Int64
		together(times, func(i int) {
			_, made, err := Ask(t.Context(), s[i%2], buyer(round), cart(p, 1))
			if err != nil {
				t.Errorf("try %d: %v", i, err)
			}
			if made {
				created.Add(1)
			}
		})
		if created.Load() != 1 {
			t.Errorf("%d said they created the order", created.Load())
		}
	}
}

// aMinuteAhead makes every order old enough to cancel, whatever the clock does.
const aMinuteAhead = -time.Minute

func unpaidAreCancelled(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: 5, Stock: 10})
	q := addProduct(t, s, orders.Product{Price: 5, Stock: 10})
	o := place(t, s, buyer(1), cart(p, 2, q, 1))
	place(t, s, buyer(2), cart(p, 3))
	if n, err := s.CancelUnpaid(t.Context(), time.Hour, 10); n != 0 || err != nil {
		t.Fatalf("too early: cancelled %d, %v", n, err)
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 1); n != 1 || err != nil {
		t.Fatalf("cancelled %d, %v, with a limit of 1", n, err)
	}
	if a, b := stock(t, s, p), stock(t, s, q); a != 7 || b != 10 {
		t.Errorf("stock %d and %d: the oldest first", a, b)
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 1 || err != nil {
		t.Fatalf("cancelled %d, %v", n, err)
	}
	if a, b := stock(t, s, p), stock(t, s, q); a != 10 || b != 10 {
		t.Errorf("stock %d and %d", a, b)
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 0 || err != nil {
		t.Errorf("again: cancelled %d, %v", n, err)
	}
	got, err := s.Order(t.Context(), o.ID)
	if err != nil || got.State != orders.Cancelled || len(got.Items) != 2 {
		t.Errorf("order %+v, %v", got, err)
	}
	sum := summary(t, s)
	if sum.Orders != 2 || sum.ItemsSold != 0 || sum.Revenue != 0 || sum.ByState[orders.Cancelled] != 2 {
		t.Errorf("summary %+v", sum)
	}
}

func unpaidAreCancelledOnce(t *testing.T, db Database) {
	const buyers, pieces = 60, 1000
	s := two(t, db)
	p := addProduct(t, s[0], orders.Product{Stock: pieces})
	q := addProduct(t, s[0], orders.Product{Stock: pieces})
	for i := range buyers {
		place(t, s[0], buyer(i), cart(p, 1, q, 2))
	}
	var cancelled atomic.Int64
	together(4, func(i int) {
		for misses := 0; misses < 20; {
			n, err := s[i%2].CancelUnpaid(t.Context(), aMinuteAhead, 7)
			if err != nil {
				t.Errorf("sweep: %v", err)
				return
			}
			cancelled.Add(int64(n))
			if n == 0 {
				misses++
			}
		}
	})
	if cancelled.Load() != buyers {
		t.Errorf("%d cancelled, of %d orders", cancelled.Load(), buyers)
	}
	if a, b := stock(t, s[0], p), stock(t, s[0], q); a != pieces || b != pieces {
		t.Errorf("stock %d and %d of %d", a, b, pieces)
	}
}

func cancelWhileBuying(t *testing.T, db Database) {
	const buyers, pieces = 100, 1000
	s := two(t, db)
	var ids [3]int64
	for i := range ids {
		ids[i] = addProduct(t, s[0], orders.Product{Name: fmt.Sprint("Product ", i), Stock: pieces})
	}
	together(buyers+4, func(i int) {
		if i >= buyers {
			for range 10 {
				if _, err := s[i%2].CancelUnpaid(t.Context(), aMinuteAhead, 5); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
			return
		}
		items := cart(ids[i%3], 1, ids[(i+1)%3], 1)
		if _, created, err := Ask(t.Context(), s[i%2], buyer(i), items); err != nil || !created {
			t.Errorf("buyer %d: created %v, %v", i, created, err)
		}
	})
	ordered := piecesOrdered(t, s[0], buyers)
	for _, id := range ids {
		if left := stock(t, s[0], id); left+ordered[id] != pieces {
			t.Errorf("product %d: %d left and %d ordered of %d", id, left, ordered[id], pieces)
		}
	}
}
