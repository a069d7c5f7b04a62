package orders

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// PoolOptions bound a [Pool]. Start from the fields' documented defaults in
// [DefaultOptions]; a zero value is not a default.
type PoolOptions struct {
	// Workers is how many units of work run at the same time.
	Workers int
	// Backlog is how many submissions may wait for a worker. 0: none waits.
	Backlog int
	// Deadline is how long a submission waits for a worker at most. It does
	// not bound the work itself.
	Deadline time.Duration
}

// Validate reports every mistake at once.
func (o PoolOptions) Validate() error {
	var errs []error
	if o.Workers < 1 || o.Workers > 10_000 {
		errs = append(errs, fmt.Errorf("workers must be between 1 and 10000, not %d", o.Workers))
	}
	if o.Backlog < 0 || o.Backlog > 1_000_000 {
		errs = append(errs, fmt.Errorf("backlog must be between 0 and 1000000, not %d", o.Backlog))
	}
	if o.Deadline <= 0 || o.Deadline > 10*time.Minute {
		errs = append(errs, fmt.Errorf("deadline must be above 0 and at most 10m, not %s", o.Deadline))
	}
	return errors.Join(errs...)
}

// Pool lets a bounded number of units of work run, and a bounded number wait,
// first come first served. It knows nothing of orders: the same pool can stand
// in front of anything that is slow and must not be overrun.
//
// A worker is a permit, not a goroutine: the submitter's own goroutine runs
// the work once a permit is handed to it. That leaves no channel between the
// two on which a result, or an abandoned submission, could be lost.
type Pool struct {
	opts PoolOptions
	log  *slog.Logger

	mu      sync.Mutex
	busy    int        // guarded by mu; permits in use
	waiting *list.List // guarded by mu; of *submission, oldest in front
	stopped bool       // guarded by mu; nothing new is taken, and nobody waits
	drained chan struct{}
	record  record // guarded by mu
}

// submission is somebody waiting for a permit.
type submission struct {
	decided chan struct{} // closed, under the pool's mu, when it leaves the backlog
	refusal error         // set before that; nil: a permit was handed over
}

// NewPool checks the options; it starts nothing. A pool takes work at once,
// until [Pool.Stop].
func NewPool(opts PoolOptions, log *slog.Logger) (*Pool, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("order pool: %w", err)
	}
	return &Pool{
		opts:    opts,
		log:     log,
		waiting: list.New(),
		drained: make(chan struct{}),
		record:  newRecord(time.Now()),
	}, nil
}

// Do waits for a worker and runs the work on it, with the caller's context.
//
// It returns [ErrOverloaded] when the backlog is full, or the deadline or ctx
// ended before a worker was free, and [ErrStopping] when the pool stopped
// before that; then the work never ran and never will. Once a worker is free
// for it the work runs and Do returns its result, however long it takes. A
// panic in the work is an error.
func (p *Pool) Do(ctx context.Context, do func(context.Context) error) error {
	alone := &work{most: 1, do: func(ctx context.Context, group []unit) {
		single := group[0].(*single)
		single.err = do(ctx)
	}}
	u := &single{}
	if err := p.submit(ctx, time.Now().Add(p.opts.Deadline), alone, u); err != nil {
		return err
	}
	return u.err
}

// work is one kind of work that can be done for several submissions at once: for
// orders, writing all of a group in one transaction.
type work struct {
	most int // units in one group
	// do does the work of the group and notes in each unit what came of it.
	do func(ctx context.Context, group []unit)
}

// unit is what one submission wants done.
type unit interface {
	// keys are what no two groups of one work may be at the same time, ascending: the
	// products of an order, since the database would make the second wait for the first.
	keys() []int64
	// standing tells, once the work is done, how the unit counts: [standingOf].
	standing() standing
}

// single is a unit that is done alone.
type single struct{ err error }

func (*single) keys() []int64      { return nil }
func (*single) standing() standing { return another }

// submit waits for a worker until then at most and has the unit's work done. The
// errors are those of [Pool.Do]; a panic in the work is one too.
func (p *Pool) submit(ctx context.Context, until time.Time, w *work, u unit) error {
	arrived := time.Now()
	if err := p.acquire(ctx, until); err != nil {
		return err
	}
	started := time.Now()
	defer func() { p.release(arrived, started, u.standing()) }()
	return p.guarded(ctx, func(ctx context.Context) error {
		w.do(ctx, []unit{u})
		return nil
	})
}

// guarded turns a panic into an error: one bad request must not end the
// process that serves all the others.
func (p *Pool) guarded(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("panic in a unit of work", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("orders: panic in a unit of work: %v", v)
		}
	}()
	return work(ctx)
}

func (p *Pool) acquire(ctx context.Context, until time.Time) error {
	element, err := p.enqueue(ctx)
	if element == nil || err != nil {
		return err
	}
	waiting := element.Value.(*submission)
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	select {
	case <-waiting.decided:
		return waiting.refusal
	case <-ctx.Done():
		return p.abandon(element, fmt.Errorf("%w: %w", ErrOverloaded, context.Cause(ctx)))
	case <-deadline.C:
		return p.abandon(element, ErrOverloaded)
	}
}

// enqueue takes a free permit (nil, nil) or a place in the backlog.
func (p *Pool) enqueue(ctx context.Context) (*list.Element, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		p.record.refused++
		return nil, ErrStopping
	case ctx.Err() != nil:
		p.record.refused++
		return nil, fmt.Errorf("%w: %w", ErrOverloaded, context.Cause(ctx))
	case p.busy < p.opts.Workers: // then nobody waits: release hands permits on
		p.setBusy(p.busy + 1)
		return nil, nil
	case p.waiting.Len() >= p.opts.Backlog:
		p.record.refused++
		return nil, ErrOverloaded
	}
	element := p.waiting.PushBack(&submission{decided: make(chan struct{})})
	p.record.backlogPeak = max(p.record.backlogPeak, p.waiting.Len())
	return element, nil
}

// abandon gives up a place in the backlog, at once. If a permit was handed
// over in the same moment the worker was in time, and the work runs; if the
// pool stopped in the same moment, that stands.
func (p *Pool) abandon(element *list.Element, because error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := element.Value.(*submission)
	select {
	case <-waiting.decided:
		return waiting.refusal
	default:
	}
	p.waiting.Remove(element)
	p.record.refused++
	return because
}

// countRefused counts somebody whose wait for a worker ended outside of the
// backlog.
func (p *Pool) countRefused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.refused++
}

// release notes what the work cost and hands the permit to who waits longest.
func (p *Pool) release(arrived, started time.Time, s standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.record.done(now, started.Sub(arrived), now.Sub(started), s)
	if front := p.waiting.Front(); front != nil {
		p.waiting.Remove(front)
		close(front.Value.(*submission).decided)
		return
	}
	p.setBusy(p.busy - 1)
	p.closeIfDrained()
}

// setBusy is called with mu held.
func (p *Pool) setBusy(n int) {
	p.record.advance(time.Now(), p.busy)
	p.busy = n
}

// closeIfDrained is called with mu held.
func (p *Pool) closeIfDrained() {
	if !p.stopped || p.busy > 0 {
		return
	}
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}

// Stop takes nothing new from now on and refuses everybody who waits, at once,
// with [ErrStopping]. What runs goes on to its end. It does not wait for that,
// [Pool.Run] does; to call it again changes nothing.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for front := p.waiting.Front(); front != nil; front = p.waiting.Front() {
		waiting := p.waiting.Remove(front).(*submission)
		p.record.refused++
		waiting.refusal = ErrStopping
		close(waiting.decided)
	}
	p.closeIfDrained()
}

// Run waits until ctx ends, stops the pool, waits for what still runs, and
// returns nil.
func (p *Pool) Run(ctx context.Context) error {
	<-ctx.Done()
	p.Stop()
	<-p.drained
	return nil
}
