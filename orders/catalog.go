package orders

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// catalogEvery leaves half of the second that a reading may be old for the
// read itself.
const catalogEvery = 500 * time.Millisecond

// catalogStale is the age of the last reading from which the database counts as one
// that does not answer.
const catalogStale = 3 * time.Second

// catalogAgain is how old it is before anybody's request has it read once more:
// whoever makes numbers up must not have the database read for each.
const catalogAgain = 100 * time.Millisecond

// catalog is the products and coupons as they were when last read. A crowd that
// browses reads this and never the database; while that is away, the last
// reading stands.
type catalog struct {
	store   Store
	log     *slog.Logger
	reading sync.Mutex // one reader at a time, so that an older reading never replaces a newer
	latest  atomic.Pointer[reading]
	failed  atomic.Bool // the last reading that ended did

	renewing singleflight.Group
}

// reading is both, in id order.
type reading struct {
	begun    time.Time
	products []Product
	coupons  []Coupon
}

func newCatalog(store Store, log *slog.Logger) *catalog {
	return &catalog{store: store, log: log}
}

// Run reads the database again and again until ctx ends.
func (c *catalog) Run(ctx context.Context) error {
	tick := time.NewTicker(catalogEvery)
	defer tick.Stop()
	away := false
	for {
		err := c.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && !away:
			c.log.Warn("the catalogue cannot be read; the last one stands", "error", err)
		case err == nil && away:
			c.log.Info("the catalogue is read again")
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *catalog) refresh(ctx context.Context) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	begun := time.Now()
	products, err := c.store.Products(ctx)
	var coupons []Coupon
	if err == nil {
		coupons, err = c.store.Coupons(ctx)
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // else it was the caller who gave up
		c.failed.Store(err != nil)
	}
	if err != nil {
		return err
	}
	c.latest.Store(&reading{begun, products, coupons})
	return nil
}

// up reports whether the database answers: by the last reading, and there has been one
// lately, for a database may also not answer at all.
func (c *catalog) up() bool {
	r := c.latest.Load()
	return r != nil && !c.failed.Load() && time.Since(r.begun) < catalogStale
}

// renew returns once the catalogue is of now or later, for somebody who misses something
// in it. Those who miss something at the same time share a reading, and wait for it.
func (c *catalog) renew(ctx context.Context) error {
	for now := time.Now(); ; {
		if r := c.latest.Load(); r != nil && !r.begun.Before(now) {
			return nil
		}
		if _, err, _ := c.renewing.Do("", func() (any, error) { return nil, c.renewOnce(ctx) }); err != nil {
			return err
		}
	}
}

func (c *catalog) renewOnce(ctx context.Context) error {
	if r := c.latest.Load(); r != nil {
		time.Sleep(catalogAgain - time.Since(r.begun))
	}
	return c.refresh(ctx)
}

func (c *catalog) read() (reading, error) {
	if r := c.latest.Load(); r != nil {
		return *r, nil
	}
	return reading{}, ErrDatabase
}

func (c *catalog) product(id int64) (Product, error) {
	r, err := c.read()
	if err != nil {
		return Product{}, err
	}
	i, found := slices.BinarySearchFunc(r.products, id, func(p Product, id int64) int { return cmp.Compare(p.ID, id) })
	if !found {
		return Product{}, ErrProductNotFound
	}
	return r.products[i], nil
}

func (c *catalog) coupon(id int64) (Coupon, error) {
	r, err := c.read()
	if err != nil {
		return Coupon{}, err
	}
	i, found := slices.BinarySearchFunc(r.coupons, id, func(c Coupon, id int64) int { return cmp.Compare(c.ID, id) })
	if !found {
		return Coupon{}, ErrCouponNotFound
	}
	return r.coupons[i], nil
}
