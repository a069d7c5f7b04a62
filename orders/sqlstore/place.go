package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"sluice/orders"
)

// errTaken means that the token has an order already.
var errTaken = errors.New("the token has its order")

// Place writes an order in one transaction, whose statements are the same for
// one item and for a hundred:
//
//  1. read the products, which takes no lock;
//  2. insert the order: its unique token holds up a twin of this request until
//     this one is over, before either touches the stock;
//  3. insert the items;
//  4. lower the stock where there is enough, all of it in one statement, which
//     locks the rows in the order of the primary key; the product everybody
//     wants is locked last and so for the shortest time.
//
// Nothing rests on what the first statement saw: the unique token and the
// condition of the update decide. A refusal looks the token up once more, after
// the transaction, where no snapshot of the first read can hide its order.
//
// A commit whose outcome is unknown is no acknowledgement: it is reported as
// [orders.ErrDatabase], and the same request again finds the order if there is
// one. The insert waits for a transaction that the server still has open.
func (s *Store) Place(ctx context.Context, group []orders.Request) []orders.Placed {
	placed := make([]orders.Placed, len(group))
	for i, r := range group {
		placed[i].Order, placed[i].Created, placed[i].Err = s.placeOne(ctx, r)
	}
	return placed
}

func (s *Store) placeOne(ctx context.Context, r orders.Request) (orders.Order, bool, error) {
	if r.Coupon != "" {
		return orders.Order{}, false, orders.ErrCouponInvalid
	}
	b, cart := r.Buyer, r.Cart
	pause := time.Duration(s.delay.Load())
	ctx, cancel := context.WithTimeout(ctx, placeTimeout+pause)
	defer cancel()
	id, err := uuid.NewV7()
	if err != nil {
		return orders.Order{}, false, fmt.Errorf("make an order id: %w", err)
	}
	order := orders.Order{ID: id.String(), Buyer: b, State: orders.Pending}
	err = s.transact(ctx, s.workers, pause, func(tx *gorm.DB) error {
		return s.place(tx, &order, cart)
	})
	switch {
	case err == nil:
		return order, true, nil
	case isRefusal(err):
		order, err := s.instead(ctx, r, err)
		return order, false, err
	}
	return orders.Order{}, false, s.outward("place an order", err)
}

func isRefusal(err error) bool {
	return errors.Is(err, errTaken) || errors.Is(err, orders.ErrSoldOut) ||
		errors.Is(err, orders.ErrProductNotFound) || errors.Is(err, orders.ErrOtherLine)
}

// instead answers for a request that is refused: a repetition must get the
// order its token has made, also when there is no stock any more. The token is
// looked up after the refusal, so that an order made in between is seen.
func (s *Store) instead(ctx context.Context, r orders.Request, refusal error) (orders.Order, error) {
	order, err := s.find(ctx, s.workers, "o.token_id = ?", r.Buyer.TokenID)
	switch {
	case errors.Is(err, orders.ErrOrderNotFound) && !errors.Is(refusal, errTaken):
		return orders.Order{}, refusal
	case errors.Is(err, orders.ErrOrderNotFound):
		// Its twin held the token a moment ago and has been rolled back.
		return orders.Order{}, fmt.Errorf("%w: %w", orders.ErrDatabase, refusal)
	case err != nil:
		return orders.Order{}, err
	case !order.Means(r):
		return orders.Order{}, orders.ErrTokenSpent
	}
	return order, nil
}

type productRow struct {
	ID       int64
	Name     string
	Price    int64
	Stock    int64
	ImageURL string
	Line     string
	NowMS    int64 // the database's clock when it was read
}

// place runs the statements of one order and fills it in.
func (s *Store) place(tx *gorm.DB, order *orders.Order, cart []orders.CartItem) error {
	products, err := s.lookUp(tx, cart)
	if err != nil {
		return err
	}
	if err := fill(order, cart, products); err != nil {
		return err
	}
	if err := insertOrder(tx, *order); err != nil {
		if s.dialect.duplicate(err) {
			return errTaken
		}
		return err
	}
	if err := insertItems(tx, *order); err != nil {
		return err
	}
	return takeStock(tx, cart)
}

func (s *Store) lookUp(tx *gorm.DB, cart []orders.CartItem) (map[int64]productRow, error) {
	ids := make([]int64, len(cart))
	for i, item := range cart {
		ids[i] = item.ProductID
	}
	var rows []productRow
	err := tx.Raw("SELECT id, name, price, stock, image_url, line, "+s.dialect.nowMS+" AS now_ms"+
		" FROM products WHERE id IN ?", ids).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	products := make(map[int64]productRow, len(rows))
	for _, p := range rows {
		products[p.ID] = p
	}
	return products, nil
}

// fill works out the order, or refuses it. Stock that is short already is
// refused here: once a product is sold out, those who still come take no lock.
func fill(order *orders.Order, cart []orders.CartItem, products map[int64]productRow) error {
	order.Items = make([]orders.Item, len(cart))
	order.Total = 0
	for i, item := range cart {
		p, ok := products[item.ProductID]
		switch {
		case !ok:
			return fmt.Errorf("%w: %d", orders.ErrProductNotFound, item.ProductID)
		case p.Line != "" && p.Line != order.Buyer.Line:
			return fmt.Errorf("%w: %d", orders.ErrOtherLine, item.ProductID)
		case p.Stock < item.Quantity:
			return orders.ErrSoldOut
		}
		order.Items[i] = orders.Item{
			ProductID: p.ID, Name: p.Name, ImageURL: p.ImageURL,
			Quantity: item.Quantity, UnitPrice: p.Price,
		}
		order.Total += p.Price * item.Quantity
		order.CreatedAt = time.UnixMilli(p.NowMS).UTC()
	}
	return nil
}

func insertOrder(tx *gorm.DB, o orders.Order) error {
	var pieces int64
	for _, item := range o.Items {
		pieces += item.Quantity
	}
	return tx.Exec("INSERT INTO orders"+
		" (id, token_id, visitor, line, state, pieces, discount, total, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.Buyer.TokenID, o.Buyer.Visitor, o.Buyer.Line, string(o.State),
		pieces, o.Discount, o.Total, o.CreatedAt.UnixMilli()).Error
}

func insertItems(tx *gorm.DB, o orders.Order) error {
	const columns = 7
	var sql strings.Builder
	args := make([]any, 0, columns*len(o.Items))
	sql.WriteString("INSERT INTO order_items" +
		" (order_id, seq, product_id, name, image_url, quantity, unit_price) VALUES ")
	for i, item := range o.Items {
		if i > 0 {
			sql.WriteByte(',')
		}
		sql.WriteString("(?,?,?,?,?,?,?)")
		args = append(args, o.ID, i, item.ProductID, item.Name, item.ImageURL, item.Quantity, item.UnitPrice)
	}
	return tx.Exec(sql.String(), args...).Error
}

// takeStock lowers the stock of every product of the cart, or of none: a
// product that is short is not matched, and the caller rolls back.
//
// MySQL locks the rows as it reads them, by the one index the table has, so no
// two such statements wait for each other. An ORDER BY would add nothing: it
// sorts what is locked already.
func takeStock(tx *gorm.DB, cart []orders.CartItem) error {
	amounts := make([]amount, len(cart))
	for i, item := range cart {
		amounts[i] = amount{item.ProductID, item.Quantity}
	}
	n, ids, args := perProduct(amounts)
	result := tx.Exec("UPDATE products SET stock = stock - "+n+
		" WHERE id IN "+ids+" AND stock >= "+n,
		slices.Concat(args.perID, args.ids, args.perID)...)
	if result.Error != nil {
		return result.Error
	}
	if result.RowsAffected != int64(len(cart)) {
		return orders.ErrSoldOut
	}
	return nil
}

// amount is how many pieces of one product.
type amount struct {
	ProductID int64
	Quantity  int64
}

type amountArgs struct{ perID, ids []any }

// perProduct makes the SQL for "the amount of this row's product" and for the
// list of the products, so that one UPDATE serves any number of them.
func perProduct(amounts []amount) (n, ids string, args amountArgs) {
	for _, a := range amounts {
		args.perID = append(args.perID, a.ProductID, a.Quantity)
		args.ids = append(args.ids, a.ProductID)
	}
	n = "CASE id" + strings.Repeat(" WHEN ? THEN ?", len(amounts)) + " END"
	ids = "(?" + strings.Repeat(",?", len(amounts)-1) + ")"
	return n, ids, args
}
