package orders

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrSoldOut means that a product has less stock than was asked for, or that a
	// coupon has been given out. Nothing was written and the token is still good.
	ErrSoldOut = errors.New("orders: sold out")
	// ErrTokenSpent means that the token has already made another order.
	ErrTokenSpent = errors.New("orders: the token has made another order")
	// ErrProductNotFound means that a product does not exist.
	ErrProductNotFound = errors.New("orders: no such product")
	// ErrOrderNotFound means that an order does not exist.
	ErrOrderNotFound = errors.New("orders: no such order")
	// ErrOrderOfAnother means that another token made the order.
	ErrOrderOfAnother = errors.New("orders: the order was made with another token")
	// ErrOtherLine means that a product is sold, or a coupon given, only to
	// visitors of another line.
	ErrOtherLine = errors.New("orders: it belongs to another line")
	// ErrOverloaded means that no worker was free in time; nothing was done.
	ErrOverloaded = errors.New("orders: no worker was free in time")
	// ErrStopping means that the process is stopping; nothing was done.
	ErrStopping = errors.New("orders: the process is stopping; nothing was done")
	// ErrDatabase means that the database did not answer or refused the work.
	// An order may have been committed whose answer was lost; the same request
	// again finds it.
	ErrDatabase = errors.New("orders: the database is unavailable")
	// ErrInvalid means that a request breaks a rule; its text says which.
	ErrInvalid = errors.New("orders: invalid")
	// ErrOrderState means that the order's state does not allow it: a cancelled
	// order cannot be paid.
	ErrOrderState = errors.New("orders: the order's state does not allow this")
)

// Limits on one order.
const (
	MaxItems    = 100
	MaxQuantity = 1000 // of one product
)

// Product is something to buy.
type Product struct {
	ID    int64
	Name  string
	Brand string
	// Price is in the smallest currency unit.
	Price    int64
	Stock    int64
	ImageURL string
	// Line, when set, is the only line whose visitors may buy it.
	Line string
}

// CartItem is what somebody asks for: so many of one product.
type CartItem struct {
	ProductID int64
	Quantity  int64
}

// Buyer is who orders, as the admission token says.
type Buyer struct {
	TokenID string // unique: it makes one order
	Visitor string
	Line    string
}

// Request is an order that somebody asks for.
type Request struct {
	Buyer Buyer
	Cart  []CartItem
	// Coupon is the code of a coupon to use; empty for none.
	Coupon string
}

// Placed is what came of one [Request].
type Placed struct {
	Order Order
	// Created is false for the order that the token had made before.
	Created bool
	// Err is why there is no order.
	Err error
}

// State is where an order stands:
//
//	pending ──▶ payment_unknown ──▶ paid
//	   │           ▲       │
//	   │           └─ declined
//	   ▼                   │
//	cancelled ◀────────────┘
//
// It is payment_unknown from before the provider is asked until its answer is
// stored, so that no order is cancelled whose money may be on its way.
type State string

// The states of an order.
const (
	Pending        State = "pending"
	PaymentUnknown State = "payment_unknown"
	Paid           State = "paid"
	Declined       State = "declined"
	Cancelled      State = "cancelled"
)

// Order is a committed order.
type Order struct {
	ID        string
	Buyer     Buyer
	State     State
	Items     []Item
	Coupon    string // code of the coupon it used; empty for none
	Discount  int64
	Total     int64     // what is to be paid, the discount taken off; at least 0
	CreatedAt time.Time // the database's clock, ms
	PaidAt    time.Time // likewise; zero until it is paid
}

// Item is one product of an order, as it was when it was ordered.
type Item struct {
	ProductID int64
	Name      string
	ImageURL  string
	Quantity  int64
	UnitPrice int64
}

// Summary is what an operator sees of all orders.
type Summary struct {
	Orders    int64
	ItemsSold int64 // of orders that are not cancelled
	Revenue   int64 // of orders that are not cancelled
	ByState   map[State]int64
}

// Store keeps products, orders, coupons and payments. Implementations keep these
// rules:
//
//   - Methods are safe for concurrent use by several processes.
//   - The number of statements of a method does not depend on the number of
//     items, orders or claims it handles.
//   - A database that cannot be reached or gives up is [ErrDatabase]; deadlocks,
//     lock timeouts and refused connections are retried, the whole transaction,
//     with a bound.
type Store interface {
	CouponStore
	PaymentStore

	// Place writes a group of orders in one transaction and answers each, in the
	// order of the requests; stock is given out in that order. One that is refused
	// or cannot be written fails none of the others. Nothing is written for an
	// answer with an error, but [ErrDatabase] may stand for a commit whose answer
	// was lost: the same again finds the order.
	//
	// Errors: [ErrTokenSpent] when the token made an order that means something
	// else, [ErrProductNotFound], [ErrOtherLine], [ErrSoldOut], [ErrCouponInvalid],
	// [ErrCouponSpent].
	Place(ctx context.Context, group []Request) []Placed
	// ByToken finds the order that a token made, or [ErrOrderNotFound].
	ByToken(ctx context.Context, tokenID string) (Order, error)
	// Order finds an order by its id, or [ErrOrderNotFound].
	Order(ctx context.Context, id string) (Order, error)
	// CancelUnpaid cancels up to limit orders that are pending or declined and
	// older than age by the database's clock, and gives their stock and coupons
	// back, each exactly once.
	CancelUnpaid(ctx context.Context, age time.Duration, limit int) (cancelled int, err error)
	// Products lists every product in id order.
	Products(ctx context.Context) ([]Product, error)
	// AddProduct stores a new product and returns its id.
	AddProduct(ctx context.Context, p Product) (int64, error)
	// Summary adds up all orders.
	Summary(ctx context.Context) (Summary, error)
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	// SetTestDelay makes every Place and Claim sleep after BEGIN and before its
	// first locking statement: the slow database of an experiment. 0 ends it.
	SetTestDelay(d time.Duration)
	// Close gives the connections back.
	Close() error
}
