package sqlstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"sluice/orders"
)

// Place writes a group of orders in one transaction:
//
//  1. lock the products, in id order, as everybody does who changes several;
//  2. lock the coupons that are used, likewise in one order;
//  3. look up the orders that the tokens have made already: after the locks, so that
//     it sees the order of a twin of this request, which had them before;
//  4. give out the stock, in the order of the requests;
//  5. insert the orders and their items, lower the stock, mark the coupons.
//
// Each is one statement however large the group is, and one that nothing asks for is
// left out. The locks decide who gets what. The unique token decides between groups
// that share a token and no product: who comes second starts anew and finds the order.
//
// A lone order is inserted without the look-up of step 3, which saves it a round trip:
// if the token has its order the insert fails, and it starts anew. Only a refusal is
// checked against the look-up before it stands.
func (s *Store) Place(ctx context.Context, group []orders.Request) []orders.Placed {
	pause := time.Duration(s.delay.Load())
	ctx, cancel := context.WithTimeout(ctx, placeTimeout+pause)
	defer cancel()
	asks := make([]ask, len(group))
	for i, r := range group {
		// Its error is that of crypto/rand, which never returns one.
		asks[i] = ask{r, uuid.Must(uuid.NewV7()).String()}
	}
	write := func(asks []ask) ([]orders.Placed, error) { return s.place(ctx, pause, asks) }
	failed := func(err error) orders.Placed { return orders.Placed{Err: s.outward("place an order", err)} }
	return together(s, asks, write, failed)
}

// ask is a request with the id that its order gets. The id stays the same in every
// attempt: an order found under it was made by an attempt whose commit was not heard.
type ask struct {
	orders.Request
	id string
}

func (s *Store) place(ctx context.Context, pause time.Duration, asks []ask) (placed []orders.Placed, err error) {
	lookUpFirst := len(asks) > 1
	err = s.settle(ctx, pause, func(tx *gorm.DB) (err error) {
		placed, err = s.placeOnce(tx, asks, lookUpFirst)
		lookUpFirst = true // in every further attempt
		return err
	})
	return placed, err
}

func (s *Store) placeOnce(tx *gorm.DB, asks []ask, lookUpFirst bool) ([]orders.Placed, error) {
	var now found
	if err := s.lock(tx, asks, &now); err != nil {
		return nil, err
	}
	if lookUpFirst {
		if err := lookUp(tx, asks, &now); err != nil {
			return nil, err
		}
	}
	placed, made := sell(asks, now)
	if !lookUpFirst && len(made) == 0 {
		if err := lookUp(tx, asks, &now); err != nil {
			return nil, err
		}
		placed, made = sell(asks, now)
	}
	if len(made) == 0 {
		return placed, nil
	}
	return placed, s.writeOrders(tx, made)
}
