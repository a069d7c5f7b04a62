package orders

import (
	"time"

	"golang.org/x/sync/singleflight"
)

// reads keep one token from holding the connections that everybody's reads and payments
// share: of each it has one read under way, however often it asks and whatever orders it
// names. The zero value is ready.
type reads struct{ byToken singleflight.Group }

// read finds the order that goes by this id, or by the token alone where the id is
// empty, as of now or later: whoever has just paid must not be told of before. find is to
// end by itself; whoever asked first does not end it for the others.
func (rs *reads) read(tokenID, id string, find func() (Order, error)) (Order, error) {
	type told struct {
		order Order
		about string
		begun time.Time
	}
	for asked := time.Now(); ; {
		v, err, _ := rs.byToken.Do(tokenID, func() (any, error) {
			begun := time.Now()
			order, err := find()
			return told{order, id, begun}, err
		})
		switch found := v.(told); {
		case found.about != id:
			return Order{}, ErrOverloaded
		case !found.begun.Before(asked):
			return found.order, err
		}
	}
}
