package orders

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowReads is a store that takes a second for each order it reads.
type slowReads struct {
	*fakeStore
	now, most, all int // reads under way; guarded by the store's mu
}

func (s *slowReads) slowly() {
	s.do(func() {
		s.now++
		s.all++
		s.most = max(s.most, s.now)
	})
	time.Sleep(time.Second)
	s.do(func() { s.now-- })
}

func (s *slowReads) Order(ctx context.Context, id string) (Order, error) {
	defer s.slowly()
	return s.fakeStore.Order(ctx, id)
}

func (s *slowReads) ByToken(ctx context.Context, token string) (Order, error) {
	defer s.slowly()
	return s.fakeStore.ByToken(ctx, token)
}

// One token has one read under way, whatever it asks for and however often. Those who ask
// for the same share it, but not one that began before they asked.
func TestOneTokenTakesOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowReads{fakeStore: &fakeStore{}}
		s, err := NewService(store, DefaultOptions(), discard)
		if err != nil {
			t.Fatal(err)
		}
		mine, _, err := s.Place(t.Context(), Request{Buyer: someone, Cart: oneLamp})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var found, turnedAway atomic.Int32
		ask := func(read func() (Order, error)) {
			all.Go(func() {
				switch o, err := read(); {
				case err == nil && o.ID == mine.ID:
					found.Add(1)
				case errors.Is(err, ErrOverloaded):
					turnedAway.Add(1)
				default:
					t.Errorf("%+v, %v", o, err)
				}
			})
			synctest.Wait()
		}
		for i := range 30 {
			time.Sleep(time.Millisecond)
			switch i % 3 {
			case 0:
				ask(func() (Order, error) { return s.Order(t.Context(), someone, mine.ID) })
			case 1:
				ask(func() (Order, error) { return s.Order(t.Context(), someone, fmt.Sprint("no order ", i)) })
			case 2:
				ask(func() (Order, error) { return s.Repeat(t.Context(), Request{Buyer: someone, Cart: oneLamp}) })
			}
		}
		begun := time.Now()
		if _, err := s.Order(t.Context(), Buyer{TokenID: "another"}, mine.ID); !errors.Is(err, ErrOrderOfAnother) || time.Since(begun) > time.Second {
			t.Errorf("somebody else, after %v: %v", time.Since(begun), err)
		}
		all.Wait()
		if found.Load() != 10 || turnedAway.Load() != 20 {
			t.Errorf("%d found the order, %d were turned away", found.Load(), turnedAway.Load())
		}
		if store.most != 2 || store.all != 3 { // theirs and the other's; the first, and one for those who came after it began
			t.Errorf("%d reads, %d at a time", store.all, store.most)
		}
	})
}
