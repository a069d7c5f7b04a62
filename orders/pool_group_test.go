package orders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counter is work on products that takes its time, and that notes its groups and
// whether two of them had a product at once.
type counter struct {
	work
	takes time.Duration
	pool  *Pool

	mu     sync.Mutex
	groups []string // guarded by mu; names of each, as they began
	atWork map[int64]bool
	shared bool // two groups had one product at the same time
}

type sale struct {
	name     string
	products []int64
	ran      bool
	context  error // of the work, when it was done
}

func (s *sale) keys() []int64  { return s.products }
func (*sale) counts() standing { return another }

func newCounter(p *Pool, most int, takes time.Duration) *counter {
	c := &counter{takes: takes, pool: p, atWork: map[int64]bool{}}
	c.most, c.do = most, c.sell
	return c
}

func (c *counter) mark(group []unit, atWork bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	products := map[int64]bool{}
	for _, u := range group {
		names = append(names, u.(*sale).name)
		for _, p := range u.(*sale).products {
			products[p] = true
		}
	}
	for p := range products {
		c.shared = c.shared || c.atWork[p] == atWork
		c.atWork[p] = atWork
	}
	if atWork {
		c.groups = append(c.groups, strings.Join(names, " "))
	}
}

func (c *counter) sell(ctx context.Context, group []unit) {
	c.mark(group, true)
	defer c.mark(group, false)
	time.Sleep(c.takes)
	for _, u := range group {
		s := u.(*sale)
		if s.ran, s.context = true, ctx.Err(); s.name == "bomb" {
			panic("out of paper")
		}
	}
}

// sold is what came of a sale, and when since the test began.
type sold struct {
	sale
	err   error
	after time.Duration
}

// ask submits in a goroutine of its own and returns when nothing moves any more.
func (c *counter) ask(ctx context.Context, wg *sync.WaitGroup, name string, products ...int64) *sold {
	s, start := &sold{sale: sale{name: name, products: products}}, time.Now()
	wg.Go(func() {
		s.err = c.pool.submit(ctx, start.Add(c.pool.opts.Deadline), &c.work, &s.sale)
		s.after = time.Since(start)
	})
	synctest.Wait()
	return s
}

func (s *sold) check(t *testing.T, want error, after time.Duration) {
	t.Helper()
	if !errors.Is(s.err, want) || s.ran != (want == nil) || s.after != after {
		t.Errorf("%s: %v, ran %v, after %v; want %v after %v", s.name, s.err, s.ran, s.after, want, after)
	}
}

func (c *counter) check(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.groups, want) {
		t.Errorf("groups %q, want %q", c.groups, want)
	}
	if c.shared {
		t.Error("two groups had one product at once")
	}
}

// grouping is a counter of 10 s a group inside a bubble.
func grouping(t *testing.T, opts PoolOptions, run func(t *testing.T, c *counter, wg *sync.WaitGroup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, opts)
		var wg sync.WaitGroup
		run(t, newCounter(p, 500, 10*time.Second), &wg)
		wg.Wait()
		stop()
	})
}

var roomy = PoolOptions{Workers: 4, Backlog: 1000, Deadline: time.Minute}

// Nobody who finds a worker free waits for company.
func TestLoneUnitsBeginAtOnce(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		a := c.ask(t.Context(), wg, "a", 1)
		b := c.ask(t.Context(), wg, "b", 2)
		if s := c.pool.Stats(); s.Busy != 2 || s.Running != 2 || s.Backlog != 0 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		a.check(t, nil, 10*time.Second)
		b.check(t, nil, 10*time.Second)
		c.check(t, "a", "b")
	})
}

// A product that everybody wants has one group at work; the others go together with
// the next, and leave the workers to other products meanwhile.
func TestHotProductBesideAColdOne(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		const hot, cold = 1, 2
		var all []*sold
		for i := range 5 {
			all = append(all, c.ask(t.Context(), wg, fmt.Sprint("hot", i), hot))
		}
		if s := c.pool.Stats(); s.Busy != 1 || s.Backlog != 4 {
			t.Errorf("%+v", s)
		}
		time.Sleep(4 * time.Second)
		coldOne := c.ask(t.Context(), wg, "cold", cold)
		if s := c.pool.Stats(); s.Busy != 2 || s.Backlog != 4 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		coldOne.check(t, nil, 10*time.Second)
		for i, s := range all {
			s.check(t, nil, map[bool]time.Duration{true: 10 * time.Second, false: 20 * time.Second}[i == 0])
		}
		c.check(t, "hot0", "cold", "hot1 hot2 hot3 hot4")
	})
}

// When a group ends every free worker takes what has become possible.
func TestEveryFreeWorkerGoesOn(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		c.ask(t.Context(), wg, "first", 1, 2, 3)
		for i := range 6 {
			c.ask(t.Context(), wg, fmt.Sprint(i), int64(1+i%3))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := c.pool.Stats(); s.Busy != 2 || s.Running != 6 || s.Backlog != 0 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		slices.Sort(c.groups[1:]) // the two begin in the same instant
		c.check(t, "first", "0 1 3 4", "2 5")
	})
}

// What waits for several products keeps its turn for each; when it gives up, those
// behind it go on in the same instant.
func TestWhoGivesUpIsInNobodysWay(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		c.ask(t.Context(), wg, "one", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		both := c.ask(ctx, wg, "both", 1, 2)
		two := c.ask(t.Context(), wg, "two", 2)
		if s := c.pool.Stats(); s.Busy != 1 || s.Backlog != 2 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		both.check(t, context.DeadlineExceeded, 3*time.Second)
		two.check(t, nil, 13*time.Second)
		c.check(t, "one", "two")
	})
}

// The deadline bounds the wait in the backlog. Who was taken is awaited, however long
// it takes, also when their own context and that of the group's leader have ended.
func TestWhoWasTakenIsAwaited(t *testing.T) {
	opts := roomy
	opts.Deadline = 11 * time.Second
	grouping(t, opts, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		c.most = 2
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		c.ask(t.Context(), wg, "first", 1)
		leader := c.ask(ctx, wg, "leader", 1)
		member := c.ask(ctx, wg, "member", 1)
		late := c.ask(t.Context(), wg, "late", 1)
		wg.Wait()
		for _, s := range []*sold{leader, member} {
			s.check(t, nil, 20*time.Second)
			if s.context != nil {
				t.Errorf("%s: its work's context: %v", s.name, s.context)
			}
		}
		late.check(t, ErrOverloaded, 11*time.Second)
		if s := c.pool.Stats(); s.Refused != 1 || s.Completed != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// A panic is an error for all of its group, told once, and for nobody else.
func TestPanicInAGroup(t *testing.T) {
	var logged bytes.Buffer
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		c.pool.log = slog.New(slog.NewTextHandler(&logged, nil))
		var all []*sold
		for _, name := range []string{"before", "lucky", "bomb", "unlucky"} {
			all = append(all, c.ask(t.Context(), wg, name, 1))
		}
		time.Sleep(19 * time.Second)
		after := c.ask(t.Context(), wg, "after", 1)
		wg.Wait()
		for _, s := range all[1:] {
			if s.err == nil || !strings.Contains(s.err.Error(), "out of paper") || s.after != 20*time.Second {
				t.Errorf("%s: %v after %v", s.name, s.err, s.after)
			}
		}
		all[0].check(t, nil, 10*time.Second)
		after.check(t, nil, 11*time.Second)
		if n := strings.Count(logged.String(), "out of paper"); n != 1 {
			t.Errorf("logged %d times: %s", n, logged.String())
		}
	})
}

// A pool that stops refuses those who wait in the same instant; groups at work go on
// to their end, and the pool waits for them.
func TestStopWhileGroupsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, roomy)
		c := newCounter(p, 2, 10*time.Second)
		var wg sync.WaitGroup
		c.ask(t.Context(), &wg, "first", 1)
		members := []*sold{c.ask(t.Context(), &wg, "a", 1), c.ask(t.Context(), &wg, "b", 1)}
		var waiting []*sold
		for range 3 {
			waiting = append(waiting, c.ask(t.Context(), &wg, "waits", 1))
		}
		time.Sleep(15 * time.Second)
		start := time.Now()
		stop()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("drained in %v", took)
		}
		wg.Wait()
		for _, s := range members {
			s.check(t, nil, 20*time.Second)
		}
		for _, s := range waiting {
			s.check(t, ErrStopping, 15*time.Second)
		}
	})
}

// Apart, everybody goes alone and beside the others, whatever they want; also those
// who waited when it began.
func TestApart(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		for i := range 3 {
			c.ask(t.Context(), wg, fmt.Sprint(i), 1)
		}
		c.pool.setApart(true)
		synctest.Wait()
		for i := range 2 {
			c.ask(t.Context(), wg, fmt.Sprint(3+i), 1)
		}
		if s := c.pool.Stats(); s.Busy != 4 || s.Running != 4 || s.Backlog != 1 {
			t.Errorf("%+v", s)
		}
		wg.Wait()
		slices.Sort(c.groups)
		if got := strings.Join(c.groups, ", "); got != "0, 1, 2, 3, 4" {
			t.Errorf("groups %s", got)
		}
		c.groups, c.shared, c.atWork = nil, false, map[int64]bool{}
		c.pool.setApart(false)
		for _, name := range []string{"a", "b", "c"} {
			c.ask(t.Context(), wg, name, 1)
		}
		wg.Wait()
		c.check(t, "a", "b c")
	})
}

// All workers count as used while anything waits, though one alone may work.
func TestGroupsInTheStats(t *testing.T) {
	grouping(t, roomy, func(t *testing.T, c *counter, wg *sync.WaitGroup) {
		c.ask(t.Context(), wg, "first", 1)
		time.Sleep(5 * time.Second)
		for range 3 {
			c.ask(t.Context(), wg, "x", 1)
		}
		wg.Wait()
		s := c.pool.Stats()
		if s.Completed != 4 || s.Groups != 2 || s.Running != 0 || s.BusyTime != 20*time.Second || s.UsedTime != 5*time.Second+4*5*time.Second+10*time.Second {
			t.Errorf("%+v", s)
		}
		near(t, "work p50", s.Work.P50, 10*time.Second)
		near(t, "wait p95", s.Wait.P95, 5*time.Second)
	})
}

// TestGroupsUnderRaces lets deadlines, contexts and ends of groups meet at the same
// instants: each unit runs exactly if it is not refused, and no two groups have one
// product at once.
func TestGroupsUnderRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := runningPool(t, PoolOptions{Workers: 4, Backlog: 40, Deadline: 6 * time.Millisecond})
		c := newCounter(p, 5, 3*time.Millisecond)
		const n = 3000
		var ran, refused atomic.Int64
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				time.Sleep(time.Duration(rand.IntN(n/2)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(8))*time.Millisecond)
				defer cancel()
				s := &sale{products: []int64{rand.Int64N(3), 3 + rand.Int64N(6)}[rand.IntN(2):]}
				err := p.submit(ctx, time.Now().Add(p.opts.Deadline), &c.work, s)
				switch {
				case err == nil && s.ran:
					ran.Add(1)
				case errors.Is(err, ErrOverloaded) && !s.ran:
					refused.Add(1)
				default:
					t.Errorf("ran %v but got %v", s.ran, err)
				}
			})
		}
		wg.Wait()
		s := p.Stats()
		if ran.Load() == 0 || refused.Load() == 0 || s.Completed != ran.Load() || s.Refused != refused.Load() || s.Groups >= s.Completed {
			t.Errorf("%d ran, %d were refused: %+v", ran.Load(), refused.Load(), s)
		}
		if s.Busy != 0 || s.Running != 0 || s.Backlog != 0 || len(p.waiting.lines) != 0 || c.shared {
			t.Errorf("in the end: %+v, %d lines, shared %v", s, len(p.waiting.lines), c.shared)
		}
		stop()
	})
}
