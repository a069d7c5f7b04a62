package sqlstore

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/orders"
)

// shop is a model of the database that serves one request after the other, the simple
// way: it tries each on a copy of itself, and keeps the copy if all went well.
type shop struct {
	products map[int64]product
	claims   map[string]claim
	orders   map[string]orders.Order // by token
}

func (s shop) clone() shop {
	return shop{maps.Clone(s.products), maps.Clone(s.claims), maps.Clone(s.orders)}
}

func (s *shop) serve(a ask) orders.Placed {
	if o, ok := s.orders[a.Buyer.TokenID]; ok {
		if o.Means(a.Request) {
			return orders.Placed{Order: o, Created: o.ID == a.id}
		}
		return orders.Placed{Err: orders.ErrTokenSpent}
	}
	after := s.clone()
	o, err := after.buy(a)
	if err != nil {
		return orders.Placed{Err: err}
	}
	*s = after
	return orders.Placed{Order: o, Created: true}
}

func (s *shop) buy(a ask) (orders.Order, error) {
	o := orders.Order{ID: a.id, Buyer: a.Buyer, State: orders.Pending, Coupon: a.Coupon, CreatedAt: atNoon}
	for _, want := range a.Cart {
		p, ok := s.products[want.ProductID]
		if !ok {
			return o, orders.ErrProductNotFound
		}
		if p.Line != "" && p.Line != a.Buyer.Line {
			return o, orders.ErrOtherLine
		}
		p.Stock -= want.Quantity
		if p.Stock < 0 {
			return o, orders.ErrSoldOut
		}
		s.products[p.ID] = p
		o.Items = append(o.Items, orders.Item{
			ProductID: p.ID, Name: p.Name, ImageURL: p.ImageURL, Quantity: want.Quantity, UnitPrice: p.Price,
		})
		o.Total += want.Quantity * p.Price
	}
	if a.Coupon != "" {
		c, ok := s.claims[a.Coupon]
		if !ok {
			return o, orders.ErrCouponInvalid
		}
		if c.Line != "" && c.Line != a.Buyer.Line {
			return o, orders.ErrOtherLine
		}
		if c.OrderID != nil {
			return o, orders.ErrCouponSpent
		}
		c.OrderID = &o.ID
		s.claims[a.Coupon] = c
		o.Discount = c.Discount
		if o.Discount > o.Total {
			o.Discount = o.Total
		}
		o.Total -= o.Discount
	}
	s.orders[a.Buyer.TokenID] = o
	return o, nil
}

// found is the shop as a group reads it.
func (s shop) found() found {
	s = s.clone()
	now := found{at: atNoon, products: s.products, claims: s.claims, orders: map[string]*orders.Order{}}
	for token, o := range s.orders {
		now.orders[token] = &o
	}
	return now
}

var (
	atNoon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	lines  = rapid.SampledFrom([]string{"", "default", "vip"})

	anyProduct = rapid.Custom(func(t *rapid.T) product {
		return product{
			Name: "Lamp", ImageURL: "/lamp.png",
			Price: rapid.Int64Range(0, 20).Draw(t, "price"),
			Stock: rapid.Int64Range(0, 8).Draw(t, "stock"),
			Line:  lines.Draw(t, "line"),
		}
	})
	anyItem = rapid.Custom(func(t *rapid.T) orders.CartItem {
		return orders.CartItem{
			ProductID: rapid.Int64Range(1, 5).Draw(t, "product"), // the last does not exist
			Quantity:  rapid.Int64Range(1, 4).Draw(t, "quantity"),
		}
	})
	anyRequest = rapid.Custom(func(t *rapid.T) orders.Request {
		return orders.Request{
			Buyer: orders.Buyer{
				TokenID: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "token"),
				Line:    rapid.SampledFrom([]string{"default", "vip"}).Draw(t, "line"),
			},
			Cart:   rapid.SliceOfNDistinct(anyItem, 1, 3, func(i orders.CartItem) int64 { return i.ProductID }).Draw(t, "cart"),
			Coupon: rapid.SampledFrom([]string{"", "", "1", "2", "none"}).Draw(t, "coupon"),
		}
	})
)

func anyShop(t *rapid.T) shop {
	s := shop{map[int64]product{}, map[string]claim{}, map[string]orders.Order{}}
	for id := range int64(4) {
		p := anyProduct.Draw(t, "product")
		p.ID = id + 1
		s.products[p.ID] = p
	}
	for _, code := range []string{"1", "2"} {
		s.claims[code] = claim{Code: code, Discount: rapid.Int64Range(0, 60).Draw(t, "discount"), Line: lines.Draw(t, "line")}
	}
	return s
}

// TestSellServesOneAfterTheOther has groups served one after the other, some requests
// again as after a commit that was not heard, and holds each answer and each order to
// be written against the model's.
func TestSellServesOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := anyShop(t)
		var earlier []ask
		for round := range 3 {
			var asks []ask
			for n, r := range rapid.SliceOfN(anyRequest, 0, 8).Draw(t, "group") {
				asks = append(asks, ask{r, fmt.Sprintf("%d-%d", round, n)})
			}
			if len(earlier) > 0 && rapid.Bool().Draw(t, "unheard") {
				asks = append(asks, rapid.SampledFrom(earlier).Draw(t, "again"))
			}
			before, now := model.found(), model.found()
			placed, made := sell(asks, now)
			if !reflect.DeepEqual(now, before) {
				t.Fatalf("what was found has changed: %+v, was %+v", now, before)
			}
			var written []*orders.Order
			for i, a := range asks {
				_, known := model.orders[a.Buyer.TokenID]
				want := model.serve(a)
				if !errors.Is(placed[i].Err, want.Err) || (placed[i].Err == nil) != (want.Err == nil) {
					t.Fatalf("%+v: error %v, want %v", a, placed[i].Err, want.Err)
				}
				want.Err, placed[i].Err = nil, nil
				if !reflect.DeepEqual(placed[i], want) {
					t.Fatalf("%+v:\n%+v, want\n%+v", a, placed[i], want)
				}
				if !known && want.Created {
					written = append(written, &want.Order)
				}
			}
			if !reflect.DeepEqual(made, written) {
				t.Fatalf("to be written %+v, want %+v", made, written)
			}
			for _, a := range taken(made) {
				if left := before.products[a.ID].Stock - a.Quantity; left != model.products[a.ID].Stock {
					t.Fatalf("product %d: %d left, want %d", a.ID, left, model.products[a.ID].Stock)
				}
			}
			earlier = append(earlier, asks...)
		}
	})
}
