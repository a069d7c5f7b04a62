package orders

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnknownIsAskedForAgain has a provider that cannot be heard for half a minute,
// each in its way.
func TestUnknownIsAskedForAgain(t *testing.T) {
	const timeout = 3 * time.Second
	for name, c := range map[string]struct {
		silent func(*fakeProvider, *payStore)
		after  time.Duration // that the buyer is told
	}{
		"silent": {func(p *fakeProvider, _ *payStore) { p.set(time.Hour, nil) }, timeout},
		"refuses": {func(p *fakeProvider, _ *payStore) {
			p.set(0, func(Payment, int) (Outcome, error) { return Outcome{Paid: true}, errors.New("502") })
		}, 0},
		"panics": {func(p *fakeProvider, _ *payStore) {
			p.set(0, func(Payment, int) (Outcome, error) { panic("nil map") })
		}, 0},
		"the database": {func(_ *fakeProvider, f *payStore) { f.do(func() { f.noSettle = true }) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, provider := waiting(1), &fakeProvider{}
				c.silent(provider, f)
				s, stop := paying(t, f, provider, func(o *Options) { o.PayTimeout = timeout })
				begun := time.Now()
				p, err := s.Pay(t.Context(), payer(0), "order-0", "card")
				if err != nil || p.State != PaymentUnknown || time.Since(begun) != c.after {
					t.Errorf("%+v, %v after %v", p, err, time.Since(begun))
				}
				time.Sleep(30 * time.Second)
				if f.state("order-0") != PaymentUnknown {
					t.Errorf("order %s", f.state("order-0"))
				}
				provider.set(0, nil)
				f.do(func() { f.noSettle = false })
				time.Sleep(30 * time.Second)
				if f.state("order-0") != Paid {
					t.Errorf("order %s", f.state("order-0"))
				}
				keys, times := provider.asked()
				if len(keys) < 3 || len(slices.Compact(keys)) != 1 {
					t.Errorf("asked for %v", keys)
				}
				for i, at := range times[1:] {
					if gap := at.Sub(times[i]); gap < timeout+2*sideTimeout {
						t.Errorf("asked again after %v", gap)
					}
				}
				want := PaymentStats{Paid: 1, Reconciled: 1, Unknown: int64(len(times) - 1)}
				if got := s.PaymentStats(); got != want {
					t.Errorf("stats %+v, want %+v", got, want)
				}
				stop()
			})
		})
	}
}

// TestReconcilerIsNoSecondCall has the buyer come back, clicking, while the reconciler
// asks: all of them share its call, and its room.
func TestReconcilerIsNoSecondCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, provider := waiting(1), &fakeProvider{takes: 5 * time.Second}
		left := f.add("order-left", "token-left")
		left.State, left.Attempt = PaymentUnknown, 1
		s, stop := paying(t, f, provider, func(o *Options) { o.PaymentsAtOnce = 2 })
		time.Sleep(reconcileEvery)
		var clicks sync.WaitGroup
		for range 3 {
			clicks.Go(func() {
				if p, err := s.Pay(t.Context(), Buyer{TokenID: "token-left"}, "order-left", "card"); err != nil || p.State != Paid {
					t.Errorf("%+v, %v", p, err)
				}
			})
		}
		synctest.Wait()
		// The reconciler and the buyer who waits for it have the two slots.
		if _, err := s.Pay(t.Context(), payer(0), "order-0", "card"); !errors.Is(err, ErrOverloaded) {
			t.Errorf("a third: %v", err)
		}
		clicks.Wait()
		if keys, _ := provider.asked(); !slices.Equal(keys, []string{"order-left-1"}) {
			t.Errorf("asked for %v", keys)
		}
		stop()
	})
}

// TestStopWaitsForNoProvider stops the process while the provider is asked, by a buyer
// and by the reconciler: both are left for whoever comes next.
func TestStopWaitsForNoProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, provider := waiting(2), &fakeProvider{takes: 5 * time.Second}
		left := f.add("order-left", "token-left")
		left.State, left.Attempt = PaymentUnknown, 1
		s, stop := paying(t, f, provider, nil)
		time.Sleep(reconcileEvery)
		told := make(chan Payment, 1)
		go func() {
			p, err := s.Pay(t.Context(), payer(0), "order-0", "card")
			if err != nil {
				t.Error(err)
			}
			told <- p
		}()
		synctest.Wait()
		if keys, _ := provider.asked(); len(keys) != 2 {
			t.Fatalf("asked for %v", keys)
		}
		before := time.Now()
		stop()
		if p := <-told; p.State != PaymentUnknown || time.Since(before) != 0 {
			t.Errorf("told %+v after %v", p, time.Since(before))
		}
		if n := f.count(PaymentUnknown); n != 2 {
			t.Errorf("%d are unknown", n)
		}
		if _, err := s.Pay(t.Context(), payer(1), "order-1", "card"); !errors.Is(err, ErrStopping) || f.state("order-1") != Pending {
			t.Errorf("afterwards: %v; order %s", err, f.state("order-1"))
		}
		_, next := paying(t, f, provider, nil)
		time.Sleep(time.Minute)
		if n := f.count(Paid); n != 2 {
			t.Errorf("the next process has settled %d", n)
		}
		next()
	})
}

// TestDrainWaitsAWhileForTheProvider has a server drain while the provider answers one
// buyer in time, and another, who came later, too late.
func TestDrainWaitsAWhileForTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(3)
		s, stop := paying(t, f, &fakeProvider{takes: 5 * time.Second}, nil)
		s.Stop(6 * time.Second)
		var buyers sync.WaitGroup
		for i, c := range []struct {
			comes, told time.Duration
			want        State
		}{{0, 5 * time.Second, Paid}, {2 * time.Second, 6 * time.Second, PaymentUnknown}} {
			buyers.Go(func() {
				start := time.Now()
				time.Sleep(c.comes)
				if p, err := s.Pay(t.Context(), payer(i), name("order", i), "card"); err != nil || p.State != c.want || time.Since(start) != c.told {
					t.Errorf("who came after %v was told %+v, %v after %v", c.comes, p, err, time.Since(start))
				}
			})
		}
		buyers.Wait()
		if _, err := s.Pay(t.Context(), payer(2), "order-2", "card"); !errors.Is(err, ErrStopping) || f.state("order-2") != Pending {
			t.Errorf("afterwards: %v; order %s", err, f.state("order-2"))
		}
		// What is left is another process's to ask for: this one claims it no more.
		time.Sleep(time.Minute)
		if due, err := f.UnsettledPayments(t.Context(), 30*time.Second, 9); err != nil || len(due) != 1 {
			t.Errorf("left for another process: %v, %v", due, err)
		}
		stop()
	})
}

// TestStopWaitsForTheStore stops the process while answers of the provider are being
// stored, a buyer's and the reconciler's.
func TestStopWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(1)
		f.settling = time.Second
		left := f.add("order-left", "token-left")
		left.State, left.Attempt = PaymentUnknown, 1
		s, stop := paying(t, f, &fakeProvider{}, nil)
		time.Sleep(reconcileEvery)
		told := make(chan error, 1)
		go func() {
			_, err := s.Pay(t.Context(), payer(0), "order-0", "card")
			told <- err
		}()
		synctest.Wait()
		stop()
		if n := f.count(Paid); n != 2 {
			t.Errorf("%d are paid when it has stopped", n)
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
	})
}

// TestOutageEndsWithoutStampede begins with what killed processes have left, and a
// provider that is away for a minute.
func TestOutageEndsWithoutStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const left, atOnce, share = 300, 100, 10
		f, provider := &payStore{payments: map[string]*fakePayment{}}, &fakeProvider{}
		provider.set(0, func(Payment, int) (Outcome, error) { return Outcome{}, errors.New("connection refused") })
		for i := range left {
			p := f.add(name("order", i), name("token", i))
			p.State, p.Attempt = PaymentUnknown, 1
		}
		s, stop := paying(t, f, provider, func(o *Options) { o.PaymentsAtOnce = atOnce })
		time.Sleep(time.Minute + time.Second)
		if keys, _ := provider.asked(); len(keys) != 30*share {
			t.Errorf("asked %d times while it was away", len(keys))
		}
		provider.set(time.Second, func(p Payment, _ int) (Outcome, error) {
			return Outcome{Paid: p.OrderID != "order-7"}, nil
		})
		time.Sleep(time.Minute)
		keys, _ := provider.asked()
		slices.Sort(keys)
		if n := len(keys); n != left || len(slices.Compact(keys)) != left {
			t.Errorf("asked %d times for %d payments once it was back", n, left)
		}
		if f.count(Paid) != left-1 || f.count(Declined) != 1 || provider.peak != share {
			t.Errorf("%d paid, %d declined, %d calls at once", f.count(Paid), f.count(Declined), provider.peak)
		}
		if got := s.PaymentStats(); got.Reconciled != left || got.Paid != left-1 || got.Declined != 1 {
			t.Errorf("stats %+v", got)
		}
		stop()
	})
}
