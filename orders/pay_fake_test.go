package orders

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// payStore is a fakeStore of orders that wait to be paid.
type payStore struct {
	fakeStore
	payments  map[string]*fakePayment // by order
	noSettle  bool                    // the database is away whenever an outcome is stored
	beginning time.Duration           // that it takes to begin a payment
	settling  time.Duration           // that it takes to store an outcome
}

type fakePayment struct {
	Payment
	token     string
	askedAt   time.Time
	reference string
}

// waiting is a store with orders "order-0" … of tokens "token-0" …
func waiting(n int) *payStore {
	f := &payStore{payments: map[string]*fakePayment{}}
	for i := range n {
		f.add(name("order", i), name("token", i))
	}
	return f
}

func (f *payStore) add(order, token string) *fakePayment {
	p := &fakePayment{Payment: Payment{OrderID: order, Amount: 100, State: Pending}, token: token}
	f.payments[order] = p
	return p
}

func (f *payStore) BeginPayment(_ context.Context, order, token, method string) (Payment, error) {
	time.Sleep(f.beginning)
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[order]
	switch {
	case f.away:
		return Payment{}, ErrDatabase
	case p == nil:
		return Payment{}, ErrOrderNotFound
	case p.token != token:
		return Payment{}, ErrOrderOfAnother
	case p.State == Cancelled:
		return Payment{}, ErrOrderState
	case p.State == Pending || p.State == Declined:
		p.State, p.Method, p.askedAt = PaymentUnknown, method, time.Now()
		p.Attempt++
		if p.Amount == 0 {
			p.State, p.PaidAt = Paid, time.Now()
		}
	}
	return p.Payment, nil
}

func (f *payStore) SettlePayment(ctx context.Context, attempt Payment, o Outcome) (Payment, error) {
	select {
	case <-time.After(f.settling):
	case <-ctx.Done():
		return Payment{}, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[attempt.OrderID]
	if f.away || f.noSettle {
		return Payment{}, ErrDatabase
	}
	if p.State == PaymentUnknown && p.Attempt == attempt.Attempt {
		p.State, p.reference = Declined, o.Reference
		if o.Paid {
			p.State, p.PaidAt = Paid, time.Now()
		}
	}
	return p.Payment, nil
}

func (f *payStore) UnsettledPayments(_ context.Context, age time.Duration, limit int) (due []Payment, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.payments {
		if p.State == PaymentUnknown && time.Since(p.askedAt) > age && len(due) < limit {
			p.askedAt = time.Now()
			due = append(due, p.Payment)
		}
	}
	return due, f.failing()
}

func (f *payStore) state(order string) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.payments[order].State
}

func (f *payStore) count(s State) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.payments {
		if p.State == s {
			n++
		}
	}
	return n
}

// fakeProvider answers after a while, and sees to it that no attempt is asked for
// twice at the same time.
type fakeProvider struct {
	mu       sync.Mutex
	takes    time.Duration                                    // guarded by mu
	answer   func(p Payment, call int) (o Outcome, err error) // guarded by mu; nil: paid; calls count from 1
	calls    []string                                         // guarded by mu; the attempts' keys
	times    []time.Time                                      // guarded by mu; likewise
	underWay []string                                         // guarded by mu
	peak     int                                              // guarded by mu; most calls at once
	twice    []string                                         // guarded by mu; keys that were asked for twice at once
}

func (f *fakeProvider) Charge(ctx context.Context, p Payment) (Outcome, error) {
	f.mu.Lock()
	key := p.Key()
	if slices.Contains(f.underWay, key) {
		f.twice = append(f.twice, key)
	}
	f.calls, f.times, f.underWay = append(f.calls, key), append(f.times, time.Now()), append(f.underWay, key)
	f.peak = max(f.peak, len(f.underWay))
	takes, answer, call := f.takes, f.answer, len(f.calls)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		at := slices.Index(f.underWay, key)
		f.underWay = slices.Delete(f.underWay, at, at+1)
	}()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	if answer == nil {
		return Outcome{Paid: true, Reference: "ref"}, nil
	}
	return answer(p, call)
}

func (f *fakeProvider) set(takes time.Duration, answer func(Payment, int) (Outcome, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes, f.answer = takes, answer
}

// asked are the keys so far; it forgets them.
func (f *fakeProvider) asked() (keys []string, times []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, times = f.calls, f.times
	f.calls, f.times = nil, nil
	return keys, times
}

// paying is a service that takes payments, inside a synctest bubble.
func paying(t *testing.T, store *payStore, provider *fakeProvider, change func(*Options)) (s *Service, stop func()) {
	t.Helper()
	opts := DefaultOptions()
	opts.Provider = provider
	if change != nil {
		change(&opts)
	}
	s, err := NewService(store, opts, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	synctest.Wait()
	return s, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if len(provider.twice) > 0 {
			t.Errorf("asked for twice at once: %v", provider.twice)
		}
	}
}
