package sqlstore

import (
	"fmt"
	"maps"
	"time"

	"sluice/orders"
)

// found is what the database has when a group holds its locks.
type found struct {
	at       time.Time                // by the database's clock
	products map[int64]product        // by id
	claims   map[string]claim         // by code
	orders   map[string]*orders.Order // made before, by token
}

type product struct {
	ID       int64
	Name     string
	Price    int64
	Stock    int64
	ImageURL string
	Line     string
}

// claim is a coupon that somebody has.
type claim struct {
	Code     string
	Discount int64
	Line     string
	OrderID  *string // that used it
}

// sell answers a group of requests, first come first served, out of what was found;
// made are the orders to be written. It changes nothing that it is given.
func sell(asks []ask, now found) (placed []orders.Placed, made []*orders.Order) {
	s := sale{
		found:   now,
		stock:   make(map[int64]int64, len(now.products)),
		used:    make(map[string]bool, len(now.claims)),
		byToken: make(map[string]*orders.Order, len(asks)),
	}
	for id, p := range now.products {
		s.stock[id] = p.Stock
	}
	maps.Copy(s.byToken, now.orders)
	placed = make([]orders.Placed, len(asks))
	for i, a := range asks {
		p := &placed[i]
		if before, ok := s.byToken[a.Buyer.TokenID]; ok {
			*p = again(a, before)
			continue
		}
		if p.Order, p.Err = s.order(a); p.Err != nil {
			p.Order = orders.Order{}
			continue
		}
		p.Created = true
		s.byToken[a.Buyer.TokenID] = &p.Order
		made = append(made, &p.Order)
	}
	return placed, made
}

// again answers a request whose token has made an order.
func again(a ask, before *orders.Order) orders.Placed {
	if !before.Means(a.Request) {
		return orders.Placed{Err: orders.ErrTokenSpent}
	}
	return orders.Placed{Order: *before, Created: before.ID == a.id}
}

// sale is the state of selling to one after the other.
type sale struct {
	found
	stock   map[int64]int64          // left, by product
	used    map[string]bool          // coupons of this group, by code
	byToken map[string]*orders.Order // of this group and before
}

// order makes the order, or takes nothing.
func (s *sale) order(a ask) (o orders.Order, err error) {
	o = orders.Order{
		ID: a.id, Buyer: a.Buyer, State: orders.Pending, CreatedAt: s.at,
		Items: make([]orders.Item, 0, len(a.Cart)),
	}
	for _, want := range a.Cart {
		if err = s.take(want, a.Buyer.Line); err != nil {
			break
		}
		p := s.products[want.ProductID]
		o.Items = append(o.Items, orders.Item{
			ProductID: p.ID, Name: p.Name, ImageURL: p.ImageURL,
			Quantity: want.Quantity, UnitPrice: p.Price,
		})
		o.Total += p.Price * want.Quantity
	}
	if err == nil && a.Coupon != "" {
		o.Coupon = a.Coupon
		o.Discount, err = s.discount(a, o.Total)
		o.Total -= o.Discount
	}
	if err != nil {
		for _, item := range o.Items {
			s.stock[item.ProductID] += item.Quantity
		}
	}
	return o, err
}

func (s *sale) take(want orders.CartItem, line string) error {
	id := want.ProductID
	p, ok := s.products[id]
	switch {
	case !ok:
		return fmt.Errorf("%w: %d", orders.ErrProductNotFound, id)
	case p.Line != "" && p.Line != line:
		return fmt.Errorf("%w: product %d", orders.ErrOtherLine, id)
	case s.stock[id] < want.Quantity:
		return fmt.Errorf("%w: product %d", orders.ErrSoldOut, id)
	}
	s.stock[id] -= want.Quantity
	return nil
}

// discount uses the coupon, for whatever the items cost at most.
func (s *sale) discount(a ask, items int64) (int64, error) {
	c, ok := s.claims[a.Coupon]
	switch {
	case !ok:
		return 0, orders.ErrCouponInvalid
	case c.Line != "" && c.Line != a.Buyer.Line:
		return 0, fmt.Errorf("%w: the coupon", orders.ErrOtherLine)
	case c.OrderID != nil || s.used[a.Coupon]:
		return 0, orders.ErrCouponSpent
	}
	s.used[a.Coupon] = true
	return min(c.Discount, items), nil
}
