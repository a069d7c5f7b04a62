package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/servicetest"
)

// TestGroupOfAnUnknownCommit loses the commit of a group, or its answer, or the
// connection before it. The group has what makes it hard to say afterwards who got
// what: a token twice, a coupon, the last pieces.
func TestGroupOfAnUnknownCommit(t *testing.T) {
	t.Parallel()
	opts := Options{URL: servicetest.MySQL(t), Workers: 2, Log: discard}
	broken := &network{}
	s := openThrough(t, broken, opts)
	mending := &network{}
	opts.Log = slog.New(mended{slog.DiscardHandler, mending})
	mends := openThrough(t, mending, opts)
	watch := openStore(t, opts, logger.Discard)

	type answer struct {
		created bool
		err     error
	}
	want := []answer{{true, nil}, {true, nil}, {false, nil}, {false, orders.ErrSoldOut}, {true, nil}, {false, orders.ErrSoldOut}}
	prepare := func(name string) (product int64, group []orders.Request) {
		t.Helper()
		product, err := watch.AddProduct(t.Context(), orders.Product{Name: "Lamp", Price: 10, Stock: 3})
		if err != nil {
			t.Fatal(err)
		}
		code := watch.Claim(t.Context(), []orders.ClaimRequest{claimBy("v", aCoupon(t, watch, 1))})[0].Claim.Code
		ask := func(token string, quantity int64, code string) {
			group = append(group, orders.Request{
				Buyer: orders.Buyer{TokenID: name + token}, Coupon: code,
				Cart: []orders.CartItem{{ProductID: product, Quantity: quantity}},
			})
		}
		ask("a", 1, "")
		ask("b", 1, code)
		ask("a", 1, "")
		ask("c", 3, "")
		ask("d", 1, "")
		ask("e", 1, code)
		return product, group
	}
	judge := func(name string, product int64, placed []orders.Placed, want []answer) {
		t.Helper()
		for i, got := range placed {
			if got.Created != want[i].created || !errors.Is(got.Err, want[i].err) || (got.Err == nil) != (want[i].err == nil) {
				t.Errorf("%s: order %d: %+v, want %+v", name, i, got, want[i])
			}
			if got.Err != nil {
				continue
			}
			if o, err := watch.ByToken(t.Context(), got.Order.Buyer.TokenID); err != nil || o.ID != got.Order.ID {
				t.Errorf("%s: order %d: acknowledged %s, found %s, %v", name, i, got.Order.ID, o.ID, err)
			}
		}
		if n := stockPlusItems(t, watch, product); n != 3 {
			t.Errorf("%s: stock and items are %d", name, n)
		}
	}

	for name, f := range map[string]fault{
		"commit lost": commitLost, "commit unheard": commitUnheard, "insert lost": insertLost,
		"unreachable": unreachable, "full": full,
	} {
		// It fails once: nobody notices.
		product, group := prepare(name + " once ")
		mending.fault.Store(int32(f))
		judge(name+" once", product, mends.Place(t.Context(), group), want)

		if f == insertLost { // which mends by itself
			continue
		}
		// It goes on failing: nothing is acknowledged, and the same again gets what
		// became of it.
		product, group = prepare(name)
		broken.fault.Store(int32(f))
		for i, got := range s.Place(t.Context(), group) {
			if got.Created || !errors.Is(got.Err, orders.ErrDatabase) {
				t.Errorf("%s: order %d: %+v", name, i, got)
			}
		}
		broken.fault.Store(int32(none))
		then := append([]answer(nil), want...)
		for i := range then {
			then[i].created = want[i].created && f != commitUnheard
		}
		judge(name+", then well", product, s.Place(t.Context(), group), then)
	}
}

// TestAwayIsNotTheGroupsFault: a server that is not there is not asked again for each
// half of the group.
func TestAwayIsNotTheGroupsFault(t *testing.T) {
	t.Parallel()
	repeated := &repeats{Handler: slog.DiscardHandler}
	opts := Options{URL: servicetest.MySQL(t), Workers: 2, Log: slog.New(repeated)}
	for name, f := range map[string]fault{"unreachable": unreachable, "full": full, "commit lost": commitLost} {
		n := &network{}
		s := openThrough(t, n, opts)
		product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 100})
		if err != nil {
			t.Fatal(err)
		}
		before := repeated.n.Load()
		n.fault.Store(int32(f))
		for _, placed := range s.Place(t.Context(), groupFor(product, name, 16)) {
			if !errors.Is(placed.Err, orders.ErrDatabase) {
				t.Errorf("%s: %+v", name, placed)
			}
		}
		if got := repeated.n.Load() - before; got != maxAttempts-1 {
			t.Errorf("%s: repeated %d times", name, got)
		}
	}
}

// TestGroupTooLargeForAStatement places a group whose items are 30 MB: more than
// MariaDB takes at a time by default, and so much more that it hangs up before it has
// read them.
func TestGroupTooLargeForAStatement(t *testing.T) {
	t.Parallel()
	const size = 150
	s := openStore(t, Options{URL: servicetest.MySQL(t), Workers: 2, Log: discard}, logger.Discard)
	var cart []orders.CartItem
	for range orders.MaxItems {
		id, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: size, ImageURL: "/" + strings.Repeat("x", 1999)})
		if err != nil {
			t.Fatal(err)
		}
		cart = append(cart, orders.CartItem{ProductID: id, Quantity: 1})
	}
	group := groupFor(0, "large", size)
	for i := range group {
		group[i].Cart = cart
	}
	for i, placed := range s.Place(t.Context(), group) {
		if placed.Err != nil || !placed.Created {
			t.Fatalf("order %d: %v", i, placed.Err)
		}
	}
	sum, err := s.Summary(t.Context())
	if err != nil || sum.Orders != size || stockPlusItems(t, s, cart[0].ProductID) != size {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

// groupFor asks for one piece each, for so many tokens of this name.
func groupFor(product int64, name string, size int) []orders.Request {
	group := make([]orders.Request, size)
	for i := range group {
		group[i] = orders.Request{
			Buyer: orders.Buyer{TokenID: fmt.Sprintf("%s-%d", name, i), Visitor: "v", Line: "default"},
			Cart:  []orders.CartItem{{ProductID: product, Quantity: 1}},
		}
	}
	return group
}
