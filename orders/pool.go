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
	// Workers is how many groups of units of work run at the same time.
	Workers int
	// Backlog is how many submissions may wait for a worker. 0: none waits, so nothing
	// goes together, and whoever wants what somebody is at work with is refused.
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

// Pool lets a bounded number of workers work, and a bounded number of units of work
// wait, first come first served. It knows nothing of orders: the same pool can stand
// in front of anything that is slow and must not be overrun.
//
// A worker that becomes free takes all that it can do at once: a group, by the rules of
// [backlog]. Nothing waits for a group to fill: who finds a worker free, and nobody at
// work with the same keys, is a group of one.
//
// A worker is a permit, not a goroutine: the goroutine of a group's oldest member runs
// the work for all of it. That leaves no hand-over on which a result, or an abandoned
// submission, could be lost.
type Pool struct {
	opts PoolOptions
	log  *slog.Logger

	mu      sync.Mutex
	busy    int     // guarded by mu; workers at work
	running int     // guarded by mu; units that they have in hand
	waiting backlog // guarded by mu; whenever a worker is free, nobody there can be taken
	apart   bool    // guarded by mu; every unit is done alone, whatever its keys
	stopped bool    // guarded by mu; nothing new is taken, and nobody waits
	drained chan struct{}
	record  record // guarded by mu
}

// submission is somebody with a unit of work for the pool.
type submission struct {
	work    *work
	unit    unit
	arrived time.Time
	group   *group        // that it was taken into; guarded by the pool's mu until told
	refusal error         // likewise
	told    chan struct{} // closed when it is refused, is to lead its group, or that is done

	// Of the backlog.
	age    int64 // ascending
	at     *list.Element
	turns  []turn
	inHeap int
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
		waiting: newBacklog(),
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
	u := &single{do: func() error { return do(ctx) }}
	if err := p.submit(ctx, time.Now().Add(p.opts.Deadline), singles, u); err != nil {
		return err
	}
	return u.err
}

// work is one kind of work that can be done for several submissions at once: for
// orders, writing all of a group in one transaction.
type work struct {
	most int // units in one group
	// do does the work of the group and notes in each unit what came of it. Its
	// context does not end with that of any submission: it is for do to come to an end.
	do func(ctx context.Context, group []unit)
}

// unit is what one submission wants done.
type unit interface {
	// keys are what no two groups of one work may be at the same time, each once: the
	// products of an order, since the database would make the second wait for the
	// first. A unit without keys is done alone.
	keys() []int64
	// counts tells, once the work is done, how the unit counts.
	counts() standing
}

// single is a unit that is done alone.
type single struct {
	do  func() error
	err error
}

var singles = &work{most: 1, do: func(_ context.Context, group []unit) {
	s := group[0].(*single)
	s.err = s.do()
}}

func (*single) keys() []int64    { return nil }
func (*single) counts() standing { return another }

// submit waits for a worker until then at most and has the unit's work done. Once the
// unit has been taken its result is awaited, whatever becomes of ctx. The errors are
// those of [Pool.Do]; a panic in the work is one for all of the group.
func (p *Pool) submit(ctx context.Context, until time.Time, w *work, u unit) error {
	s := &submission{work: w, unit: u}
	if err := p.enqueue(ctx, s); err != nil {
		return err
	}
	if times := timesOf(ctx); times != nil {
		defer func() { times.note(s) }()
	}
	if s.told != nil {
		if err := p.await(ctx, until, s); err != nil {
			return err
		}
	}
	if s.group.members[0] == s {
		p.lead(ctx, s.group)
	}
	return s.group.err
}

// lead does the work of a group, has its worker go on, and tells its members.
func (p *Pool) lead(ctx context.Context, g *group) {
	units := make([]unit, len(g.members))
	for i, s := range g.members {
		units[i] = s.unit
	}
	g.err = p.guarded(func() { g.members[0].work.do(context.WithoutCancel(ctx), units) })
	p.finish(g)
	for _, s := range g.members[1:] {
		close(s.told)
	}
}

// guarded turns a panic into an error: one bad request must not end the
// process that serves all the others.
func (p *Pool) guarded(work func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("panic in a unit of work", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("orders: panic in a unit of work: %v", v)
		}
	}()
	work()
	return nil
}

// enqueue has a submission taken at once, to lead a group of its own, or gives it a
// place in the backlog.
func (p *Pool) enqueue(ctx context.Context, s *submission) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		p.record.refused++
		return ErrStopping
	case ctx.Err() != nil:
		p.record.refused++
		return fmt.Errorf("%w: %w", ErrOverloaded, context.Cause(ctx))
	}
	s.arrived = p.advance()
	var keys []int64
	if !p.apart {
		keys = s.unit.keys()
	}
	p.waiting.add(s, keys)
	if p.dispatch(s.arrived); s.group != nil {
		return nil
	}
	if p.waiting.len() > p.opts.Backlog {
		p.waiting.remove(s)
		p.record.refused++
		return ErrOverloaded
	}
	s.told = make(chan struct{})
	p.record.backlogPeak = max(p.record.backlogPeak, p.waiting.len())
	return nil
}

// await returns nil once the submission is to lead its group, or that is done.
func (p *Pool) await(ctx context.Context, until time.Time, s *submission) error {
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	var because error
	select {
	case <-s.told:
		return s.refusal
	case <-ctx.Done():
		because = fmt.Errorf("%w: %w", ErrOverloaded, context.Cause(ctx))
	case <-deadline.C:
		because = ErrOverloaded
	}
	if p.abandon(s) {
		return because
	}
	<-s.told
	return s.refusal
}

// abandon gives up a place in the backlog, at once. It returns false if the submission
// was taken in the same moment, and its work is done, or refused because the pool
// stopped, which stands.
func (p *Pool) abandon(s *submission) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.group != nil || s.refusal != nil {
		return false
	}
	now := p.advance()
	p.waiting.remove(s)
	p.record.refused++
	p.dispatch(now) // who waited only because of it
	return true
}

// countRefused counts somebody whose wait for a worker ended outside of the
// backlog.
func (p *Pool) countRefused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.refused++
}

// dispatch has every free worker take a group, as long as there is one. It is called
// with mu held.
func (p *Pool) dispatch(now time.Time) {
	for p.busy < p.opts.Workers {
		g := p.waiting.take(p.opts.Workers)
		if g == nil {
			return
		}
		g.begun = now
		p.busy++
		p.running += len(g.members)
		if leader := g.members[0]; leader.told != nil { // else it is here itself
			close(leader.told)
		}
	}
}

// finish notes what a group's work cost, and has the worker, and every other that
// waited for the group's keys, go on.
func (p *Pool) finish(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.advance()
	p.record.done(now, g)
	p.busy--
	p.running -= len(g.members)
	p.waiting.release(g)
	p.dispatch(now)
	p.closeIfDrained()
}

// advance adds up the time since the last call; it is called with mu held, before
// anything changes that is counted by time.
func (p *Pool) advance() (now time.Time) {
	now = time.Now()
	used := p.busy
	if p.waiting.len() > 0 {
		used = p.opts.Workers
	}
	p.record.advance(now, p.busy, used)
	return now
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

// setApart has every unit done alone from now on, those that wait included, whatever
// their keys; or no longer.
func (p *Pool) setApart(apart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart = apart
	if apart {
		now := p.advance()
		p.waiting.ungroup()
		p.dispatch(now)
	}
}

// Stop takes nothing new from now on and refuses everybody who waits, at once,
// with [ErrStopping]. What runs goes on to its end. It does not wait for that,
// [Pool.Run] does; to call it again changes nothing.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.stopped = true
	for s := range p.waiting.clear {
		s.refusal = ErrStopping
		p.record.refused++
		close(s.told)
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
