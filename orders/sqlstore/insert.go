package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"sluice/orders"
)

// writeOrders writes new orders and what they took.
func (s *Store) writeOrders(tx *gorm.DB, made []*orders.Order) error {
	err := s.write(tx, insertOrders(made), insertItems(made), useCoupons(made), adding("products", "stock", -1, taken(made)))
	if err != nil && s.dialect.duplicate(err) {
		return fmt.Errorf("%w: %w", errTaken, err) // a token: nothing else here is unique to others
	}
	return err
}

// insertOrders may wait for a group that shares a token and no product. Two that share
// several may even wait for each other; that is one repetition, as it is to come second.
func insertOrders(made []*orders.Order) statement {
	b := newBulk("INSERT INTO orders (id, token_id, visitor, line, state, pieces, discount, total," +
		" created_at, coupon_code) VALUES ")
	for _, o := range made {
		var pieces int64
		for _, item := range o.Items {
			pieces += item.Quantity
		}
		b.id(o.ID)
		b.text(o.Buyer.TokenID)
		b.text(o.Buyer.Visitor)
		b.text(o.Buyer.Line)
		b.text(string(o.State))
		b.number(pieces)
		b.number(o.Discount)
		b.number(o.Total)
		b.number(o.CreatedAt.UnixMilli())
		b.text(o.Coupon)
		b.endRow()
	}
	return b.statement()
}

func insertItems(made []*orders.Order) statement {
	b := newBulk("INSERT INTO order_items (order_id, seq, product_id, name, image_url, quantity, unit_price) VALUES ")
	for _, o := range made {
		for i, item := range o.Items {
			b.id(o.ID)
			b.number(int64(i))
			b.number(item.ProductID)
			b.text(item.Name)
			b.text(item.ImageURL)
			b.number(item.Quantity)
			b.number(item.UnitPrice)
			b.endRow()
		}
	}
	return b.statement()
}

// taken adds up the items of the orders by product, in id order.
func taken(made []*orders.Order) []amount {
	sum := map[int64]int64{}
	for _, o := range made {
		for _, item := range o.Items {
			sum[item.ProductID] += item.Quantity
		}
	}
	amounts := make([]amount, 0, len(sum))
	for id, n := range sum {
		amounts = append(amounts, amount{id, n})
	}
	slices.SortFunc(amounts, func(a, b amount) int { return cmp.Compare(a.ID, b.ID) })
	return amounts
}

// useCoupons notes in the claims which orders used them, if any did.
func useCoupons(made []*orders.Order) statement {
	var cases strings.Builder
	var codes []any
	for _, o := range made {
		if o.Coupon != "" {
			cases.WriteString(" WHEN ? THEN '" + o.ID + "'")
			codes = append(codes, o.Coupon)
		}
	}
	if len(codes) == 0 {
		return statement{}
	}
	return statement{
		sql: "UPDATE coupon_claims SET order_id = CASE code" + cases.String() + " END" +
			" WHERE code IN (" + placeholders(len(codes)) + ")",
		args: slices.Concat(codes, codes), rows: len(codes),
	}
}
