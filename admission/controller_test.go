package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
	"sluice/queue/memqueue"
)

// idlePool is a pool whose capacity is its first guess: nothing is measured.
type idlePool struct {
	mu       sync.Mutex
	measured int
}

func (p *idlePool) pool(first float64) *Pool {
	return &Pool{
		Measure: func() Measurement {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.measured++
			return Measurement{At: time.Now(), Workers: 10, BacklogLimit: 1000}
		},
		Describe: func(r *OrdersReport) { r.Refused = 7 },
		Law:      LawSettings{First: first, WaitTarget: 500 * time.Millisecond},
	}
}

// steps is how often it was measured.
func (p *idlePool) steps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.measured
}

// moody is a register that can be away, or hang, for one process.
type moody struct {
	Register
	mu    sync.Mutex
	fails func(ctx context.Context) error // nil: it answers
}

func (m *moody) mood(fails func(ctx context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = fails
}

func (m *moody) failing(ctx context.Context) error {
	m.mu.Lock()
	fails := m.fails
	m.mu.Unlock()
	if fails == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRegister, fails(ctx))
}

func (m *moody) Publish(ctx context.Context, r Report) ([]Report, error) {
	if err := m.failing(ctx); err != nil {
		return nil, err
	}
	return m.Register.Publish(ctx, r)
}

func (m *moody) Withdraw(ctx context.Context, process string) error {
	if err := m.failing(ctx); err != nil {
		return err
	}
	return m.Register.Withdraw(ctx, process)
}

func refuses(context.Context) error { return errors.New("connection refused") }

func hangs(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// crowded is a line in which n wait.
func crowded(t *testing.T, id string, n int) queue.Line {
	t.Helper()
	l, err := memqueue.New(id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := l.Enter(t.Context(), fmt.Sprint("visitor", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// process is one with a controller of its own, and watches of its own.
type process struct {
	*Controller
	t     *testing.T
	log   bytes.Buffer
	stops []func()

	mu      sync.Mutex
	watches map[string]*queue.Watch
}

func start(t *testing.T, name string, r Register, pool *Pool, lines ...queue.Line) *process {
	t.Helper()
	p := &process{t: t, watches: map[string]*queue.Watch{}}
	for _, l := range lines {
		p.open(l)
	}
	synctest.Wait() // the watches have looked
	p.Controller = NewController(ControllerConfig{
		Register: r, Process: name, Queue: true, Pool: pool, Lines: p.lines, Log: slog.New(slog.NewTextHandler(&p.log, nil)),
	})
	p.stops = append(p.stops, running(t, p.Run))
	synctest.Wait()
	return p
}

func (p *process) open(l queue.Line) {
	w := queue.NewWatch(l, 250*time.Millisecond, noLog)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[l.ID()] = w
	p.stops = append(p.stops, running(p.t, w.Run))
}

func (p *process) lines() map[string]*queue.Watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := map[string]*queue.Watch{}
	for id, w := range p.watches {
		lines[id] = w
	}
	return lines
}

// look has the process read its lines and the register now.
func (p *process) look() {
	p.t.Helper()
	for _, w := range p.lines() {
		if err := w.Refresh(p.t.Context()); err != nil {
			p.t.Error(err)
		}
	}
	if err := p.Refresh(p.t.Context()); err != nil {
		p.t.Error(err)
	}
}

// stop ends the controller first, as the last one started.
func (p *process) stop() {
	for i := len(p.stops) - 1; i >= 0; i-- {
		p.stops[i]()
	}
}

func (p *process) logged(lines int) {
	p.t.Helper()
	synctest.Wait()
	if n := strings.Count(p.log.String(), "\n"); n != lines {
		p.t.Errorf("%d lines logged, want %d:\n%s", n, lines, &p.log)
	}
}

// capacity fails the test unless the live processes can do so many orders a second.
func (p *process) capacity(want float64) {
	p.t.Helper()
	o := p.Overview()
	var sum float64
	for _, r := range o.Reports {
		if r.Orders != nil {
			sum += r.Orders.Capacity
		}
	}
	if sum != want || o.Rates.Capacity != want {
		p.t.Errorf("capacity %g of reports of %g, want %g", o.Rates.Capacity, sum, want)
	}
}

// until waits for what must come within d and returns how long it took.
func until(t *testing.T, d time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if ok() {
			return time.Since(begun)
		}
		if time.Since(begun) > d {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func TestControllerHasARateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, r := range map[string]Register{
			"a register":   NewLocalRegister(),
			"none answers": &moody{fails: refuses},
		} {
			p := start(t, "a", r, new(idlePool).pool(100), crowded(t, "sale", 10))
			if rate, why := p.Rater("sale").Rate(); rate <= 0 || why != queue.LimitedByCapacity {
				t.Errorf("%s: %g, %q", name, rate, why)
			}
			if rate, why := p.Rater("nowhere").Rate(); rate != 0 || why == "" {
				t.Errorf("%s: a line that is not there: %g, %q", name, rate, why)
			}
			o := p.Overview()
			if len(o.Reports) != 1 || o.Process != "a" || o.Queues != 1 {
				t.Fatalf("%s: %+v", name, o)
			}
			if r := o.Reports[0]; r.Process != "a" || !r.Queue || r.Orders.Capacity != 100 || r.Orders.Workers != 10 || r.Orders.BacklogLimit != 1000 ||
				r.Orders.Refused != 7 || r.Orders.WaitTarget != 500*time.Millisecond {
				t.Errorf("%s: %+v", name, r)
			}
			p.stop()
		}
	})
}

func TestControllersAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sale := NewLocalRegister(), crowded(t, "sale", 5000)
		a := start(t, "a", r, new(idlePool).pool(100), sale)
		time.Sleep(330 * time.Millisecond) // out of phase
		b := start(t, "b", r, new(idlePool).pool(50), sale)
		tickers := []*Ticker{}
		for _, p := range []*process{a, b} {
			ticker := NewTicker(sale, p.Rater("sale"), 100*time.Millisecond, noLog)
			tickers = append(tickers, ticker)
			p.stops = append(p.stops, running(t, ticker.Run))
		}
		time.Sleep(2050 * time.Millisecond) // between two batches
		for range 20 {
			time.Sleep(time.Second)
			a.capacity(150)
			b.capacity(150)
			// What they see at one moment is one thing, so they say one thing.
			a.look()
			b.look()
			ra, rb := a.Overview().Rates, b.Overview().Rates
			if la, lb := ra.Lines["sale"], rb.Lines["sale"]; la.Rate <= 0 || la != lb || ra.InPipe != rb.InPipe {
				t.Errorf("one would let in %+v, the other %+v", la, lb)
			}
		}
		if o := a.Overview(); o.Queues != 2 || o.Age > time.Second {
			t.Errorf("%+v", o)
		}
		a.stop()
		b.stop()
		if n := tickers[0].Stats().Admitted + tickers[1].Stats().Admitted; n == 0 {
			t.Error("nobody was let in")
		}
	})
}

func TestADeadProcessIsNotCountedANewOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sale := NewLocalRegister(), crowded(t, "sale", 5000)
		for phase := range 10 {
			a := start(t, "a", r, new(idlePool).pool(100), sale)
			time.Sleep(time.Duration(phase) * 100 * time.Millisecond)
			life := &moody{Register: r}
			b := start(t, "b", life, new(idlePool).pool(50), sale)
			until(t, 2*time.Second, "the new one counts", func() bool { return a.Overview().Rates.Capacity == 150 })
			time.Sleep(time.Duration(phase) * 70 * time.Millisecond)
			life.mood(refuses) // killed: it does not even withdraw
			b.stop()
			took := until(t, 4*time.Second, "the dead one is forgotten", func() bool { return a.Overview().Rates.Capacity == 100 })
			if took < time.Second {
				t.Errorf("forgotten after %s: it might have been a late round", took)
			}
			a.capacity(100)
			a.stop()
		}
	})
}

func TestAStoppedProcessWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sale := NewLocalRegister(), crowded(t, "sale", 10)
		a := start(t, "a", r, new(idlePool).pool(100), sale)
		b := start(t, "b", r, new(idlePool).pool(50), sale)
		time.Sleep(5 * time.Second)
		a.capacity(150)
		begun := time.Now()
		b.stop()
		if time.Since(begun) != 0 {
			t.Errorf("stopping took %s", time.Since(begun))
		}
		time.Sleep(roundEvery + time.Millisecond)
		a.capacity(100)
		a.logged(0)
		b.logged(0)
		a.stop()
	})
}

// A process that drains takes no more orders, and still lets in at what the others
// can do.
func TestARetiredProcessGoesOnWithoutItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sale := NewLocalRegister(), crowded(t, "sale", 10)
		a := start(t, "a", r, new(idlePool).pool(100), sale)
		b := start(t, "b", r, new(idlePool).pool(50), sale)
		time.Sleep(2 * time.Second)
		if err := b.Retire(t.Context()); err != nil {
			t.Error(err)
		}
		b.capacity(100)
		for range 5 {
			time.Sleep(roundEvery + time.Millisecond)
			a.capacity(100)
			b.capacity(100)
		}
		if rate, _ := b.Rater("sale").Rate(); rate <= 0 || a.Overview().Queues != 2 {
			t.Errorf("%g/s, %d instances", rate, a.Overview().Queues)
		}
		a.stop()
		b.stop()
	})
}

func TestAControllerStopsInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &moody{Register: NewLocalRegister()}
		a := start(t, "a", r, new(idlePool).pool(100))
		time.Sleep(100 * time.Millisecond)
		r.mood(hangs)
		begun := time.Now()
		a.stop()
		if d := time.Since(begun); d != withdrawWithin {
			t.Errorf("stopping took %s", d)
		}
		a.logged(1)
	})
}

func TestControllerWhileTheRegisterIsAway(t *testing.T) {
	for name, mood := range map[string]func(context.Context) error{"refuses": refuses, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, sale := NewLocalRegister(), crowded(t, "sale", 5000)
				own := &moody{Register: shared}
				var pool idlePool
				a := start(t, "a", own, pool.pool(100), sale)
				b := start(t, "b", shared, new(idlePool).pool(50), sale)
				time.Sleep(5500 * time.Millisecond)
				a.capacity(150)

				own.mood(mood)
				steps := pool.steps()
				time.Sleep(8 * time.Second)
				a.capacity(150)
				if o := a.Overview(); o.Age < 8*time.Second || o.Age > 9*time.Second {
					t.Errorf("the register was away for 8 s, its age is %s", o.Age)
				}
				time.Sleep(4 * time.Second)
				a.capacity(100)
				b.capacity(50)
				if rate, _ := a.Rater("sale").Rate(); rate <= 0 {
					t.Error("its own capacity is worth nothing")
				}
				if n := pool.steps() - steps; n != 12 {
					t.Errorf("%d steps of the law in 12 s", n)
				}
				a.logged(1)

				own.mood(nil)
				time.Sleep(2 * time.Second)
				a.capacity(150)
				b.capacity(150)
				a.logged(2)
				a.stop()
				b.stop()
			})
		})
	}
}

func TestControllerFindsLinesThatAppear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, "a", NewLocalRegister(), new(idlePool).pool(100), crowded(t, "sale", 10))
		rater := p.Rater("side") // its ticker may be there first
		time.Sleep(time.Second)
		if rate, _ := rater.Rate(); rate != 0 {
			t.Errorf("%g/s for a line that is not there", rate)
		}
		p.open(crowded(t, "side", 10))
		time.Sleep(1100 * time.Millisecond)
		if rate, _ := rater.Rate(); rate <= 0 {
			t.Error("the new line has no rate")
		}
		p.stop()
	})
}

// A process without orders lets people in at what the others can do, and counts
// for the polls.
func TestControllerWithoutAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sale := NewLocalRegister(), crowded(t, "sale", 10)
		q := start(t, "q", r, nil, sale)
		if rate, _ := q.Rater("sale").Rate(); rate != 0 {
			t.Errorf("%g/s with nobody who takes orders", rate)
		}
		o := start(t, "o", r, new(idlePool).pool(100), sale)
		time.Sleep(2 * time.Second)
		q.capacity(100)
		if rate, _ := q.Rater("sale").Rate(); rate <= 0 {
			t.Error("it does not use the others' capacity")
		}
		for _, report := range q.Overview().Reports {
			if (report.Orders != nil) != (report.Process == "o") {
				t.Errorf("%+v", report)
			}
		}
		q.stop()
		o.stop()
	})
}

// Refresh is for whoever cannot wait for the next round; the law has one user.
func TestRoundsAreOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &moody{Register: NewLocalRegister()}
		p := start(t, "a", r, new(idlePool).pool(100))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := p.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.mood(hangs)
		go func() { _ = p.Refresh(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrRegister) {
			t.Errorf("a round beside another: %v", err)
		}
		time.Sleep(time.Minute)
		if err := p.Refresh(t.Context()); !errors.Is(err, ErrRegister) {
			t.Errorf("the register hangs: %v", err)
		}
		p.stop()
	})
}
