package orders

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Orders that wait at the same time are written together, and each has its own answer.
func TestOrdersOfAGroupHaveTheirOwnAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, soldOut: map[int64]bool{2: true}}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		lampAndTable := []CartItem{{1, 1}, {2, 1}}
		var wg sync.WaitGroup
		ask(t.Context(), &wg, s, "spent", oneLamp)
		wg.Wait()
		ask(t.Context(), &wg, s, "first", lampAndTable)
		made := ask(t.Context(), &wg, s, "made", oneLamp)
		soldOut := ask(t.Context(), &wg, s, "sold out", lampAndTable)
		spent := ask(t.Context(), &wg, s, "spent", twoLamps)
		again := ask(t.Context(), &wg, s, "made too", twoLamps)
		wg.Wait()
		made.check(t, "made", "order of made", true, nil, 2*work)
		soldOut.check(t, "sold out", "", false, ErrSoldOut, 2*work)
		spent.check(t, "spent", "", false, ErrTokenSpent, 2*work)
		again.check(t, "made too", "order of made too", true, nil, 2*work)
		if want := []int{1, 1, 4}; !slices.Equal(f.groups, want) {
			t.Errorf("groups of %v, want %v", f.groups, want)
		}
		if p := s.PoolStats(); p.Repeated != 1 || p.RepeatTime != work/4 {
			t.Errorf("one of four repeated: %d, %s", p.Repeated, p.RepeatTime)
		}
		stop()
	})
}

// While the test delay is above 0 every order is written alone, beside others of its
// product; it can begin and end while orders wait.
func TestTheTestDelayKeepsOrdersApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: time.Second}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.TestDelay = 2, time.Second })
		var wg sync.WaitGroup
		three := func(names ...string) {
			for _, name := range names {
				ask(t.Context(), &wg, s, name, oneLamp)
			}
		}
		three("a", "b", "c")
		if p := s.PoolStats(); p.Busy != 2 || p.Running != 2 {
			t.Errorf("with a delay: %+v", p)
		}
		wg.Wait()
		set := func(d time.Duration) {
			if err := s.SetTestDelay(d); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		set(0)
		three("d", "e", "f")
		if p := s.PoolStats(); p.Busy != 1 || p.Running != 1 {
			t.Errorf("without: %+v", p)
		}
		wg.Wait()
		three("g", "h", "i")
		set(time.Second)
		if p := s.PoolStats(); p.Busy != 2 || p.Running != 2 {
			t.Errorf("with one again: %+v", p)
		}
		wg.Wait()
		if want := []int{1, 1, 1, 1, 2, 1, 1, 1}; !slices.Equal(f.groups, want) {
			t.Errorf("groups of %v, want %v", f.groups, want)
		}
		stop()
	})
}
