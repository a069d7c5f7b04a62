package orders

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCommittedIsToldAgain stands for a process that was killed between the
// commit and the report: the one that finds the order reports it.
func TestCommittedIsToldAgain(t *testing.T) {
	f := &fakeStore{soldOut: map[int64]bool{9: true}}
	newService := func(told *[]Buyer) *Service {
		s, err := NewService(f, DefaultOptions(), discard)
		if err != nil {
			t.Fatal(err)
		}
		s.OnCommitted(func(b Buyer) { *told = append(*told, b) })
		return s
	}
	var lost []Buyer
	if _, _, err := newService(&lost).Place(t.Context(), Request{Buyer: someone, Cart: oneLamp}); err != nil || !slices.Equal(lost, []Buyer{someone}) {
		t.Fatalf("the first: told %v, %v", lost, err)
	}
	for name, ask := range map[string]func(*Service) error{
		"the same again": func(s *Service) error {
			_, _, err := s.Place(t.Context(), Request{Buyer: someone, Cart: oneLamp})
			return err
		},
		"another cart": func(s *Service) error {
			_, _, err := s.Place(t.Context(), Request{Buyer: someone, Cart: twoLamps})
			return err
		},
		"the same, too late": func(s *Service) error {
			_, err := s.Repeat(t.Context(), Request{Buyer: someone, Cart: oneLamp})
			return err
		},
		"another cart, too late": func(s *Service) error {
			_, err := s.Repeat(t.Context(), Request{Buyer: someone, Cart: twoLamps})
			return err
		},
	} {
		var told []Buyer
		if err := ask(newService(&told)); err != nil && !errors.Is(err, ErrTokenSpent) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(told, []Buyer{someone}) {
			t.Errorf("%s: told %v", name, told)
		}
	}
	var told []Buyer
	s := newService(&told)
	another := Buyer{TokenID: "another"}
	if _, _, err := s.Place(t.Context(), Request{Buyer: another, Cart: []CartItem{{9, 1}}}); !errors.Is(err, ErrSoldOut) {
		t.Errorf("sold out: %v", err)
	}
	if _, err := s.Repeat(t.Context(), Request{Buyer: another, Cart: oneLamp}); !errors.Is(err, ErrOrderNotFound) {
		t.Errorf("no order: %v", err)
	}
	if len(told) != 0 {
		t.Errorf("told %v without an order", told)
	}
}

// TestArrivedIsTold has one at work, one waiting for a worker, one refused by the
// full backlog, and a twin of the first.
func TestArrivedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, soldOut: map[int64]bool{9: true}}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog = 1, 1 })
		var told []string
		s.OnArrived(func(b Buyer) { told = append(told, b.TokenID+" of "+b.Line) })
		var wg sync.WaitGroup
		try := func(token string, cart []CartItem, want string) {
			t.Helper()
			wg.Go(func() {
				_, _, _ = s.Place(t.Context(), Request{Buyer: Buyer{TokenID: token, Line: "sale"}, Cart: cart})
			})
			synctest.Wait()
			if got := strings.Join(told, ", "); got != want {
				t.Errorf("%s: told %q, want %q", token, got, want)
			}
		}
		try("works", oneLamp, "works of sale")
		try("works", oneLamp, "works of sale")
		try("waits", oneLamp, "works of sale, waits of sale")
		try("refused", oneLamp, "works of sale, waits of sale, refused of sale")
		try("invalid", nil, "works of sale, waits of sale, refused of sale")
		wg.Wait()
		told = nil
		try("works", twoLamps, "works of sale") // spent, and told again
		try("unlucky", []CartItem{{9, 1}}, "works of sale, unlucky of sale")
		wg.Wait()
		if _, err := s.Repeat(t.Context(), Request{Buyer: Buyer{TokenID: "waits"}, Cart: oneLamp}); err != nil || len(told) != 2 {
			t.Errorf("a repeat after the token's time: told %q, %v", told, err)
		}
		stop()
	})
}

func TestRepeatAndOrder(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Repeat(t.Context(), Request{Buyer: someone, Cart: oneLamp}); !errors.Is(err, ErrOrderNotFound) {
		t.Errorf("repeat of nothing: %v", err)
	}
	made, _, err := s.Place(t.Context(), Request{Buyer: someone, Cart: oneLamp})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.Repeat(t.Context(), Request{Buyer: someone, Cart: oneLamp}); err != nil || o.ID != made.ID {
		t.Errorf("repeat: %+v, %v", o, err)
	}
	if _, err := s.Repeat(t.Context(), Request{Buyer: someone, Cart: []CartItem{{1, 2}}}); !errors.Is(err, ErrTokenSpent) {
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
			_, _, err := s.Place(t.Context(), Request{Buyer: someone, Cart: oneLamp})
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, errOrder := s.Order(t.Context(), someone, "none")
		_, errRepeat := s.Repeat(t.Context(), Request{Buyer: someone, Cart: oneLamp})
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
