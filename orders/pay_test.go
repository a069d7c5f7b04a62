package orders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func name(what string, i int) string { return fmt.Sprintf("%s-%d", what, i) }

func payer(i int) Buyer { return Buyer{TokenID: name("token", i)} }

func TestPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, provider := waiting(4), &fakeProvider{takes: time.Second}
		f.payments["order-1"].State = Cancelled
		f.payments["order-2"].Amount = 0
		s, stop := paying(t, f, provider, nil)
		for _, c := range []struct {
			name, order, method string
			token               int
			want                error
		}{
			{"with another token", "order-0", "card", 1, ErrOrderOfAnother},
			{"no such order", "order-9", "card", 1, ErrOrderNotFound},
			{"no order's id", strings.Repeat("x", 37), "card", 1, ErrOrderNotFound},
			{"no text", "\xff", "card", 1, ErrOrderNotFound},
			{"cancelled", "order-1", "card", 1, ErrOrderState},
			{"no method", "order-0", "", 0, ErrInvalid},
			{"too long a method", "order-0", strings.Repeat("x", 65), 0, ErrInvalid},
			{"method is no text", "order-0", "\xff", 0, ErrInvalid},
		} {
			if p, err := s.Pay(t.Context(), payer(c.token), c.order, c.method); !errors.Is(err, c.want) || p != (Payment{}) {
				t.Errorf("%s: %+v, %v", c.name, p, err)
			}
		}
		start := time.Now()
		free, err := s.Pay(t.Context(), payer(2), "order-2", "card")
		if err != nil || free.State != Paid || time.Since(start) != 0 {
			t.Errorf("nothing to pay: %+v, %v", free, err)
		}
		if keys, _ := provider.asked(); len(keys) != 0 {
			t.Errorf("asked the provider for %v", keys)
		}
		paid, err := s.Pay(t.Context(), payer(0), "order-0", "card")
		want := Payment{OrderID: "order-0", Attempt: 1, Method: "card", Amount: 100, State: Paid, PaidAt: start.Add(time.Second)}
		if err != nil || paid != want {
			t.Errorf("paid %+v, %v; want %+v", paid, err, want)
		}
		if again, err := s.Pay(t.Context(), payer(0), "order-0", "transfer"); err != nil || again != want {
			t.Errorf("again: %+v, %v", again, err)
		}
		if keys, _ := provider.asked(); !slices.Equal(keys, []string{"order-0-1"}) {
			t.Errorf("asked the provider for %v", keys)
		}
		f.do(func() { f.away = true })
		if _, err := s.Pay(t.Context(), payer(3), "order-3", "card"); !errors.Is(err, ErrDatabase) {
			t.Errorf("without a database: %v", err)
		}
		if got := s.PaymentStats(); got != (PaymentStats{Paid: 1}) {
			t.Errorf("stats %+v", got)
		}
		stop()
	})
}

func TestPayWithoutProvider(t *testing.T) {
	s, err := NewService(waiting(1), DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pay(t.Context(), payer(0), "order-0", "card"); !errors.Is(err, ErrNoProvider) || s.PaymentStats() != (PaymentStats{}) {
		t.Errorf("%v, %+v", err, s.PaymentStats())
	}
}

// TestTwinsPayOnce has impatient clicks, and somebody who knows the order and not its
// token. There is room for one payment and for one more.
func TestTwinsPayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, provider := waiting(1), &fakeProvider{takes: time.Second}
		s, stop := paying(t, f, provider, func(o *Options) { o.PaymentsAtOnce = 2 })
		var clicks sync.WaitGroup
		for i := range 20 {
			clicks.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if p, err := s.Pay(t.Context(), payer(0), "order-0", "card"); err != nil || p.State != Paid || p.Attempt != 1 {
					t.Errorf("click %d: %+v, %v", i, p, err)
				}
				if _, err := s.Pay(t.Context(), payer(1), "order-0", "card"); !errors.Is(err, ErrOrderOfAnother) {
					t.Errorf("another token: %v", err)
				}
			})
		}
		clicks.Go(func() {
			time.Sleep(500 * time.Millisecond)
			if _, err := s.Pay(t.Context(), payer(1), "order-0", "card"); !errors.Is(err, ErrOrderOfAnother) {
				t.Errorf("another token, meanwhile: %v", err)
			}
		})
		clicks.Wait()
		if keys, _ := provider.asked(); len(keys) != 1 {
			t.Errorf("asked the provider for %v", keys)
		}
		stop()
	})
}

// TestOneTokenTakesOneSlot names orders that are not the token's while the database is
// slow to say so.
func TestOneTokenTakesOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(2)
		f.beginning = time.Second
		s, stop := paying(t, f, &fakeProvider{}, func(o *Options) { o.PaymentsAtOnce = 2 })
		var all sync.WaitGroup
		var none, turnedAway atomic.Int32
		for i := range 20 {
			all.Go(func() {
				switch _, err := s.Pay(t.Context(), payer(1), name("no-order", i), "card"); {
				case errors.Is(err, ErrOrderNotFound):
					none.Add(1)
				case errors.Is(err, ErrOverloaded):
					turnedAway.Add(1)
				}
			})
		}
		synctest.Wait()
		if p, err := s.Pay(t.Context(), payer(0), "order-0", "card"); err != nil || p.State != Paid {
			t.Errorf("somebody else: %+v, %v", p, err)
		}
		all.Wait()
		if none.Load() != 1 || turnedAway.Load() != 19 || s.PaymentStats().Refused != 0 {
			t.Errorf("%d found no order, %d were turned away; %+v", none.Load(), turnedAway.Load(), s.PaymentStats())
		}
		if p, err := s.Pay(t.Context(), payer(1), "order-1", "card"); err != nil || p.State != Paid {
			t.Errorf("their own: %+v, %v", p, err)
		}
		stop()
	})
}

func TestDeclinedThenPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &fakeProvider{answer: func(_ Payment, call int) (Outcome, error) {
			return Outcome{Paid: call == 3, Reason: []string{"", "no\nmoney", ""}[call-1]}, nil
		}}
		s, stop := paying(t, waiting(1), provider, nil)
		for _, want := range []string{"", ": no money"} {
			_, err := s.Pay(t.Context(), payer(0), "order-0", "card")
			if !errors.Is(err, ErrDeclined) || err.Error() != ErrDeclined.Error()+want {
				t.Errorf("declined: %v, want %q behind it", err, want)
			}
		}
		if p, err := s.Pay(t.Context(), payer(0), "order-0", "card"); err != nil || p.State != Paid || p.Attempt != 3 {
			t.Errorf("third: %+v, %v", p, err)
		}
		if keys, _ := provider.asked(); !slices.Equal(keys, []string{"order-0-1", "order-0-2", "order-0-3"}) {
			t.Errorf("asked for %v", keys)
		}
		if got := s.PaymentStats(); got != (PaymentStats{Paid: 1, Declined: 2}) {
			t.Errorf("stats %+v", got)
		}
		stop()
	})
}

// TestPayGoesOnWithoutItsClient has the client leave in the middle of the payment.
func TestPayGoesOnWithoutItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, provider := waiting(1), &fakeProvider{takes: time.Second}
		s, stop := paying(t, f, provider, nil)
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		p, err := s.Pay(ctx, payer(0), "order-0", "card")
		if err != nil || p.State != Paid || f.state("order-0") != Paid {
			t.Errorf("%+v, %v; order %s", p, err, f.state("order-0"))
		}
		stop()
	})
}

func TestPaymentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		f, provider := waiting(most+1), &fakeProvider{takes: time.Second}
		s, stop := paying(t, f, provider, func(o *Options) { o.PaymentsAtOnce = most })
		var under sync.WaitGroup
		for i := range 10 * most { // twins take no room
			under.Go(func() {
				if p, err := s.Pay(t.Context(), payer(i%most), name("order", i%most), "card"); err != nil || p.State != Paid {
					t.Errorf("%d: %+v, %v", i, p, err)
				}
			})
		}
		synctest.Wait()
		late := name("order", most)
		if _, err := s.Pay(t.Context(), payer(most), late, "card"); !errors.Is(err, ErrOverloaded) || f.state(late) != Pending {
			t.Errorf("one too many: %v; order %s", err, f.state(late))
		}
		under.Wait()
		if p, err := s.Pay(t.Context(), payer(most), late, "card"); err != nil || p.State != Paid {
			t.Errorf("later: %+v, %v", p, err)
		}
		if got := s.PaymentStats(); got != (PaymentStats{Paid: most + 1, Refused: 1}) || provider.peak != most {
			t.Errorf("stats %+v, %d calls at once", got, provider.peak)
		}
		stop()
	})
}

// TestReferenceAlwaysFits has a provider whose reference the store has no room for.
func TestReferenceAlwaysFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(1)
		provider := &fakeProvider{answer: func(Payment, int) (Outcome, error) {
			return Outcome{Paid: true, Reference: "\xff" + strings.Repeat("é", 1000)}, nil
		}}
		s, stop := paying(t, f, provider, nil)
		if p, err := s.Pay(t.Context(), payer(0), "order-0", "card"); err != nil || p.State != Paid {
			t.Errorf("%+v, %v", p, err)
		}
		if r := f.payments["order-0"].reference; len(r) > maxReference || len(r) < maxReference-3 || !utf8.ValidString(r) {
			t.Errorf("reference of %d bytes: %q", len(r), r)
		}
		stop()
	})
}

func TestUnpaidOrdersMayBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{unpaid: 1}
		_, stop := running(t, f, func(o *Options) { o.PayWithin = 0 })
		time.Sleep(24 * time.Hour)
		if f.unpaid != 1 {
			t.Error("cancelled")
		}
		stop()
	})
}

func TestPaymentOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"the defaults":                {func(*Options) {}, ""},
		"unpaid are kept":             {func(o *Options) { o.PayWithin = 0 }, ""},
		"unpaid for no time":          {func(o *Options) { o.PayWithin = -time.Second }, "pay_within"},
		"no timeout":                  {func(o *Options) { o.PayTimeout = 0 }, "pay_timeout"},
		"too long a timeout":          {func(o *Options) { o.PayTimeout = time.Hour }, "pay_timeout"},
		"none at once":                {func(o *Options) { o.PaymentsAtOnce = 0 }, "payments_at_once"},
		"too many at once":            {func(o *Options) { o.PaymentsAtOnce = 1_000_000 }, "payments_at_once"},
		"no provider and what it may": {func(o *Options) { o.Provider, o.PayTimeout, o.PaymentsAtOnce = nil, 0, 0 }, ""},
	} {
		o := DefaultOptions()
		o.Provider = &fakeProvider{}
		c.change(&o)
		err := o.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPresentable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := cmp.Or(rapid.String().Draw(t, "text"), string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		most := rapid.IntRange(0, 40).Draw(t, "most")
		got := presentable(s, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00\x1b") {
			t.Errorf("%q at most %d: %q", s, most, got)
		}
		if again := presentable(got, most); again != got {
			t.Errorf("%q, again %q", got, again)
		}
	})
	if got := presentable(" Karte abgelehnt: für heute\n", 100); got != "Karte abgelehnt: für heute" {
		t.Errorf("%q", got)
	}
}
