package benchmarks

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"sluice/orders"
	"sluice/orders/sqlstore"
)

// oneByOne is our store, but that each order has a transaction of its own, as
// everybody else writes them: the stock is lowered by an update that says where
// there is enough. A service with a test delay makes no groups; this store sleeps
// none, so that all of its workers write at the same time.
type oneByOne struct {
	*sqlstore.Store
	db *sql.DB
	// last lowers the stock at the end and not at the beginning, so that the row that
	// everybody wants is locked for the shortest time.
	last bool
}

func (s *oneByOne) SetTestDelay(time.Duration) {}

func (s *oneByOne) Place(ctx context.Context, group []orders.Request) []orders.Placed {
	placed := make([]orders.Placed, len(group))
	for i, r := range group {
		placed[i].Order, placed[i].Err = s.place(ctx, r)
		placed[i].Created = placed[i].Err == nil
	}
	return placed
}

// place writes an order of one product. What it does not do, as finding the order
// that a token has made, would only make it slower.
func (s *oneByOne) place(ctx context.Context, r orders.Request) (o orders.Order, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return orders.Order{}, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return orders.Order{}, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	item := orders.Item{ProductID: r.Cart[0].ProductID, Quantity: r.Cart[0].Quantity}
	o = orders.Order{ID: id.String(), Buyer: r.Buyer, State: orders.Pending}
	var now int64
	err = tx.QueryRowContext(ctx, "SELECT name, image_url, price, CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) FROM products WHERE id = ?", item.ProductID).
		Scan(&item.Name, &item.ImageURL, &item.UnitPrice, &now)
	if err != nil {
		return orders.Order{}, err
	}
	o.Items, o.Total, o.CreatedAt = []orders.Item{item}, item.UnitPrice*item.Quantity, time.UnixMilli(now).UTC()
	steps := []func(context.Context, *sql.Tx, orders.Order) error{takeStock, insertOrder}
	if s.last {
		steps = []func(context.Context, *sql.Tx, orders.Order) error{insertOrder, takeStock}
	}
	for _, step := range steps {
		if err := step(ctx, tx, o); err != nil {
			return orders.Order{}, err
		}
	}
	return o, tx.Commit()
}

func takeStock(ctx context.Context, tx *sql.Tx, o orders.Order) error {
	n := o.Items[0].Quantity
	result, err := tx.ExecContext(ctx, "UPDATE products SET stock = stock - ? WHERE id = ? AND stock >= ?", n, o.Items[0].ProductID, n)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return errors.Join(orders.ErrSoldOut, err)
	}
	return nil
}

func insertOrder(ctx context.Context, tx *sql.Tx, o orders.Order) error {
	item := o.Items[0]
	_, err := tx.ExecContext(ctx, "INSERT INTO orders (id, token_id, visitor, line, state, pieces, discount, total, created_at) VALUES (?,?,?,?,?,?,?,?,?)",
		o.ID, o.Buyer.TokenID, o.Buyer.Visitor, o.Buyer.Line, string(o.State), item.Quantity, o.Discount, o.Total, o.CreatedAt.UnixMilli())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO order_items (order_id, seq, product_id, name, image_url, quantity, unit_price) VALUES (?,0,?,?,?,?,?)",
		o.ID, item.ProductID, item.Name, item.ImageURL, item.Quantity, item.UnitPrice)
	return err
}
