package orders

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrSoldOut means that a product has less stock than was asked for.
	// Nothing was written and the token is still good.
	ErrSoldOut = errors.New("orders: sold out")
	// ErrTokenSpent means that the token has already made another order.
	ErrTokenSpent = errors.New("orders: the token has made another order")
	// ErrProductNotFound means that a product does not exist.
	ErrProductNotFound = errors.New("orders: no such product")
	// ErrOrderNotFound means that an order does not exist.
	ErrOrderNotFound = errors.New("orders: no such order")
	// ErrOrderOfAnother means that another token made the order.
	ErrOrderOfAnother = errors.New("orders: the order was made with another token")
	// ErrOtherLine means that a product is sold only to visitors of another line.
	ErrOtherLine = errors.New("orders: the product belongs to another line")
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

// State is where an order stands.
type State string

// The states of an order. Payment is not taken yet: an order is pending until
// it is cancelled for not being paid in time.
const (
	Pending   State = "pending"
	Cancelled State = "cancelled"
)

// Order is a committed order.
type Order struct {
	ID        string
	Buyer     Buyer
	State     State
	Items     []Item
	Discount  int64
	Total     int64
	CreatedAt time.Time // the database's clock, ms
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

// Store keeps products and orders. Implementations keep these rules:
//
//   - Methods are safe for concurrent use by several processes.
//   - The number of statements of a method does not depend on the number of
//     items or orders it handles.
//   - A database that cannot be reached or gives up is [ErrDatabase]; deadlocks
//     and lock timeouts are retried, the whole transaction, with a bound.
type Store interface {
	// Place writes the order or finds the one its token made. created is false
	// for the latter. Nothing is written on an error, but [ErrDatabase] may
	// stand for a commit whose answer was lost: the same again finds the order.
	//
	// Errors: [ErrTokenSpent] when the token made an order of other items,
	// [ErrProductNotFound], [ErrOtherLine], [ErrSoldOut].
	Place(ctx context.Context, b Buyer, cart []CartItem) (o Order, created bool, err error)
	// ByToken finds the order that a token made, or [ErrOrderNotFound].
	ByToken(ctx context.Context, tokenID string) (Order, error)
	// Order finds an order by its id, or [ErrOrderNotFound].
	Order(ctx context.Context, id string) (Order, error)
	// CancelUnpaid cancels up to limit pending orders older than age by the
	// database's clock and gives their stock back, each exactly once.
	CancelUnpaid(ctx context.Context, age time.Duration, limit int) (cancelled int, err error)
	// Products lists every product in id order.
	Products(ctx context.Context) ([]Product, error)
	// AddProduct stores a new product and returns its id.
	AddProduct(ctx context.Context, p Product) (int64, error)
	// Summary adds up all orders.
	Summary(ctx context.Context) (Summary, error)
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	// SetTestDelay makes every Place sleep after BEGIN and before its first
	// locking statement: the slow database of an experiment. 0 ends it.
	SetTestDelay(d time.Duration)
	// Close gives the connections back.
	Close() error
}
