// Package orderstest is the contract of [orders.Store] as a test suite, to be
// run on every implementation.
package orderstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/orders"
)

// Database is one empty database of one test's own.
type Database struct {
	// Open returns one more handle on it, as another process would have, which
	// is closed when the test ends.
	Open func(t testing.TB, workers int) orders.Store
	// Statements is how many statements all handles have run so far.
	Statements func() int64
	// Repeated is how many transactions all handles have repeated because the
	// database had rolled them back.
	Repeated func() int64
	// Elapse makes every payment look as if it had been asked for so much longer ago.
	Elapse func(t testing.TB, d time.Duration)
}

// Run runs the whole suite; fresh makes the database of each test.
func Run(t *testing.T, fresh func(t testing.TB) Database) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Database)
	}{
		{"PlacesAnOrder", placesAnOrder},
		{"RepeatsAnOrder", repeatsAnOrder},
		{"RefusalWritesNothing", refusalWritesNothing},
		{"RepeatIsNeverSoldOut", repeatIsNeverSoldOut},
		{"RefusalDoesNotSpendTheToken", refusalDoesNotSpendTheToken},
		{"KeepsWhatItIsGiven", keepsWhatItIsGiven},
		{"FindsNothing", findsNothing},
		{"EndedContext", endedContext},
		{"StatementsDoNotGrow", statementsDoNotGrow},
		{"CrowdForOneProduct", crowdForOneProduct},
		{"CrowdForMixedCarts", crowdForMixedCarts},
		{"OneTokenManyTimes", oneTokenManyTimes},
		{"OneTokenManyTimesWhileSellingOut", oneTokenManyTimesWhileSellingOut},
		{"UnpaidAreCancelled", unpaidAreCancelled},
		{"UnpaidAreCancelledOnce", unpaidAreCancelledOnce},
		{"CancelWhileBuying", cancelWhileBuying},
		{"GroupOfMixedFates", groupOfMixedFates},
		{"BadOrderStandsAlone", badOrderStandsAlone},
		{"GroupsForOneProduct", groupsForOneProduct},
		{"GroupsForMixedCarts", groupsForMixedCarts},
		{"TokensInSeveralGroups", tokensInSeveralGroups},
		{"TokensOfOtherProducts", tokensOfOtherProducts},
		{"CouponsUsedAtOnce", couponsUsedAtOnce},
		{"CouponsComeBack", couponsComeBack},
		{"CancelWhileBuyingWithCoupons", cancelWhileBuyingWithCoupons},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// buyer is a buyer with a token of its own.
func buyer(n int) orders.Buyer {
	return orders.Buyer{TokenID: fmt.Sprintf("token-%d", n), Visitor: fmt.Sprintf("visitor-%d", n), Line: "default"}
}

func cart(quantities ...int64) (items []orders.CartItem) {
	for i := 0; i < len(quantities); i += 2 {
		items = append(items, orders.CartItem{ProductID: quantities[i], Quantity: quantities[i+1]})
	}
	return items
}

func addProduct(t testing.TB, s orders.Store, p orders.Product) int64 {
	t.Helper()
	if p.Name == "" {
		p.Name = "Lamp"
	}
	id, err := s.AddProduct(t.Context(), p)
	if err != nil {
		t.Fatalf("add a product: %v", err)
	}
	return id
}

func stock(t testing.TB, s orders.Store, id int64) int64 {
	t.Helper()
	products, err := s.Products(t.Context())
	if err != nil {
		t.Fatalf("read the products: %v", err)
	}
	for _, p := range products {
		if p.ID == id {
			return p.Stock
		}
	}
	t.Fatalf("product %d is gone", id)
	return 0
}

func summary(t testing.TB, s orders.Store) orders.Summary {
	t.Helper()
	sum, err := s.Summary(t.Context())
	if err != nil {
		t.Fatalf("summary: %v", err)
	}
	return sum
}

// place expects a new order.
func place(t testing.TB, s orders.Store, b orders.Buyer, items []orders.CartItem) orders.Order {
	t.Helper()
	o, created, err := Ask(t.Context(), s, b, items)
	if err != nil || !created {
		t.Fatalf("place %v: created %v, %v", items, created, err)
	}
	return o
}

func placesAnOrder(t *testing.T, db Database) {
	s := db.Open(t, 2)
	lamp := addProduct(t, s, orders.Product{Name: "Lamp", Price: 1000, Stock: 10, ImageURL: "/lamp.png"})
	chair := addProduct(t, s, orders.Product{Name: "Chair", Price: 250, Stock: 3, Line: "default"})
	before := time.Now().Add(-time.Minute)
	made := place(t, s, buyer(1), cart(chair, 3, lamp, 2))

	if made.ID == "" || made.State != orders.Pending || made.Total != 3*250+2*1000 || made.Buyer != buyer(1) {
		t.Errorf("order %+v", made)
	}
	if made.CreatedAt.Before(before) || made.CreatedAt.After(before.Add(2*time.Minute)) || made.CreatedAt.Location() != time.UTC {
		t.Errorf("created at %v", made.CreatedAt)
	}
	want := []orders.Item{
		{ProductID: chair, Name: "Chair", Quantity: 3, UnitPrice: 250},
		{ProductID: lamp, Name: "Lamp", ImageURL: "/lamp.png", Quantity: 2, UnitPrice: 1000},
	}
	if len(made.Items) != 2 || made.Items[0] != want[0] || made.Items[1] != want[1] {
		t.Errorf("items %+v", made.Items)
	}
	if a, b := stock(t, s, lamp), stock(t, s, chair); a != 8 || b != 0 {
		t.Errorf("stock %d and %d", a, b)
	}
	for how, read := range map[string]func() (orders.Order, error){
		"by id":    func() (orders.Order, error) { return s.Order(t.Context(), made.ID) },
		"by token": func() (orders.Order, error) { return s.ByToken(t.Context(), "token-1") },
	} {
		got, err := read()
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		same(t, got, made)
	}
	sum := summary(t, s)
	if sum.Orders != 1 || sum.ItemsSold != 5 || sum.Revenue != 2750 || sum.ByState[orders.Pending] != 1 {
		t.Errorf("summary %+v", sum)
	}
}

func same(t testing.TB, got, want orders.Order) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("order\n%s, want\n%s", g, w)
	}
}

func repeatsAnOrder(t *testing.T, db Database) {
	s := db.Open(t, 2)
	a := addProduct(t, s, orders.Product{Price: 5, Stock: 10})
	b := addProduct(t, s, orders.Product{Price: 7, Stock: 10})
	first := place(t, s, buyer(1), cart(a, 1, b, 2))
	again, created, err := Ask(t.Context(), s, buyer(1), cart(b, 2, a, 1))
	if err != nil || created {
		t.Fatalf("repeat: created %v, %v", created, err)
	}
	same(t, again, first)
	for name, other := range map[string][]orders.CartItem{
		"fewer":           cart(a, 1),
		"other quantity":  cart(a, 1, b, 3),
		"more":            cart(a, 1, b, 2, b+1, 1),
		"unknown product": cart(999, 1),
	} {
		if _, _, err := Ask(t.Context(), s, buyer(1), other); !errors.Is(err, orders.ErrTokenSpent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if sum := summary(t, s); sum.Orders != 1 || sum.ItemsSold != 3 {
		t.Errorf("summary %+v", sum)
	}
}

func refusalWritesNothing(t *testing.T, db Database) {
	s := db.Open(t, 2)
	plenty := addProduct(t, s, orders.Product{Stock: 100})
	scarce := addProduct(t, s, orders.Product{Stock: 2})
	vip := addProduct(t, s, orders.Product{Stock: 5, Line: "vip"})
	for name, c := range map[string]struct {
		items []orders.CartItem
		want  error
	}{
		"unknown":            {cart(plenty, 1, 999, 1), orders.ErrProductNotFound},
		"far unknown":        {cart(1<<62, 1), orders.ErrProductNotFound},
		"other line":         {cart(plenty, 1, vip, 1), orders.ErrOtherLine},
		"sold out":           {cart(scarce, 3), orders.ErrSoldOut},
		"one of several out": {cart(plenty, 1, scarce, 3), orders.ErrSoldOut},
	} {
		if _, created, err := Ask(t.Context(), s, buyer(1), c.items); !errors.Is(err, c.want) || created {
			t.Errorf("%s: created %v, %v", name, created, err)
		}
	}
	if a, b, c := stock(t, s, plenty), stock(t, s, scarce), stock(t, s, vip); a != 100 || b != 2 || c != 5 {
		t.Errorf("stock %d, %d, %d", a, b, c)
	}
	if sum := summary(t, s); sum.Orders != 0 || sum.ItemsSold != 0 {
		t.Errorf("summary %+v", sum)
	}
	if _, err := s.ByToken(t.Context(), "token-1"); !errors.Is(err, orders.ErrOrderNotFound) {
		t.Errorf("by token: %v", err)
	}
	of := buyer(2)
	of.Line = "vip"
	place(t, s, of, cart(vip, 1, plenty, 1))
}

func repeatIsNeverSoldOut(t *testing.T, db Database) {
	s := db.Open(t, 2)
	last := addProduct(t, s, orders.Product{Stock: 1})
	first := place(t, s, buyer(1), cart(last, 1))
	again, created, err := Ask(t.Context(), s, buyer(1), cart(last, 1))
	if err != nil || created {
		t.Fatalf("repeat with nothing left: created %v, %v", created, err)
	}
	same(t, again, first)
	if _, _, err := Ask(t.Context(), s, buyer(2), cart(last, 1)); !errors.Is(err, orders.ErrSoldOut) {
		t.Errorf("another buyer: %v", err)
	}
	other := addProduct(t, s, orders.Product{Stock: 1})
	group := s.Place(t.Context(), []orders.Request{request(1, cart(last, 1)), request(3, cart(other, 1))})
	if group[0].Err != nil || group[0].Created || !group[1].Created {
		t.Fatalf("beside somebody who gets something: %+v", group)
	}
	same(t, group[0].Order, first)
}

func refusalDoesNotSpendTheToken(t *testing.T, db Database) {
	s := db.Open(t, 2)
	none := addProduct(t, s, orders.Product{Stock: 0})
	some := addProduct(t, s, orders.Product{Stock: 1})
	if _, _, err := Ask(t.Context(), s, buyer(1), cart(none, 1)); !errors.Is(err, orders.ErrSoldOut) {
		t.Fatalf("sold out: %v", err)
	}
	place(t, s, buyer(1), cart(some, 1))
}

func keepsWhatItIsGiven(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := orders.Product{
		Name:  strings.Repeat("é", orders.MaxName/2),
		Brand: "🛋️ 'quoted' \"twice\" \\ back ? :name @name",
		Price: orders.MaxPrice, Stock: orders.MaxStock,
		ImageURL: "data:image/" + strings.Repeat("x", orders.MaxImageURL-len("data:image/")),
		Line:     "a-line-of-32-characters-exactly-",
	}
	p.ID = addProduct(t, s, p)
	products, err := s.Products(t.Context())
	if err != nil || len(products) != 1 || products[0] != p {
		t.Fatalf("products %+v, %v", products, err)
	}
	b := orders.Buyer{TokenID: strings.Repeat("t", 128), Visitor: "🛋️'\\?" + strings.Repeat("v", 200), Line: p.Line}
	made := place(t, s, b, cart(p.ID, orders.MaxQuantity))
	if made.Total != orders.MaxPrice*orders.MaxQuantity {
		t.Errorf("total %d", made.Total)
	}
	got, err := s.Order(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, made)
}

func findsNothing(t *testing.T, db Database) {
	s := db.Open(t, 2)
	products, err := s.Products(t.Context())
	if err != nil || products == nil || len(products) != 0 {
		t.Errorf("products %v, %v", products, err)
	}
	for _, id := range []string{"", "x", "' OR 1=1 --", strings.Repeat("long", 10_000), "né", "\xff\xfe", "a\x00b", "?"} {
		if _, err := s.Order(t.Context(), id); !errors.Is(err, orders.ErrOrderNotFound) {
			t.Errorf("order %.10q: %v", id, err)
		}
		if _, err := s.ByToken(t.Context(), id); !errors.Is(err, orders.ErrOrderNotFound) {
			t.Errorf("token %.10q: %v", id, err)
		}
	}
	if sum := summary(t, s); sum.Orders != 0 || sum.ItemsSold != 0 || sum.Revenue != 0 {
		t.Errorf("summary %+v", sum)
	}
	if n, err := s.CancelUnpaid(t.Context(), 0, 10); n != 0 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func endedContext(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Stock: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Ask(ctx, s, buyer(1), cart(p, 1)); !errors.Is(err, orders.ErrDatabase) || !errors.Is(err, context.Canceled) {
		t.Errorf("place: %v", err)
	}
	place(t, s, buyer(1), cart(p, 1))
}

func statementsDoNotGrow(t *testing.T, db Database) {
	const many = 60
	s := db.Open(t, 1)
	var all []orders.CartItem
	for range orders.MaxItems {
		all = append(all, orders.CartItem{ProductID: addProduct(t, s, orders.Product{Price: 1, Stock: 1000}), Quantity: 1})
	}
	code := codes(t, s, 1+many, orders.Coupon{Discount: 1})
	var groups [3][]orders.Request // of buyers of their own, the last with coupons
	for n := range many {
		groups[0] = append(groups[0], request(1000+n, all[n:]))
		groups[1] = append(groups[1], request(2000+n, all[n:]))
		groups[2] = append(groups[2], request(3000+n, all[n:], code[1+n]))
	}
	placing := func(created bool, group ...orders.Request) func() {
		return func() {
			for i, placed := range s.Place(t.Context(), group) {
				if placed.Err != nil || placed.Created != created {
					t.Errorf("order %d of %d: %+v", i, len(group), placed)
				}
			}
		}
	}
	cancelling := func(n int) func() {
		return func() {
			if got, err := s.CancelUnpaid(t.Context(), aMinuteAhead, n); got != n || err != nil {
				t.Errorf("cancelled %d of %d, %v", got, n, err)
			}
		}
	}
	count := func(doing func()) int64 {
		before := db.Statements()
		doing()
		return db.Statements() - before
	}
	for _, c := range []struct { // the later ones need the orders of the first
		name      string
		one, many func()
	}{
		{"an order of many items", placing(true, request(1, all[:1])), placing(true, request(2, all))},
		{"the same again", placing(false, request(1, all[:1])), placing(false, request(2, all))},
		{"a group", placing(true, groups[0][:2]...), placing(true, groups[1]...)},
		{"the same group again", placing(false, groups[0][:2]...), placing(false, groups[1]...)},
		{
			"a group with coupons",
			placing(true, request(3, all[:1]), request(4, all[:1], code[0])),
			placing(true, groups[2]...),
		},
		{
			"a reading",
			func() { _, _ = s.ByToken(t.Context(), "token-1") },
			func() { _, _ = s.ByToken(t.Context(), "token-2") },
		},
	} {
		if one, many := count(c.one), count(c.many); one == 0 || one != many {
			t.Errorf("%s: %d statements for one or two, %d for many", c.name, one, many)
		}
	}
	cancelling(5 + many)() // up to the one with the first coupon
	if one, many := count(cancelling(1)), count(cancelling(many)); one == 0 || one != many {
		t.Errorf("cancel: %d statements for one order with a coupon, %d for many", one, many)
	}
}

// Ask has one order placed, in a group of its own.
func Ask(ctx context.Context, s orders.Store, b orders.Buyer, items []orders.CartItem) (o orders.Order, created bool, err error) {
	p := s.Place(ctx, []orders.Request{{Buyer: b, Cart: items}})[0]
	return p.Order, p.Created, p.Err
}
