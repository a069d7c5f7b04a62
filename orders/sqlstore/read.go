package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// ByToken finds the order that a token made.
func (s *Store) ByToken(ctx context.Context, tokenID string) (orders.Order, error) {
	return s.find(ctx, s.side, "o.token_id = ?", tokenID)
}

// Order finds an order by its id.
func (s *Store) Order(ctx context.Context, id string) (orders.Order, error) {
	return s.find(ctx, s.side, "o.id = ?", id)
}

// orderItemRow is one item with the order it belongs to.
type orderItemRow struct {
	ID        string
	TokenID   string
	Visitor   string
	Line      string
	State     orders.State
	Discount  int64
	Total     int64
	CreatedAt int64
	ProductID int64
	Name      string
	ImageURL  string
	Quantity  int64
	UnitPrice int64
}

// find reads an order with its items in one statement, so that it can be done
// outside a transaction.
func (s *Store) find(ctx context.Context, db *gorm.DB, where, key string) (orders.Order, error) {
	var rows []orderItemRow
	err := db.WithContext(ctx).Raw("SELECT o.id, o.token_id, o.visitor, o.line, o.state, o.discount, o.total, o.created_at,"+
		" i.product_id, i.name, i.image_url, i.quantity, i.unit_price"+
		" FROM orders o JOIN order_items i ON i.order_id = o.id"+
		" WHERE "+where+" ORDER BY i.seq", key).Scan(&rows).Error
	if err != nil {
		return orders.Order{}, s.outward("read an order", err)
	}
	if len(rows) == 0 {
		return orders.Order{}, orders.ErrOrderNotFound
	}
	r := rows[0]
	order := orders.Order{
		ID:        r.ID,
		Buyer:     orders.Buyer{TokenID: r.TokenID, Visitor: r.Visitor, Line: r.Line},
		State:     r.State,
		Items:     make([]orders.Item, len(rows)),
		Discount:  r.Discount,
		Total:     r.Total,
		CreatedAt: time.UnixMilli(r.CreatedAt).UTC(),
	}
	for i, r := range rows {
		order.Items[i] = orders.Item{
			ProductID: r.ProductID, Name: r.Name, ImageURL: r.ImageURL,
			Quantity: r.Quantity, UnitPrice: r.UnitPrice,
		}
	}
	return order, nil
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
