package sqlstore

import (
	"slices"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// lock locks what the group wants to have, and reads it.
func (s *Store) lock(tx *gorm.DB, asks []ask, now *found) error {
	var ids []int64
	var codes []string
	for _, a := range asks {
		for _, item := range a.Cart {
			ids = append(ids, item.ProductID)
		}
		if a.Coupon != "" {
			codes = append(codes, a.Coupon)
		}
	}
	if err := s.lockProducts(tx, distinct(ids), now); err != nil || len(codes) == 0 {
		return err
	}
	return s.lockClaims(tx, distinct(codes), now)
}

// distinct sorts in place.
func distinct[T int64 | string](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *Store) lockProducts(tx *gorm.DB, ids []int64, now *found) error {
	var at int64 // the same in all rows
	rows, err := read(tx, "SELECT id, name, price, stock, image_url, line, "+s.dialect.nowMS+
		" FROM products WHERE id IN ("+numbers(ids)+") ORDER BY id"+s.dialect.forUpdate, nil,
		func(p *product) []any {
			return []any{&p.ID, &p.Name, &p.Price, &p.Stock, &p.ImageURL, &p.Line, &at}
		})
	if err != nil {
		return err
	}
	now.at = time.UnixMilli(at).UTC()
	now.products = make(map[int64]product, len(rows))
	for _, p := range rows {
		now.products[p.ID] = p
	}
	return nil
}

func (s *Store) lockClaims(tx *gorm.DB, codes []string, now *found) error {
	rows, err := read(tx, "SELECT code, discount, line, order_id FROM coupon_claims WHERE code IN ("+
		placeholders(len(codes))+") ORDER BY code"+s.dialect.forUpdate, boxed(codes),
		func(c *claim) []any { return []any{&c.Code, &c.Discount, &c.Line, &c.OrderID} })
	if err != nil {
		return err
	}
	now.claims = make(map[string]claim, len(rows))
	for _, c := range rows {
		now.claims[c.Code] = c
	}
	return nil
}

// lookUp finds the orders that the tokens have made.
func lookUp(tx *gorm.DB, asks []ask, now *found) error {
	tokens := make([]string, len(asks))
	for i, a := range asks {
		tokens[i] = a.Buyer.TokenID
	}
	tokens = distinct(tokens)
	before, err := ordersWhere(tx, "o.token_id IN ("+placeholders(len(tokens))+")", boxed(tokens)...)
	if err != nil {
		return err
	}
	now.orders = make(map[string]*orders.Order, len(before))
	for i := range before {
		now.orders[before[i].Buyer.TokenID] = &before[i]
	}
	return nil
}
