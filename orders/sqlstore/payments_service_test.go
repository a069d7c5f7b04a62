package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/httpprovider"
	"sluice/orders/httpprovider/standin"
	"sluice/orders/orderstest"
)

// gathering is a provider that answers nobody until it is let go.
type gathering struct {
	asked chan struct{} // gets one for each call
	let   chan struct{} // closed
}

func (g *gathering) Charge(ctx context.Context, _ orders.Payment) (orders.Outcome, error) {
	g.asked <- struct{}{}
	select {
	case <-g.let:
		return orders.Outcome{Paid: true}, nil
	case <-ctx.Done():
		return orders.Outcome{}, ctx.Err()
	}
}

// TestNoConnectionIsHeldWhileTheProviderIsAsked has a store of two connections for
// orders and two for everything else, and fifty payments at the provider, all of them at
// the same time. Meanwhile orders are made and read.
func TestNoConnectionIsHeldWhileTheProviderIsAsked(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		const payments = 50
		opts.Workers = 2
		s := openStore(t, opts, logger.Discard)
		handles(t, s, opts.Workers)["side"].SetMaxOpenConns(2)
		product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Price: 5, Stock: 1000})
		if err != nil {
			t.Fatal(err)
		}
		provider := &gathering{asked: make(chan struct{}, payments), let: make(chan struct{})}
		service := newService(t, s, provider, time.Minute)
		order := func(i int) orders.Order {
			o, _, err := service.Place(t.Context(), orders.Request{
				Buyer: tokenOf(i), Cart: []orders.CartItem{{ProductID: product, Quantity: 1}},
			})
			if err != nil {
				t.Errorf("place %d: %v", i, err)
			}
			return o
		}
		var paying sync.WaitGroup
		defer paying.Wait()
		release := sync.OnceFunc(func() { close(provider.let) })
		defer release()
		for i := range payments {
			o := order(i)
			paying.Go(func() {
				if p, err := service.Pay(t.Context(), tokenOf(i), o.ID, "card"); err != nil || p.State != orders.Paid {
					t.Errorf("pay %d: %+v, %v", i, p, err)
				}
			})
		}
		giveUp := time.After(30 * time.Second) // only a failure takes so long
		for n := range payments {
			select {
			case <-provider.asked:
			case <-giveUp:
				t.Fatalf("the provider has %d calls at once", n)
			}
		}
		late := order(payments)
		if o, err := service.Order(t.Context(), tokenOf(payments), late.ID); err != nil || o.State != orders.Pending {
			t.Errorf("meanwhile: %+v, %v", o, err)
		}
	})
}

func tokenOf(i int) orders.Buyer { return orders.Buyer{TokenID: fmt.Sprint("token-", i), Visitor: "v"} }

func newService(t *testing.T, s *Store, provider orders.Provider, timeout time.Duration) *orders.Service {
	t.Helper()
	service, err := orders.NewService(s, paymentOptions(provider, timeout), discard)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func paymentOptions(provider orders.Provider, timeout time.Duration) orders.Options {
	opts := orders.DefaultOptions()
	opts.Provider, opts.PayTimeout = provider, timeout
	return opts
}

const childPayTimeout = 200 * time.Millisecond

// payForever makes one order after the other, has each paid until it is, and prints the
// id of each that is acknowledged as paid on a line. Nobody in this process asks again
// for what is unknown: the next order is begun.
func payForever(s *Store, c childStore) error {
	client, err := httpprovider.New(httpprovider.Options{URL: c.Provider, AtOnce: 8})
	if err != nil {
		return err
	}
	service, err := orders.NewService(s, paymentOptions(client, childPayTimeout), discard)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for worker := range cap(errs) {
		wg.Go(func() {
			for n := 0; ; n++ {
				id, err := payOne(service, orders.Buyer{TokenID: fmt.Sprintf("%s-%d-%d", c.Name, worker, n), Visitor: "v"}, c.Product)
				if err == nil && id != "" {
					_, err = os.Stdout.WriteString(id + "\n") // one write: a line is whole or absent
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	return <-errs
}

// payOne makes an order and pays it; id is empty when that stays unknown.
func payOne(service *orders.Service, b orders.Buyer, product int64) (id string, err error) {
	ctx := context.Background()
	o, _, err := service.Place(ctx, orders.Request{Buyer: b, Cart: []orders.CartItem{{ProductID: product, Quantity: 1}}})
	for err == nil {
		var p orders.Payment
		switch p, err = service.Pay(ctx, b, o.ID, "card"); {
		case err == nil && p.State == orders.Paid:
			return o.ID, nil
		case err == nil:
			return "", nil
		case errors.Is(err, orders.ErrDeclined):
			err = nil // another attempt
		}
	}
	return "", err
}

// TestKilledWhilePaying kills processes that are having orders paid, as kill -9 does, by
// a provider that declines some and leaves some without an answer. Another process
// settles what they have left, and the provider's books say that nobody paid twice.
func TestKilledWhilePaying(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		const stock = 1_000_000
		s := openStore(t, opts, logger.Discard)
		product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Price: 5, Stock: stock})
		if err != nil {
			t.Fatal(err)
		}
		provider, err := standin.New(standin.Options{Delay: 5 * time.Millisecond, Decline: 0.2, Timeout: 0.05, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(provider.Handler())
		t.Cleanup(server.Close)
		acknowledged := map[string]bool{}
		for round := range 3 {
			c := childStore{URL: opts.URL, Path: opts.Path, Product: product, Provider: server.URL, Name: fmt.Sprint("round-", round)}
			for _, id := range orderstest.KillAfter(t, childProcess(t, "pay", c), 40) {
				acknowledged[id] = true
			}
		}
		left := ordersIn(t, s, orders.PaymentUnknown)
		if len(left) == 0 {
			t.Error("the killed processes have left nothing unknown")
		}
		client, err := httpprovider.New(httpprovider.Options{URL: server.URL, AtOnce: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		reconcile(t, s, newService(t, s, client, time.Second))

		paid, books := ordersIn(t, s, orders.Paid), provider.Report()
		if books.ChargedTwice != 0 {
			t.Errorf("%d orders were charged twice: %+v", books.ChargedTwice, books.PaidByOrder)
		}
		for id := range acknowledged {
			if !paid[id] {
				t.Errorf("order %s was acknowledged as paid and is not", id)
			}
		}
		for id := range books.PaidByOrder {
			if !paid[id] {
				t.Errorf("order %s was charged and is not paid", id)
			}
		}
		if len(paid) != len(books.PaidByOrder) {
			t.Errorf("%d orders are paid, %d were charged", len(paid), len(books.PaidByOrder))
		}
		t.Logf("%d acknowledged, %d paid; %d were left unknown", len(acknowledged), len(paid), len(left))
	})
}

// reconcile runs the service until no payment is unknown.
func reconcile(t *testing.T, s *Store, service *orders.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	deadline := time.Now().Add(time.Minute)
	for elapse(t, s, time.Hour); len(ordersIn(t, s, orders.PaymentUnknown)) > 0; elapse(t, s, time.Hour) {
		if time.Now().After(deadline) {
			t.Errorf("still unknown: %v", ordersIn(t, s, orders.PaymentUnknown))
			return
		}
		time.Sleep(100 * time.Millisecond) // a real server is asked at its pace
	}
}

func ordersIn(t *testing.T, s *Store, state orders.State) map[string]bool {
	t.Helper()
	var ids []string
	if err := s.side.WithContext(t.Context()).Raw("SELECT id FROM orders WHERE state = ?", string(state)).Scan(&ids).Error; err != nil {
		t.Fatal(err)
	}
	in := make(map[string]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	return in
}
