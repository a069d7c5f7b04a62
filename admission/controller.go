package admission

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"sluice/queue"
)

const (
	// roundEvery is the time between two rounds of a controller.
	roundEvery = time.Second
	// publishDeadline bounds the register's part of one: what it costs while the
	// register hangs must leave the law its rhythm.
	publishDeadline = 500 * time.Millisecond
	withdrawWithin  = 2 * time.Second
	// othersStand is how long the other processes' reports are believed while the
	// register does not answer. One that died meanwhile is still counted, but the
	// lines live where the register does: as long as it is away nobody is let in
	// by it, and when it is back it tells who is left.
	othersStand = 10 * time.Second
	// viewStands is the age from which a line's view does not count.
	viewStands = 3 * time.Second
)

// Pool is the order side as the controller measures it.
type Pool struct {
	Measure func() Measurement
	// Describe fills in what operators see beside the law's findings: counters and
	// percentiles.
	Describe func(*OrdersReport)
	Law      LawSettings
}

// ControllerConfig is what a controller is made of.
type ControllerConfig struct {
	Register Register
	Process  string
	Queue    bool  // this process answers polls
	Pool     *Pool // nil: it takes no orders
	// Lines are the lines of this process at the moment, by id.
	Lines func() map[string]*queue.Watch
	Log   *slog.Logger
}

// Controller publishes what this process's order side can do, reads what all of
// them can, and works out the rate of each line, once a second. It asks the lines
// nothing: their watches have read them.
type Controller struct {
	cfg     ControllerConfig
	latest  atomic.Pointer[finding]
	retired atomic.Bool

	// rounding is held during a round: rounds are one after the other, and what
	// follows has one user.
	rounding chan struct{}
	law      LawState
	others   []Report  // as last read
	answered time.Time // when the register last did, or the start; monotonic
	demands  map[string]demand
	outage   queue.Outage
}

// finding is an overview as a round left it.
type finding struct {
	Overview
	answered time.Time
	steady   map[string]Steady // by line; what is not known any more stays
}

// Steady is what a line can let in when nothing is known of it but what it could do: its
// share of the capacity, without regard to what is in the pipe at the moment.
type Steady struct {
	// Rate is in admissions per second, of all processes together.
	Rate float64
	// Queues is how many processes answer polls, and Index which of them, from 0, this one
	// is. Queues is 0 before anything is known.
	Queues, Index int
}

// Overview is the latest of what a controller knows.
type Overview struct {
	// Process is the name of this one.
	Process string
	// Reports are those of the live processes, by name.
	Reports []Report
	Rates   Rates
	// Queues is how many live processes answer polls, at least 1.
	Queues int
	// Age is the time since the register last answered, or since the start.
	Age time.Duration
}

// NewController starts nothing.
func NewController(cfg ControllerConfig) *Controller {
	c := &Controller{
		cfg: cfg, rounding: make(chan struct{}, 1), answered: time.Now(), demands: make(map[string]demand),
	}
	c.latest.Store(&finding{Overview: Overview{Process: cfg.Process, Queues: 1}, answered: c.answered})
	return c
}

// Run does a round at once and then each second until ctx ends; then it withdraws
// the process's report, for two seconds at most, and returns nil. A register that
// does not answer does not stop it; it is logged when that begins and ends.
func (c *Controller) Run(ctx context.Context) error {
	rounds := time.NewTicker(roundEvery)
	defer rounds.Stop()
	for {
		_ = c.Refresh(ctx) // logged by it
		select {
		case <-ctx.Done():
			return c.withdraw(ctx)
		case <-rounds.C:
		}
	}
}

// withdraw takes the report out although ctx has ended.
func (c *Controller) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawWithin)
	defer cancel()
	if err := c.cfg.Register.Withdraw(ctx, c.cfg.Process); err != nil {
		c.cfg.Log.Warn("this process could not be taken out of the register; the others count it until its report is stale",
			"stale_after", StaleAfter, "error", err)
	}
	return nil
}

// Refresh does one round at once; Run does it by itself. An error says that the
// register did not answer: the rates then rest on this process's own finding and,
// for ten seconds, on what the others last told.
func (c *Controller) Refresh(ctx context.Context) error {
	select {
	case c.rounding <- struct{}{}:
		defer func() { <-c.rounding }()
	case <-ctx.Done():
		return fmt.Errorf("admission: waiting for a round: %w", ctx.Err())
	}
	reports, err := c.exchange(ctx, c.report())
	if ctx.Err() == nil { // else an error is of the caller, not of the register
		c.outage.Note(c.cfg.Log, err, "the other processes are not known: the register does not answer", "the register answers again")
	}
	f := &finding{Overview{
		Process: c.cfg.Process, Reports: reports, Rates: ShareOut(reports, c.lines()), Queues: queues(reports),
	}, c.answered, c.latest.Load().steady}
	if err == nil {
		f.steady = f.steadies(f.steady)
	}
	c.latest.Store(f)
	return err
}

// steadies are those of the lines that are known, and for the others what was.
func (f *finding) steadies(before map[string]Steady) map[string]Steady {
	all := maps.Clone(before)
	if all == nil {
		all = make(map[string]Steady, len(f.Rates.Lines))
	}
	for id, rate := range f.Rates.Lines {
		all[id] = Steady{Rate: f.Rates.Capacity * rate.Share / rate.Conversion, Queues: f.Queues, Index: f.index()}
	}
	return all
}

// index is which of the processes that answer polls this one is.
func (f *finding) index() (n int) {
	for _, r := range f.Reports {
		if r.Queue && r.Process < f.Process {
			n++
		}
	}
	return n
}

// Steady is what is known of a line's steady rate, as of when the register answered last:
// it stands as long as that is away.
func (c *Controller) Steady(line string) Steady { return c.latest.Load().steady[line] }

// Retire has this process counted no more as one that takes orders, at once, while
// it goes on with the rest: it drains, and whoever is let in now would not find it.
// An error says that the register did not answer; the next round tells it.
func (c *Controller) Retire(ctx context.Context) error {
	c.retired.Store(true)
	return c.Refresh(ctx)
}

// report measures this process.
func (c *Controller) report() Report {
	r := Report{Process: c.cfg.Process, At: time.Now(), Queue: c.cfg.Queue}
	pool := c.cfg.Pool
	if pool == nil || c.retired.Load() {
		return r
	}
	m := pool.Measure()
	c.law = Next(c.law, m, pool.Law)
	r.Orders = &OrdersReport{
		Capacity: c.law.Capacity, Reason: c.law.Reason, WaitTarget: pool.Law.WaitTarget,
		Throughput: c.law.Throughput, Utilisation: c.law.Utilisation,
		Workers: m.Workers, Busy: m.Busy, Backlog: m.Backlog, BacklogLimit: m.BacklogLimit,
		Completed: m.Completed, Returning: c.law.Returning,
	}
	pool.Describe(r.Orders)
	return r
}

// exchange gives this process's report for those of all. Without an answer they
// are its own and what is still believed of the others.
func (c *Controller) exchange(ctx context.Context, own Report) ([]Report, error) {
	ctx, cancel := context.WithTimeout(ctx, publishDeadline)
	defer cancel()
	reports, err := c.cfg.Register.Publish(ctx, own)
	if err == nil {
		c.others, c.answered = without(reports, own.Process), time.Now()
		return reports, nil
	}
	if time.Since(c.answered) >= othersStand {
		c.others = nil
	}
	return with(c.others, own), err
}

// Overview is what is known now. Its reports and rates are shared by all who ask,
// and must not be changed.
func (c *Controller) Overview() Overview {
	f := c.latest.Load()
	o := f.Overview
	o.Age = time.Since(f.answered)
	return o
}

// Rater is the rate of one line; it lets nobody in before the first round that
// found the line.
func (c *Controller) Rater(line string) Rater { return lineRater{c, line} }

type lineRater struct {
	c    *Controller
	line string
}

// Rate implements [Rater].
func (r lineRater) Rate() (float64, queue.LimitedBy) {
	rate := r.c.latest.Load().Rates.Lines[r.line]
	if rate.Why == "" {
		rate.Why = queue.LimitedByCapacity
	}
	return rate.Rate, rate.Why
}
