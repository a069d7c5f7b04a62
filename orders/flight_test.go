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

// reply is what one caller of Place got, and when since the test began.
type reply struct {
	id      string
	created bool
	err     error
	after   time.Duration
}

// ask places in a goroutine of its own, and returns when nothing moves any
// more. The reply may be read once the goroutine has ended.
func ask(ctx context.Context, wg *sync.WaitGroup, s *Service, token string, cart []CartItem) *reply {
	r, start := &reply{}, time.Now()
	wg.Go(func() {
		var o Order
		o, r.created, r.err = s.Place(ctx, Request{Buyer: Buyer{TokenID: token}, Cart: cart})
		r.id, r.after = o.ID, time.Since(start)
	})
	synctest.Wait()
	return r
}

func (r *reply) check(t *testing.T, who string, id string, created bool, want error, after time.Duration) {
	t.Helper()
	if r.id != id || r.created != created || !errors.Is(r.err, want) || r.after != after {
		t.Errorf("%s: %+v, want %q, created %v, %v, after %v", who, *r, id, created, want, after)
	}
}

// TestOneTokenTakesOnePlace repeats one token on 200 connections.
func TestOneTokenTakesOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog = 2, 1 })
		var wg sync.WaitGroup
		var flood [200]*reply
		for i := range flood {
			flood[i] = ask(t.Context(), &wg, s, "flood", oneLamp)
		}
		if p := s.PoolStats(); p.Busy != 1 || p.Backlog != 0 || p.BacklogPeak != 0 {
			t.Errorf("200 of one token: %+v", p)
		}
		honest := ask(t.Context(), &wg, s, "honest", []CartItem{{2, 1}})
		wg.Wait()
		honest.check(t, "the honest one", "order of honest", true, nil, work)
		for i, r := range flood {
			r.check(t, fmt.Sprint("flood ", i), "order of flood", i == 0, nil, work)
		}
		if p := s.PoolStats(); f.places != 2 || p.Completed != 2 || p.Refused != 0 {
			t.Errorf("%d orders worked on, %+v", f.places, p)
		}
		stop()
	})
}

// TestLoopingTokenDelaysByOneOrder has 200 connections repeat one token without
// a pause, while others buy: they wait for one such order at most. What the
// flood itself gets beside its one order, its tries at another cart included,
// is its own affair.
func TestLoopingTokenDelaysByOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		s, stop := running(t, &fakeStore{takes: work}, func(o *Options) { o.Workers, o.Backlog = 1, 2 })
		ctx, cancel := context.WithCancel(t.Context())
		var loops, wg sync.WaitGroup
		var created atomic.Int64
		for i := range 200 {
			loops.Go(func() {
				for ctx.Err() == nil {
					cart := oneLamp
					if i%2 == 1 {
						cart = twoLamps
					}
					_, made, err := s.Place(ctx, Request{Buyer: Buyer{TokenID: "flood"}, Cart: cart})
					if made {
						created.Add(1)
					}
					if ctx.Err() == nil && err != nil && !errors.Is(err, ErrTokenSpent) && !errors.Is(err, ErrOverloaded) {
						t.Errorf("one of the flood: %v", err)
					}
				}
			})
		}
		time.Sleep(work / 2)
		for i := range 20 {
			r := ask(t.Context(), &wg, s, fmt.Sprint("honest ", i), oneLamp)
			wg.Wait()
			if r.err != nil || !r.created || r.after > 2*work {
				t.Errorf("honest %d: %+v", i, *r)
			}
		}
		cancel()
		loops.Wait()
		if created.Load() != 1 {
			t.Errorf("%d of the flood said that they made the order", created.Load())
		}
		stop()
	})
}

func TestTwinsShareWhatTheFirstCameTo(t *testing.T) {
	const work = time.Second
	table := []CartItem{{ProductID: 2, Quantity: 1}}
	lampAndTable := []CartItem{{ProductID: 1, Quantity: 1}, {ProductID: 2, Quantity: 1}}
	tableAndLamp := []CartItem{{ProductID: 2, Quantity: 1}, {ProductID: 1, Quantity: 1}}
	twins := func(name string, f *fakeStore, run func(*testing.T, *Service, *sync.WaitGroup)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f.takes = work
				s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog, o.Deadline = 5, 0, 10*time.Second })
				var wg sync.WaitGroup
				run(t, s, &wg)
				stop()
			})
		})
	}

	twins("the first succeeds", &fakeStore{}, func(t *testing.T, s *Service, wg *sync.WaitGroup) {
		first := ask(t.Context(), wg, s, "t", lampAndTable)
		same := ask(t.Context(), wg, s, "t", tableAndLamp)
		other := ask(t.Context(), wg, s, "t", oneLamp)
		wg.Wait()
		first.check(t, "first", "order of t", true, nil, work)
		same.check(t, "same cart", "order of t", false, nil, work)
		other.check(t, "other cart", "", false, ErrTokenSpent, work)
	})
	twins("the first is sold out", &fakeStore{soldOut: map[int64]bool{2: true}}, func(t *testing.T, s *Service, wg *sync.WaitGroup) {
		first := ask(t.Context(), wg, s, "t", table)
		same := ask(t.Context(), wg, s, "t", table)
		other := ask(t.Context(), wg, s, "t", oneLamp)
		time.Sleep(work)
		synctest.Wait()
		if p := s.PoolStats(); p.Busy != 1 || p.Completed != 1 {
			t.Errorf("after the first: %+v", p)
		}
		late := ask(t.Context(), wg, s, "t", oneLamp) // joins the other's own try
		wg.Wait()
		first.check(t, "first", "", false, ErrSoldOut, work)
		same.check(t, "same cart", "", false, ErrSoldOut, work)
		other.check(t, "other cart", "order of t", true, nil, 2*work)
		late.check(t, "late", "order of t", false, nil, work)
	})
	twins("each in turn", &fakeStore{soldOut: map[int64]bool{2: true, 3: true, 4: true, 5: true}}, func(t *testing.T, s *Service, wg *sync.WaitGroup) {
		replies := map[time.Duration]int{}
		var all []*reply
		for id := range int64(4) {
			all = append(all, ask(t.Context(), wg, s, "t", []CartItem{{ProductID: id + 2, Quantity: 1}}))
		}
		wg.Wait()
		for _, r := range all { // the fake store itself refuses two at once
			replies[r.after]++
			if !errors.Is(r.err, ErrSoldOut) {
				t.Errorf("got %v", r.err)
			}
		}
		for n := range time.Duration(4) {
			if replies[(n+1)*work] != 1 {
				t.Errorf("answered after: %v", replies)
			}
		}
	})
	twins("the database is away", &fakeStore{away: true}, func(t *testing.T, s *Service, wg *sync.WaitGroup) {
		first := ask(t.Context(), wg, s, "t", oneLamp)
		same := ask(t.Context(), wg, s, "t", oneLamp)
		wg.Wait()
		first.check(t, "first", "", false, ErrDatabase, work)
		same.check(t, "same cart", "", false, ErrDatabase, work)
	})
}

func TestTwinsOfOneThatFindsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: 5 * time.Second}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog, o.Deadline = 1, 1, 3*time.Second })
		var wg sync.WaitGroup
		holder := ask(t.Context(), &wg, s, "holder", oneLamp)
		first := ask(t.Context(), &wg, s, "t", oneLamp)
		time.Sleep(time.Second)
		same := ask(t.Context(), &wg, s, "t", oneLamp)
		other := ask(t.Context(), &wg, s, "t", twoLamps)
		wg.Wait()
		holder.check(t, "holder", "order of holder", true, nil, 5*time.Second)
		first.check(t, "first", "", false, ErrOverloaded, 3*time.Second)
		same.check(t, "same cart", "", false, ErrOverloaded, 2*time.Second)
		// It waited two seconds for the first and may wait one more itself.
		other.check(t, "other cart", "", false, ErrOverloaded, 3*time.Second)
		stop()
	})
}

// TestTwinsGiveUpInTime has a first one that takes an hour: it is awaited, its
// twins are not, however they wait.
func TestTwinsGiveUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: time.Hour}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Deadline = 1, 10*time.Second })
		var wg sync.WaitGroup
		first := ask(t.Context(), &wg, s, "t", oneLamp)
		same := ask(t.Context(), &wg, s, "t", oneLamp)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		hasty := ask(ctx, &wg, s, "t", oneLamp)
		wg.Wait()
		first.check(t, "first", "order of t", true, nil, time.Hour)
		same.check(t, "twin", "", false, ErrOverloaded, 10*time.Second)
		hasty.check(t, "hasty twin", "", false, ErrOverloaded, 3*time.Second)
		if !errors.Is(hasty.err, context.DeadlineExceeded) {
			t.Errorf("hasty twin: %v", hasty.err)
		}
		if p := s.PoolStats(); p.Refused != 2 || p.Completed != 1 {
			t.Errorf("two gave up: %+v", p)
		}
		stop()
	})
}

// TestTwinsOutliveTheFirst: that one request gave up, or panicked, says nothing
// about the others of its token.
func TestTwinsOutliveTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: 2 * time.Second}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		var wg sync.WaitGroup
		holder := ask(t.Context(), &wg, s, "holder", oneLamp)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := ask(ctx, &wg, s, "t", oneLamp)
		same := ask(t.Context(), &wg, s, "t", oneLamp)
		wg.Wait()
		holder.check(t, "who is at work", "order of holder", true, nil, 2*time.Second)
		first.check(t, "first", "", false, context.DeadlineExceeded, time.Second)
		same.check(t, "twin", "order of t", true, nil, 4*time.Second)

		once := false
		s.OnCommitted(func(Buyer) {
			if !once {
				once = true
				panic("in the callback")
			}
		})
		wg.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _, _ = s.Place(t.Context(), Request{Buyer: Buyer{TokenID: "u"}, Cart: oneLamp})
		})
		synctest.Wait()
		same = ask(t.Context(), &wg, s, "u", oneLamp)
		wg.Wait()
		same.check(t, "twin of a panic", "order of u", false, nil, 4*time.Second)
		stop()
	})
}

// TestStopRefusesTwins: those who wait for one in the backlog are refused with
// it; those who wait for one at work share what it comes to.
func TestStopRefusesTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: 4 * time.Second}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		var wg sync.WaitGroup
		working := ask(t.Context(), &wg, s, "w", oneLamp)
		itsTwin := ask(t.Context(), &wg, s, "w", oneLamp)
		waiting := ask(t.Context(), &wg, s, "t", oneLamp)
		same := ask(t.Context(), &wg, s, "t", oneLamp)
		other := ask(t.Context(), &wg, s, "t", twoLamps)
		s.Stop(0)
		late := ask(t.Context(), &wg, s, "late", oneLamp)
		wg.Wait()
		working.check(t, "at work", "order of w", true, nil, 4*time.Second)
		itsTwin.check(t, "its twin", "order of w", false, nil, 4*time.Second)
		for who, r := range map[string]*reply{"waiting": waiting, "its twin": same, "with another cart": other, "late": late} {
			r.check(t, who, "", false, ErrStopping, 0)
		}
		if _, err := s.Repeat(t.Context(), Request{Buyer: Buyer{TokenID: "w"}, Cart: oneLamp}); err != nil {
			t.Errorf("a read after the stop: %v", err)
		}
		stop()
	})
}
