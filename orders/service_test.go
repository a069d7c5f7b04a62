package orders

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
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
	unpaid   int
	away     bool
	reads    int
	takes    time.Duration
	delay    time.Duration
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

func (f *fakeStore) Place(_ context.Context, b Buyer, cart []CartItem) (Order, bool, error) {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok := f.orders[b.TokenID]; ok {
		return o, false, f.failing()
	}
	o := Order{ID: "order of " + b.TokenID, Buyer: b, State: Pending}
	for _, item := range cart {
		o.Items = append(o.Items, Item{ProductID: item.ProductID, Quantity: item.Quantity})
	}
	if f.orders == nil {
		f.orders = map[string]Order{}
	}
	f.orders[b.TokenID] = o
	return o, true, f.failing()
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

func (f *fakeStore) CancelUnpaid(_ context.Context, _ time.Duration, limit int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	someone = Buyer{TokenID: "token", Visitor: "visitor", Line: "default"}
	oneLamp = []CartItem{{ProductID: 1, Quantity: 1}}
)

func TestCartRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) (cart []CartItem) {
		for i := range n {
			cart = append(cart, CartItem{ProductID: int64(i + 1), Quantity: 1})
		}
		return cart
	}
	for name, c := range map[string]struct {
		cart []CartItem
		says string // "" for a good one
	}{
		"nothing":       {nil, "no items"},
		"one":           {oneLamp, ""},
		"the most":      {many(MaxItems), ""},
		"too many":      {many(MaxItems + 1), "at most 100"},
		"none of it":    {[]CartItem{{1, 0}}, "items[0]: quantity"},
		"less":          {[]CartItem{{1, 1}, {2, -5}}, "items[1]: quantity"},
		"most of it":    {[]CartItem{{1, MaxQuantity}}, ""},
		"too much":      {[]CartItem{{1, MaxQuantity + 1}}, "between 1 and 1000"},
		"twice":         {[]CartItem{{1, 1}, {2, 1}, {1, 2}}, "items[2]: product 1"},
		"no product":    {[]CartItem{{0, 1}}, "product_id"},
		"below product": {[]CartItem{{-7, 1}}, "product_id"},
	} {
		b := someone
		b.TokenID = name
		_, _, err := s.Place(t.Context(), b, c.cart)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
		if _, err := s.Repeat(t.Context(), b, c.cart); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s, repeated: %v", name, err)
		}
	}
	for _, b := range []Buyer{{}, {TokenID: strings.Repeat("x", 129)}, {TokenID: "t", Visitor: "\xff"}} {
		if _, _, err := s.Place(t.Context(), b, oneLamp); !errors.Is(err, ErrInvalid) {
			t.Errorf("buyer %+v: %v", b, err)
		}
	}
}

func TestProductRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		product Product
		says    string // "" for a good one
	}{
		"plain":          {Product{Name: "Lamp"}, ""},
		"everything":     {Product{Name: "Lamp", Brand: "B", Price: MaxPrice, Stock: MaxStock, ImageURL: "https://x/y.png", Line: "vip-1"}, ""},
		"data image":     {Product{Name: "Lamp", ImageURL: "data:image/png;base64,AA=="}, ""},
		"path":           {Product{Name: "Lamp", ImageURL: "/x.png"}, ""},
		"no name":        {Product{Name: " \t"}, "name is missing"},
		"long name":      {Product{Name: strings.Repeat("é", 101)}, "name must be"},
		"broken name":    {Product{Name: "a\xff"}, "name must be"},
		"long brand":     {Product{Name: "Lamp", Brand: strings.Repeat("b", 201)}, "brand"},
		"negative price": {Product{Name: "Lamp", Price: -1}, "price"},
		"high price":     {Product{Name: "Lamp", Price: MaxPrice + 1}, "price"},
		"negative stock": {Product{Name: "Lamp", Stock: -1}, "stock"},
		"high stock":     {Product{Name: "Lamp", Stock: MaxStock + 1}, "stock"},
		"script":         {Product{Name: "Lamp", ImageURL: "javascript:alert(1)"}, "image_url"},
		"data page":      {Product{Name: "Lamp", ImageURL: "data:text/html,x"}, "image_url"},
		"long image":     {Product{Name: "Lamp", ImageURL: "/" + strings.Repeat("x", MaxImageURL)}, "image_url"},
		"odd line":       {Product{Name: "Lamp", Line: "VIP"}, "line"},
		"long line":      {Product{Name: "Lamp", Line: strings.Repeat("l", 33)}, "line"},
		"two mistakes":   {Product{Name: "", Price: -1}, "name is missing\nprice"},
	} {
		_, err := s.AddProduct(t.Context(), c.product)
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
	}
}

func TestOptionsRules(t *testing.T) {
	_, err := NewService(&fakeStore{}, Options{PayWithin: -1, TestDelay: -1}, discard)
	for _, word := range []string{"workers", "deadline", "pay_within", "test_delay"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is not named by: %v", word, err)
		}
	}
}

func TestCommittedIsToldOnce(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	var told []Buyer
	s.OnCommitted(func(b Buyer) { told = append(told, b) })
	for range 3 {
		if _, _, err := s.Place(t.Context(), someone, oneLamp); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || told[0] != someone {
		t.Errorf("told %v", told)
	}
}

func TestRepeatAndOrder(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Repeat(t.Context(), someone, oneLamp); !errors.Is(err, ErrOrderNotFound) {
		t.Errorf("repeat of nothing: %v", err)
	}
	made, _, err := s.Place(t.Context(), someone, oneLamp)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.Repeat(t.Context(), someone, oneLamp); err != nil || o.ID != made.ID {
		t.Errorf("repeat: %+v, %v", o, err)
	}
	if _, err := s.Repeat(t.Context(), someone, []CartItem{{1, 2}}); !errors.Is(err, ErrTokenSpent) {
		t.Errorf("another cart: %v", err)
	}
	if o, err := s.Order(t.Context(), someone, made.ID); err != nil || o.ID != made.ID {
		t.Errorf("order: %+v, %v", o, err)
	}
	if _, err := s.Order(t.Context(), Buyer{TokenID: "another"}, made.ID); !errors.Is(err, ErrOrderOfAnother) {
		t.Errorf("order of another: %v", err)
	}
	if _, err := s.Order(t.Context(), someone, "none"); !errors.Is(err, ErrOrderNotFound) {
		t.Errorf("no order: %v", err)
	}
}

func TestReadsDoNotWaitForSlowOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: time.Hour}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		done := make(chan error, 1)
		go func() {
			_, _, err := s.Place(t.Context(), someone, oneLamp)
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, errOrder := s.Order(t.Context(), someone, "none")
		_, errRepeat := s.Repeat(t.Context(), someone, oneLamp)
		_, errProducts := s.Products()
		if !errors.Is(errOrder, ErrOrderNotFound) || !errors.Is(errRepeat, ErrOrderNotFound) || errProducts != nil || time.Since(start) != 0 {
			t.Errorf("%v, %v, %v after %v", errOrder, errRepeat, errProducts, time.Since(start))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop()
	})
}

func TestCatalogueIsAtMostASecondOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{away: true}
		s, stop := running(t, f, nil)
		if _, err := s.Products(); !errors.Is(err, ErrDatabase) {
			t.Errorf("before the first read: %v", err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, ErrDatabase) {
			t.Errorf("ready before the first read: %v", err)
		}
		f.do(func() { f.away, f.products = false, []Product{{ID: 1, Stock: 5}, {ID: 7, Stock: 1}} })
		time.Sleep(time.Second)
		if p, err := s.Product(7); err != nil || p.Stock != 1 {
			t.Errorf("product 7: %+v, %v", p, err)
		}
		for _, id := range []int64{0, 2, 8, -1} {
			if _, err := s.Product(id); !errors.Is(err, ErrProductNotFound) {
				t.Errorf("product %d: %v", id, err)
			}
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("ready: %v", err)
		}
		f.do(func() { f.products[0].Stock = 4; f.reads = 0 })
		time.Sleep(time.Second)
		for range 1000 {
			if p, err := s.Product(1); err != nil || p.Stock != 4 {
				t.Fatalf("product 1: %+v, %v", p, err)
			}
		}
		f.do(func() {
			if f.reads > 3 {
				t.Errorf("%d reads in a second", f.reads)
			}
			f.away = true
		})
		time.Sleep(time.Minute)
		if p, err := s.Product(1); err != nil || p.Stock != 4 {
			t.Errorf("while the database is away: %+v, %v", p, err)
		}
		stop()
	})
}

func TestAddedProductIsThereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t, &fakeStore{}, nil)
		id, err := s.AddProduct(t.Context(), Product{Name: "Lamp", Stock: 3})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := s.Product(id); err != nil || p.Stock != 3 {
			t.Errorf("product: %+v, %v", p, err)
		}
		stop()
	})
}

func TestSweeperCancelsAllThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{unpaid: 3*sweepLimit + 1, away: false}
		_, stop := running(t, f, nil)
		time.Sleep(sweepEvery + time.Second)
		f.do(func() {
			if f.unpaid != 0 {
				t.Errorf("%d are left", f.unpaid)
			}
			f.away, f.unpaid = true, 1
		})
		time.Sleep(time.Minute)
		f.do(func() { f.away, f.unpaid = false, 1 })
		time.Sleep(sweepEvery)
		f.do(func() {
			if f.unpaid != 0 {
				t.Error("it did not go on when the database was back")
			}
		})
		stop()
	})
}

func TestTestDelay(t *testing.T) {
	f := &fakeStore{}
	s, err := NewService(f, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTestDelay(time.Second); !errors.Is(err, ErrInvalid) || f.delay != 0 {
		t.Errorf("not set at start: %v, delay %v", err, f.delay)
	}
	opts := DefaultOptions()
	opts.TestDelay = time.Second
	if s, err = NewService(f, opts, discard); err != nil {
		t.Fatal(err)
	}
	if d, changeable := s.TestDelay(); d != time.Second || !changeable || f.delay != time.Second {
		t.Errorf("set at start: %v, %v, store %v", d, changeable, f.delay)
	}
	for _, d := range []time.Duration{-1, 2 * time.Minute} {
		if err := s.SetTestDelay(d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", d, err)
		}
	}
	for _, d := range []time.Duration{0, time.Minute} { // 0 does not end the experiment for good
		if err := s.SetTestDelay(d); err != nil || f.delay != d {
			t.Errorf("%v: %v, store %v", d, err, f.delay)
		}
	}
}
