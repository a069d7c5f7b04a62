package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// ByToken finds the order that a token made.
func (s *Store) ByToken(ctx context.Context, tokenID string) (orders.Order, error) {
	return s.find(ctx, "o.token_id = ?", tokenID)
}

// Order finds an order by its id.
func (s *Store) Order(ctx context.Context, id string) (orders.Order, error) {
	return s.find(ctx, "o.id = ?", id)
}

// orderItemRow is one item with the order it belongs to.
type orderItemRow struct {
	ID         string
	TokenID    string
	Visitor    string
	Line       string
	State      orders.State
	CouponCode string
	Discount   int64
	Total      int64
	CreatedAt  int64
	PaidAt     *int64
	ProductID  int64
	Name       string
	ImageURL   string
	Quantity   int64
	UnitPrice  int64
}

func (s *Store) find(ctx context.Context, where, key string) (orders.Order, error) {
	found, err := ordersWhere(s.side.WithContext(ctx), where, key)
	if err != nil {
		return orders.Order{}, s.outward("read an order", err)
	}
	if len(found) == 0 {
		return orders.Order{}, orders.ErrOrderNotFound
	}
	return found[0], nil
}

// ordersWhere reads orders with their items in one statement, so that it needs no
// transaction to see both as of the same moment.
func ordersWhere(db *gorm.DB, where string, args ...any) (found []orders.Order, err error) {
	rows, err := read(db, "SELECT o.id, o.token_id, o.visitor, o.line, o.state, o.coupon_code, o.discount, o.total,"+
		" o.created_at, o.paid_at, i.product_id, i.name, i.image_url, i.quantity, i.unit_price"+
		" FROM orders o JOIN order_items i ON i.order_id = o.id"+
		" WHERE "+where+" ORDER BY o.id, i.seq", args,
		func(r *orderItemRow) []any {
			return []any{
				&r.ID, &r.TokenID, &r.Visitor, &r.Line, &r.State, &r.CouponCode, &r.Discount, &r.Total,
				&r.CreatedAt, &r.PaidAt, &r.ProductID, &r.Name, &r.ImageURL, &r.Quantity, &r.UnitPrice,
			}
		})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if len(found) == 0 || found[len(found)-1].ID != r.ID {
			found = append(found, r.order())
		}
		o := &found[len(found)-1]
		o.Items = append(o.Items, orders.Item{
			ProductID: r.ProductID, Name: r.Name, ImageURL: r.ImageURL,
			Quantity: r.Quantity, UnitPrice: r.UnitPrice,
		})
	}
	return found, nil
}

// order is the order without its items.
func (r orderItemRow) order() orders.Order {
	o := orders.Order{
		ID:        r.ID,
		Buyer:     orders.Buyer{TokenID: r.TokenID, Visitor: r.Visitor, Line: r.Line},
		State:     r.State,
		Coupon:    r.CouponCode,
		Discount:  r.Discount,
		Total:     r.Total,
		CreatedAt: time.UnixMilli(r.CreatedAt).UTC(),
	}
	if r.PaidAt != nil {
		o.PaidAt = time.UnixMilli(*r.PaidAt).UTC()
	}
	return o
}

// Products lists every product in id order.
func (s *Store) Products(ctx context.Context) ([]orders.Product, error) {
	products := []orders.Product{} // never nil: an empty shop is a reading too
	err := s.upkeep.WithContext(ctx).
		Raw("SELECT id, name, brand, price, stock, image_url, line FROM products ORDER BY id").
		Scan(&products).Error
	return products, s.outward("read the products", err)
}

// AddProduct stores a new product and returns its id.
func (s *Store) AddProduct(ctx context.Context, p orders.Product) (int64, error) {
	row := newProduct{Product: p}
	row.ID = 0
	err := s.transact(ctx, s.side, 0, func(tx *gorm.DB) error {
		return tx.Table("products").Create(&row).Error
	})
	return row.ID, s.outward("add a product", err)
}

// newProduct is a products row as it is written.
type newProduct struct {
	orders.Product
	CreatedAt int64 `gorm:"autoCreateTime:milli"`
}

// Summary adds up all orders, in one statement so that its figures are of one
// moment.
func (s *Store) Summary(ctx context.Context) (orders.Summary, error) {
	var rows []struct {
		State  orders.State
		Orders int64
		Pieces int64
		Total  int64
	}
	err := s.side.WithContext(ctx).
		Raw("SELECT state, COUNT(*) AS orders, SUM(pieces) AS pieces, SUM(total) AS total FROM orders GROUP BY state").
		Scan(&rows).Error
	sum := orders.Summary{ByState: make(map[orders.State]int64, len(rows))}
	for _, r := range rows {
		sum.Orders += r.Orders
		sum.ByState[r.State] = r.Orders
		if r.State != orders.Cancelled {
			sum.ItemsSold += r.Pieces
			sum.Revenue += r.Total
		}
	}
	return sum, s.outward("add up the orders", err)
}
