package orders

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// catalogEvery leaves half of the second that a reading may be old for the
// read itself.
const catalogEvery = 500 * time.Millisecond

// catalog is the products as they were when last read. A crowd that browses
// reads this and never the database; while that is away, the last reading
// stands.
type catalog struct {
	store   Store
	log     *slog.Logger
	reading sync.Mutex // one reader at a time, so that an older reading never replaces a newer
	latest  atomic.Pointer[[]Product]
}

func newCatalog(store Store, log *slog.Logger) *catalog {
	return &catalog{store: store, log: log}
}

// Run reads the products again and again until ctx ends.
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
	products, err := c.store.Products(ctx)
	if err != nil {
		return err
	}
	c.latest.Store(&products)
	return nil
}

func (c *catalog) all() ([]Product, error) {
	if p := c.latest.Load(); p != nil {
		return *p, nil
	}
	return nil, ErrDatabase
}

func (c *catalog) one(id int64) (Product, error) {
	all, err := c.all()
	if err != nil {
		return Product{}, err
	}
	i, found := slices.BinarySearchFunc(all, id, func(p Product, id int64) int {
		switch {
		case p.ID < id:
			return -1
		case p.ID > id:
			return 1
		}
		return 0
	})
	if !found {
		return Product{}, ErrProductNotFound
	}
	return all[i], nil
}
