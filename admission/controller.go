package admission

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/queue"
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
// them can, and works out the rate of each line, once a second.
type Controller struct {
	cfg    ControllerConfig
	latest atomic.Pointer[Overview]
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
func NewController(cfg ControllerConfig) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx ends; then it withdraws the process's report and returns
// nil.
func (c *Controller) Run(ctx context.Context) error {
	<-ctx.Done() // STUB
	return nil
}

// Refresh does one round at once; Run does it by itself. An error says that the
// register did not answer: the last overview stands.
func (c *Controller) Refresh(ctx context.Context) error { return nil } // STUB

// Overview is what is known now.
func (c *Controller) Overview() Overview {
	if o := c.latest.Load(); o != nil {
		return *o
	}
	return Overview{Queues: 1}
}

// Rater is the rate of one line.
func (c *Controller) Rater(line string) Rater { return lineRater{c, line} }

type lineRater struct {
	c    *Controller
	line string
}

// Rate implements [Rater].
func (r lineRater) Rate() (float64, queue.LimitedBy) {
	rate := r.c.Overview().Rates.Lines[r.line]
	if rate.Why == "" {
		rate.Why = queue.LimitedByCapacity
	}
	return rate.Rate, rate.Why
}
