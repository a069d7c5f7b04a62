package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// Options are how the order side works. The zero value of a field is not a
// default: start from [DefaultOptions].
type Options struct {
	// Workers is how many groups of orders are worked on at the same time. The
	// store keeps as many database connections for them.
	Workers int
	// Backlog is how many orders may wait for a worker.
	Backlog int
	// Deadline is how long an order waits for a worker at most.
	Deadline time.Duration
	// PayWithin is how old an unpaid order becomes before it is cancelled and
	// its stock and coupon given back. 0: it is kept for good, for a shop that
	// takes the payments elsewhere.
	PayWithin time.Duration
	// Provider takes the payments. nil: this service takes none, and the next two
	// mean nothing.
	Provider Provider
	// PayTimeout is how long the provider is waited for before a payment counts
	// as unknown and is asked for again in the background.
	PayTimeout time.Duration
	// PaymentsAtOnce is how many payments may be under way; beyond it none is
	// begun. The provider never has more calls of this process.
	PaymentsAtOnce int
	// TestDelay is how long every order sleeps in its transaction before it
	// takes a lock: an experiment. While it is above 0 every order is written
	// alone. Only a delay above 0 can be changed later.
	TestDelay time.Duration
}

// DefaultOptions are the documented defaults.
func DefaultOptions() Options {
	return Options{
		Workers:        10,
		Backlog:        1000,
		Deadline:       10 * time.Second,
		PayWithin:      15 * time.Minute,
		PayTimeout:     10 * time.Second,
		PaymentsAtOnce: 1000,
	}
}

// mostOrders is how many orders are written in one transaction at most.
const mostOrders = 500

const maxTestDelay = time.Minute

// Validate reports every mistake at once.
func (o Options) Validate() error {
	errs := []error{o.pool().Validate()}
	if o.PayWithin != 0 && (o.PayWithin < time.Second || o.PayWithin > 30*24*time.Hour) {
		errs = append(errs, fmt.Errorf("pay_within must be 0 or between 1s and 720h, not %s", o.PayWithin))
	}
	if o.Provider != nil {
		errs = append(errs, o.validatePayments())
	}
	if o.TestDelay < 0 || o.TestDelay > maxTestDelay {
		errs = append(errs, fmt.Errorf("test_delay must be between 0 and %s, not %s", maxTestDelay, o.TestDelay))
	}
	return errors.Join(errs...)
}

func (o Options) validatePayments() error {
	var errs []error
	if o.PayTimeout <= 0 || o.PayTimeout > 10*time.Minute {
		errs = append(errs, fmt.Errorf("pay_timeout must be above 0 and at most 10m, not %s", o.PayTimeout))
	}
	if o.PaymentsAtOnce < 1 || o.PaymentsAtOnce > 100_000 {
		errs = append(errs, fmt.Errorf("payments_at_once must be between 1 and 100000, not %d", o.PaymentsAtOnce))
	}
	return errors.Join(errs...)
}

func (o Options) pool() PoolOptions {
	return PoolOptions{Workers: o.Workers, Backlog: o.Backlog, Deadline: o.Deadline}
}

// sideTimeout bounds what does not pass through the pool: reads of one order,
// of the catalogue, of the summary.
const sideTimeout = 5 * time.Second

// Service is the order side: it checks what is asked for, sends orders through
// the pool, and keeps the catalogue and the unpaid orders in order. Reads do
// not pass through the pool, and the store answers them on connections of
// their own, so that they stay quick while orders are slow.
type Service struct {
	store     Store
	opts      Options
	pool      *Pool
	places    *work
	flights   flights
	reads     reads
	claims    *work
	claiming  singleflight.Group
	tried     tried
	catalog   *catalog
	sweeper   *sweeper  // nil: unpaid orders are kept
	payments  *payments // nil: none are taken
	testDelay delay
	issuer    Issuer // nil: the database alone gives coupons out
	arrived   func(Buyer)
	committed func(Buyer)
}

// NewService checks the options; it starts nothing. The store stays the
// caller's to close, after Run has returned.
func NewService(store Store, opts Options, log *slog.Logger) (*Service, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("order options: %w", err)
	}
	pool, err := NewPool(opts.pool(), log)
	if err != nil {
		return nil, err
	}
	s := &Service{
		store:     store,
		opts:      opts,
		pool:      pool,
		catalog:   newCatalog(store, log),
		arrived:   func(Buyer) {},
		committed: func(Buyer) {},
	}
	if opts.PayWithin > 0 {
		s.sweeper = &sweeper{store: store, age: opts.PayWithin, log: log}
	}
	if opts.Provider != nil {
		s.payments = newPayments(store, opts, log)
	}
	s.places = &work{most: mostOrders, do: s.place}
	s.claims = &work{most: mostClaims, do: s.claim}
	s.setTestDelay(opts.TestDelay)
	return s, nil
}

// OnArrived names a function that is called with the buyer of every attempt at an
// order, before it waits for a worker and whatever comes of it, on the buyer's
// request path: it must not block. Of attempts with one token at the same time
// only the one at work counts; one that is made again is told again. Call
// OnArrived before Run.
func (s *Service) OnArrived(fn func(Buyer)) { s.arrived = fn }

// OnCommitted names a function that is called for every committed order that
// [Service.Place] or [Service.Repeat] makes or comes upon, on the buyer's
// request path: it must not block. It is called at least once for an order
// whose buyer asks again, also when the process that made it was killed before
// it could report it; so its receiver must be idempotent. Call OnCommitted
// before Run.
func (s *Service) OnCommitted(fn func(Buyer)) { s.committed = fn }

// Refresh reads the catalogue once. Run does it by itself; called before Run,
// it lets the first request find the products. Errors: [ErrDatabase].
func (s *Service) Refresh(ctx context.Context) error { return s.catalog.refresh(ctx) }

// Stop takes no more orders from now on and refuses those that wait for a
// worker, at once, with [ErrStopping]. Orders under way go on to their end.
// Payments go on for as long as patience says; then their calls of the provider
// are ended, which leaves them unknown, and no more begin. Everything else works
// as before. Run does it when its context ends; a server that drains its
// requests first calls it before that.
func (s *Service) Stop(patience time.Duration) {
	s.pool.Stop()
	if s.payments != nil {
		time.AfterFunc(patience, s.payments.halt)
	}
}

// Run keeps the catalogue fresh, gives unpaid orders back and asks again for
// payments that are not settled until ctx ends; then it stops as [Service.Stop]
// does, begins no more payments and waits for none, waits for the orders under
// way, and returns.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group // its context is not needed: all of them end with ctx
	g.Go(func() error { return s.pool.Run(ctx) })
	g.Go(func() error { return s.catalog.Run(ctx) })
	if s.sweeper != nil {
		g.Go(func() error { return s.sweeper.Run(ctx) })
	}
	if s.payments != nil {
		g.Go(func() error { return s.payments.Run(ctx) })
	}
	return g.Wait()
}

// Place makes the order, or finds the one that this token has made and that means
// the same; created tells which. Of all that ask with one token at the same time,
// one is at work or in the backlog. The others wait for it, no longer than the
// deadline in all, and share what it comes to if they mean the same; else they find
// the token spent, or try next if it came to nothing.
//
// Errors: [ErrInvalid], [ErrOverloaded], [ErrStopping], and those of
// [Store.Place].
func (s *Service) Place(ctx context.Context, r Request) (order Order, created bool, err error) {
	if err := r.validate(); err != nil {
		return Order{}, false, err
	}
	until := time.Now().Add(s.opts.Deadline)
	for {
		f, mine := s.flights.join(r)
		if mine {
			return s.fly(ctx, until, f)
		}
		if err := f.wait(ctx, until); err != nil {
			s.pool.countRefused()
			return Order{}, false, err
		}
		if order, ok, err := f.answer(r); ok {
			return order, false, err
		}
	}
}

// fly sends an order through the pool and lands its flight.
func (s *Service) fly(ctx context.Context, until time.Time, f *flight) (order Order, created bool, err error) {
	defer s.flights.land(f)
	s.arrived(f.request.Buyer)
	u := &placing{request: f.request}
	if err = s.pool.submit(ctx, until, s.places, u); err == nil {
		order, created, err = u.Order, u.Created, u.Err
	}
	if err == nil || errors.Is(err, ErrTokenSpent) {
		s.committed(f.request.Buyer)
	}
	gaveUp := errors.Is(err, ErrOverloaded) && ctx.Err() != nil
	f.order, f.err, f.known = order, err, !gaveUp
	return order, created, err
}

// placing is an order on its way through the pool.
type placing struct {
	request  Request
	standing standing // once it is done
	Placed
}

func (p *placing) keys() []int64 {
	ids := make([]int64, len(p.request.Cart))
	for i, item := range p.request.Cart {
		ids[i] = item.ProductID
	}
	return ids
}

func (p *placing) counts() standing { return p.standing }

// place has the store write a group of orders.
func (s *Service) place(ctx context.Context, group []unit) {
	requests := make([]Request, len(group))
	for i, u := range group {
		requests[i] = u.(*placing).request
	}
	for i, placed := range s.store.Place(ctx, requests) {
		p := group[i].(*placing)
		p.Placed = placed
		p.standing = s.tried.standing(p.request.Buyer.TokenID, placed.Created, placed.Err)
	}
}

// Repeat answers for a token that may order nothing new any more: with the
// order it made, if the request means the same.
//
// Errors: [ErrInvalid], [ErrTokenSpent] if the order was another, [ErrOrderNotFound]
// if the token made none, [ErrOverloaded] as of [Service.Order], [ErrDatabase].
func (s *Service) Repeat(ctx context.Context, r Request) (Order, error) {
	if err := r.validate(); err != nil {
		return Order{}, err
	}
	order, err := s.reads.read(r.Buyer.TokenID, "", func() (Order, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sideTimeout)
		defer cancel()
		return s.store.ByToken(ctx, r.Buyer.TokenID)
	})
	if err != nil {
		return Order{}, err
	}
	s.committed(r.Buyer)
	if !order.Means(r) {
		return Order{}, ErrTokenSpent
	}
	return order, nil
}

// Order reads an order for the token that made it. Of all that ask with one token at the
// same time one reads, and the others share what it finds; as a token makes one order,
// those who name another meanwhile get [ErrOverloaded].
//
// Errors: [ErrOrderNotFound], [ErrOrderOfAnother], [ErrOverloaded], [ErrDatabase].
func (s *Service) Order(ctx context.Context, b Buyer, id string) (Order, error) {
	order, err := s.reads.read(b.TokenID, id, func() (Order, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sideTimeout)
		defer cancel()
		return s.store.Order(ctx, id)
	})
	if err != nil {
		return Order{}, err
	}
	if order.Buyer.TokenID != b.TokenID {
		return Order{}, ErrOrderOfAnother
	}
	return order, nil
}

// Products lists every product in id order, at most a second old while the
// database answers, and the last ones read while it does not. The caller must
// not change the slice. [ErrDatabase] before the first read.
func (s *Service) Products() ([]Product, error) {
	r, err := s.catalog.read()
	return r.products, err
}

// Product is one of [Service.Products], or [ErrProductNotFound].
func (s *Service) Product(id int64) (Product, error) { return s.catalog.product(id) }

// AddProduct stores a product and returns its id; this process's catalogue has
// it at once. Errors: [ErrInvalid], [ErrDatabase].
func (s *Service) AddProduct(ctx context.Context, p Product) (int64, error) {
	if err := p.validate(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	id, err := s.store.AddProduct(ctx, p)
	if err != nil {
		return 0, err
	}
	// The product is stored whatever comes of this; the next refresh has it.
	_ = s.catalog.refresh(ctx)
	return id, nil
}

// Summary adds up all orders. Errors: [ErrDatabase].
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	return s.store.Summary(ctx)
}

// Ready says whether orders can be taken: the catalogue has been read and the
// database answers.
func (s *Service) Ready(ctx context.Context) error {
	if _, err := s.catalog.read(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	return s.store.Ping(ctx)
}

// DatabaseUp reports whether the database answers, as far as this process knows without
// asking: it reads the catalogue twice a second, also with nobody here. One that stops
// answering is noticed three seconds later at most, one that refuses at once.
func (s *Service) DatabaseUp() bool { return s.catalog.up() }

// PoolStats reads the pool's figures.
func (s *Service) PoolStats() PoolStats { return s.pool.Stats() }
