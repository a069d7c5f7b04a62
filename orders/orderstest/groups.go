package orderstest

import (
	"errors"
	"sync/atomic"
	"testing"

	"sluice/orders"
)

// request asks for an order of buyer n.
func request(n int, items []orders.CartItem, coupon ...string) orders.Request {
	r := orders.Request{Buyer: buyer(n), Cart: items}
	if len(coupon) > 0 {
		r.Coupon = coupon[0]
	}
	return r
}

// groupOfMixedFates has every answer there is in one group.
func groupOfMixedFates(t *testing.T, db Database) {
	s := db.Open(t, 2)
	few := addProduct(t, s, orders.Product{Name: "Few", Price: 100, Stock: 5})
	many := addProduct(t, s, orders.Product{Name: "Many", Price: 7, Stock: 100})
	vip := addProduct(t, s, orders.Product{Name: "For others", Stock: 9, Line: "vip"})
	code := codes(t, s, 4, orders.Coupon{Discount: 150})
	others := codes(t, s, 1, orders.Coupon{Discount: 1, Line: "vip"})[0]
	before := place(t, s, buyer(90), cart(many, 2))
	spent := s.Place(t.Context(), []orders.Request{request(91, cart(many, 1), code[3])})[0]
	if spent.Err != nil {
		t.Fatal(spent.Err)
	}
	type fate struct {
		request orders.Request
		want    error
		created bool
		total   int64 // of an order
	}
	fates := []fate{
		{request(1, cart(few, 2)), nil, true, 200},
		{request(2, cart(many, 1, 999, 1)), orders.ErrProductNotFound, false, 0},
		{request(3, cart(many, 1, vip, 1)), orders.ErrOtherLine, false, 0},
		{request(4, cart(many, 3, few, 4)), orders.ErrSoldOut, false, 0}, // and takes none of the many
		{request(1, cart(few, 2)), nil, false, 200},                      // the first again
		{request(1, cart(few, 1)), orders.ErrTokenSpent, false, 0},
		{request(90, cart(many, 2)), nil, false, 14}, // made before this group
		{request(90, cart(few, 1)), orders.ErrTokenSpent, false, 0},
		{request(5, cart(few, 2), code[0]), nil, true, 50},
		{request(6, cart(few, 1), code[0]), orders.ErrCouponSpent, false, 0},
		{request(7, cart(few, 1), code[3]), orders.ErrCouponSpent, false, 0},
		{request(8, cart(few, 1), "no such code"), orders.ErrCouponInvalid, false, 0},
		{request(9, cart(few, 1), others), orders.ErrOtherLine, false, 0},
		{request(10, cart(many, 3), code[1]), nil, true, 0}, // costs nothing, not less
		{request(4, cart(few, 1)), nil, true, 100},          // its refusal has not spent the token
		{request(11, cart(few, 1)), orders.ErrSoldOut, false, 0},
		{request(5, cart(few, 2), code[0]), nil, false, 50},
		{request(5, cart(few, 2)), orders.ErrTokenSpent, false, 0}, // without its coupon
		{request(91, cart(many, 1), code[3]), nil, false, 0},
		{request(8, cart(many, 1), code[2]), nil, true, 0},
	}
	var group []orders.Request
	for _, f := range fates {
		group = append(group, f.request)
	}
	placed := s.Place(t.Context(), group)
	if len(placed) != len(group) {
		t.Fatalf("%d answers to %d requests", len(placed), len(group))
	}
	for i, f := range fates {
		got := placed[i]
		if !errors.Is(got.Err, f.want) || (got.Err == nil) != (f.want == nil) || got.Created != f.created || got.Order.Total != f.total {
			t.Errorf("%d: created %v, total %d, %v; want %+v", i, got.Created, got.Order.Total, got.Err, f)
		}
		if got.Err != nil {
			continue
		}
		if !got.Order.Means(f.request) || got.Order.Buyer != f.request.Buyer {
			t.Errorf("%d: order %+v for %+v", i, got.Order, f.request)
		}
		stored, err := s.ByToken(t.Context(), f.request.Buyer.TokenID)
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		same(t, stored, got.Order)
	}
	if placed[6].Order.ID != before.ID || placed[18].Order.ID != spent.Order.ID {
		t.Errorf("the orders made before are %+v and %+v", placed[6].Order, placed[18].Order)
	}
	if o := placed[13].Order; o.Discount != 21 || o.Coupon != code[1] || !o.PaidAt.IsZero() {
		t.Errorf("an order worth less than its coupon: %+v", o)
	}
	if a, b, c := stock(t, s, few), stock(t, s, many), stock(t, s, vip); a != 0 || b != 93 || c != 9 {
		t.Errorf("stock %d, %d, %d", a, b, c)
	}
	if sum := summary(t, s); sum.Orders != 7 || sum.ItemsSold != 12 || sum.Revenue != 14+200+50+100 {
		t.Errorf("summary %+v", sum)
	}
}

// badOrderStandsAlone has orders in a group that no row can be written with.
func badOrderStandsAlone(t *testing.T, db Database) {
	const buyers = 50
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: 1, Stock: buyers - 5})
	other := addProduct(t, s, orders.Product{Price: 1, Stock: 5})
	code := codes(t, s, 1, orders.Coupon{Discount: 1})[0]
	var group []orders.Request
	for n := range buyers {
		group = append(group, request(n, cart(p, 1)))
	}
	group[17] = request(17, cart(p, 1, other, 0), code) // pieces that are none
	group[42] = request(42, cart(other, -1, p, 1))
	var got int64
	for i, placed := range s.Place(t.Context(), group) {
		switch {
		case i == 17 || i == 42:
			if !errors.Is(placed.Err, orders.ErrDatabase) || placed.Created {
				t.Errorf("the bad one: %+v", placed)
			}
		case got < buyers-5: // in their order, and the bad ones take nothing
			got++
			if placed.Err != nil || !placed.Created {
				t.Errorf("order %d: %+v", i, placed)
			}
		case !errors.Is(placed.Err, orders.ErrSoldOut):
			t.Errorf("order %d: %+v", i, placed)
		}
	}
	if a, b := stock(t, s, p), stock(t, s, other); a != 0 || b != 5 {
		t.Errorf("stock %d and %d", a, b)
	}
	if sum := summary(t, s); sum.Orders != buyers-5 || sum.ItemsSold != buyers-5 {
		t.Errorf("summary %+v", sum)
	}
	// Neither the token nor the coupon of a bad one is spent.
	if placed := s.Place(t.Context(), []orders.Request{request(17, cart(other, 1), code)})[0]; placed.Err != nil || !placed.Created {
		t.Errorf("the bad one, put right: %+v", placed)
	}
}

func groupsForOneProduct(t *testing.T, db Database) {
	const groups, size, pieces = 20, 25, 310
	s := two(t, db)
	p := addProduct(t, s[0], orders.Product{Price: 3, Stock: pieces})
	var sold atomic.Int64
	together(groups, func(g int) {
		var group []orders.Request
		for i := range size {
			group = append(group, request(g*size+i, cart(p, 1)))
		}
		gone := false
		for i, placed := range s[g%2].Place(t.Context(), group) {
			switch {
			case placed.Err == nil && placed.Created:
				sold.Add(1)
				if gone {
					t.Errorf("group %d: order %d came after one that found nothing", g, i)
				}
			case errors.Is(placed.Err, orders.ErrSoldOut):
				gone = true
			default:
				t.Errorf("group %d, order %d: %+v", g, i, placed)
			}
		}
	})
	if left := stock(t, s[0], p); left != 0 || sold.Load() != pieces {
		t.Errorf("%d sold and %d left of %d", sold.Load(), left, pieces)
	}
	if items := piecesOrdered(t, s[0], groups*size)[p]; items != pieces {
		t.Errorf("the orders' items add up to %d", items)
	}
	if sum := summary(t, s[1]); sum.Orders != pieces || sum.ItemsSold != pieces || sum.Revenue != 3*pieces {
		t.Errorf("summary %+v", sum)
	}
}

// groupsForMixedCarts has every group list the same products and the same coupons in
// another order, which deadlocks whoever locks them as listed. A coupon is everybody's:
// the first who uses it has it.
func groupsForMixedCarts(t *testing.T, db Database) {
	const groups, size, products, pieces, coupons = 40, 10, 8, 90, 60
	s := two(t, db)
	var ids []int64
	for range products {
		ids = append(ids, addProduct(t, s[0], orders.Product{Price: 10, Stock: pieces}))
	}
	code := codes(t, s[0], coupons, orders.Coupon{Discount: 3})
	var used [coupons]atomic.Int64
	together(groups, func(g int) {
		var group []orders.Request
		var coupon []int
		for i := range size {
			at, step := g+i, 1
			if g%2 == 0 { // from the other end
				at, step = g+size-i, products-1
			}
			items := cart(ids[at%products], 1, ids[(at+step)%products], 2, ids[(at+2*step)%products], 1)
			group = append(group, request(g*size+i, items, code[at%coupons]))
			coupon = append(coupon, at%coupons)
		}
		for i, placed := range s[g%2].Place(t.Context(), group) {
			switch {
			case placed.Err == nil && placed.Created:
				used[coupon[i]].Add(1)
			case !errors.Is(placed.Err, orders.ErrSoldOut) && !errors.Is(placed.Err, orders.ErrCouponSpent):
				t.Errorf("group %d, order %d: %+v", g, i, placed)
			}
		}
	})
	if n := db.Repeated(); n > groups/4 {
		t.Errorf("%d transactions were repeated", n)
	}
	ordered := piecesOrdered(t, s[0], groups*size)
	for _, id := range ids {
		if left := stock(t, s[0], id); left < 0 || left+ordered[id] != pieces {
			t.Errorf("product %d: %d left and %d ordered of %d", id, left, ordered[id], pieces)
		}
	}
	for i := range used {
		if n := used[i].Load(); n > 1 {
			t.Errorf("coupon %d was used %d times", i, n)
		}
	}
}

// tokensInSeveralGroups has every group repeat all tokens, each twice, while the last
// pieces go: whoever comes second gets the order.
func tokensInSeveralGroups(t *testing.T, db Database) {
	const groups, tokens, rounds = 8, 10, 4
	s := two(t, db)
	for round := range rounds {
		p := addProduct(t, s[0], orders.Product{Stock: tokens})
		var created [tokens]atomic.Int64
		together(groups, func(g int) {
			var group []orders.Request
			for i := range 2 * tokens {
				group = append(group, request(round*tokens+(g+i)%tokens, cart(p, 1)))
			}
			for i, placed := range s[g%2].Place(t.Context(), group) {
				if placed.Err != nil || !placed.Order.Means(group[i]) {
					t.Errorf("group %d, order %d: %+v", g, i, placed)
				}
				if placed.Created {
					created[(g+i)%tokens].Add(1)
				}
			}
		})
		for i := range created {
			if n := created[i].Load(); n != 1 {
				t.Errorf("token %d made %d orders", i, n)
			}
		}
		if left := stock(t, s[0], p); left != 0 {
			t.Errorf("%d left", left)
		}
	}
}

// tokensOfOtherProducts has groups share tokens and no product, so that no lock
// orders them: of each token one order is made, and nobody fails.
func tokensOfOtherProducts(t *testing.T, db Database) {
	const groups, tokens, rounds = 4, 20, 5
	s := two(t, db)
	var ids []int64
	for range groups {
		ids = append(ids, addProduct(t, s[0], orders.Product{Stock: tokens * rounds}))
	}
	var sold atomic.Int64
	for round := range rounds {
		var created [tokens]atomic.Int64
		together(groups, func(g int) {
			var group []orders.Request
			var token []int
			for i := range tokens {
				if g%2 == 0 { // from the other end
					i = tokens - 1 - i
				}
				group = append(group, request(round*tokens+i, cart(ids[g], 1)))
				token = append(token, i)
			}
			for i, placed := range s[g/2].Place(t.Context(), group) {
				switch {
				case placed.Err == nil && placed.Created:
					created[token[i]].Add(1)
					sold.Add(1)
				case !errors.Is(placed.Err, orders.ErrTokenSpent):
					t.Errorf("group %d, order %d: %+v", g, i, placed)
				}
			}
		})
		for i := range created {
			if n := created[i].Load(); n != 1 {
				t.Errorf("round %d: token %d made %d orders", round, i, n)
			}
		}
	}
	if sum := summary(t, s[0]); sum.Orders != sold.Load() || sum.ItemsSold != tokens*rounds {
		t.Errorf("summary %+v, %d acknowledged", sum, sold.Load())
	}
}
