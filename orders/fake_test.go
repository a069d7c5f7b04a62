package orders

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeStore is a store in memory that can be away or slow.
type fakeStore struct {
	Store // what is not faked panics

	mu       sync.Mutex
	products []Product
	orders   map[string]Order // by token
	soldOut  map[int64]bool   // products; the others have no end
	places   int              // requests that Place was called with
	groups   []int            // how many at a time
	placing  map[string]int   // requests under way, by token
	unpaid   int
	ages     []time.Duration // that CancelUnpaid was called with
	away     bool
	reads    int
	takes    time.Duration
	delay    time.Duration
	coupons  fakeCoupons
}

func (f *fakeStore) do(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func (f *fakeStore) failing() error {
	if f.away {
		return ErrDatabase
	}
	return nil
}

func (f *fakeStore) Place(ctx context.Context, group []Request) []Placed {
	f.do(func() {
		f.groups = append(f.groups, len(group))
		for _, r := range group {
			f.places++
			if f.placing == nil {
				f.placing = map[string]int{}
			}
			if f.placing[r.Buyer.TokenID]++; f.placing[r.Buyer.TokenID] > 1 {
				panic("two orders of one token at once")
			}
		}
	})
	time.Sleep(f.takes)
	placed := make([]Placed, len(group))
	for i, r := range group {
		o, created, err := f.placeOne(ctx, r)
		placed[i] = Placed{o, created, err}
	}
	return placed
}

func (f *fakeStore) placeOne(ctx context.Context, r Request) (Order, bool, error) {
	b, cart := r.Buyer, r.Cart
	f.mu.Lock()
	defer f.mu.Unlock()
	f.placing[b.TokenID]--
	if err := cmp.Or(ctx.Err(), f.failing()); err != nil {
		return Order{}, false, err
	}
	if o, ok := f.orders[b.TokenID]; ok {
		if !o.Means(r) {
			return Order{}, false, ErrTokenSpent
		}
		return o, false, nil
	}
	o := Order{ID: "order of " + b.TokenID, Buyer: b, State: Pending}
	for _, item := range cart {
		if f.soldOut[item.ProductID] {
			return Order{}, false, ErrSoldOut
		}
		o.Items = append(o.Items, Item{ProductID: item.ProductID, Quantity: item.Quantity})
	}
	if f.orders == nil {
		f.orders = map[string]Order{}
	}
	f.orders[b.TokenID] = o
	return o, true, nil
}

func (f *fakeStore) ByToken(_ context.Context, token string) (Order, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok := f.orders[token]; ok {
		return o, nil
	}
	return Order{}, ErrOrderNotFound
}

func (f *fakeStore) Order(_ context.Context, id string) (Order, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for o := range maps.Values(f.orders) {
		if o.ID == id {
			return o, nil
		}
	}
	return Order{}, ErrOrderNotFound
}

func (f *fakeStore) Products(context.Context) ([]Product, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return slices.Clone(f.products), f.failing()
}

func (f *fakeStore) AddProduct(_ context.Context, p Product) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.ID = int64(len(f.products) + 1)
	f.products = append(f.products, p)
	return p.ID, f.failing()
}

func (f *fakeStore) CancelUnpaid(_ context.Context, age time.Duration, limit int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ages = append(f.ages, age)
	n := min(limit, f.unpaid)
	f.unpaid -= n
	return n, f.failing()
}

func (f *fakeStore) Ping(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing()
}

func (f *fakeStore) SetTestDelay(d time.Duration) { f.delay = d }

// running is a service inside a synctest bubble.
func running(t *testing.T, f *fakeStore, change func(*Options)) (s *Service, stop func()) {
	t.Helper()
	opts := DefaultOptions()
	if change != nil {
		change(&opts)
	}
	s, err := NewService(f, opts, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	synctest.Wait()
	return s, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

var (
	someone  = Buyer{TokenID: "token", Visitor: "visitor", Line: "default"}
	oneLamp  = []CartItem{{ProductID: 1, Quantity: 1}}
	twoLamps = []CartItem{{ProductID: 1, Quantity: 2}}
)
