package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// settings are what a run is made of.
type settings struct {
	Visitors    int
	Connections int
	Targets     int
	// Roam is the share of requests that go to an instance at random instead of the
	// visitor's own, as a balancer without sessions sends them.
	Roam     float64
	Arrival  arrival
	Over     time.Duration
	Habits   habits
	Seed     uint64
	Quantity int
	// Coupon is claimed before the order, and used by it; 0 is none.
	Coupon int64
	// RetryOverloaded tries an order again that was told "overloaded".
	RetryOverloaded bool
	// SharedTokens and Replays are how many tricks are tried.
	SharedTokens, Replays int
	// Grace is how much later than told a poll still counts as made as told. It
	// has to be below the service's own.
	Grace time.Duration
	// Duration ends the run, with whoever still waits; 0 does not.
	Duration time.Duration
}

// visitor is somebody simulated. It is either among the timers, or in the hands
// of one worker, or done; so nothing of it is locked.
type visitor struct {
	stay
	plan   plan
	ticket string
	token  string

	next     action
	target   uint8
	back     bool // the next poll is a return
	again    bool // has entered a second time
	failures uint8
	bypassed bool // has been told no position since the last one
	returns  bool // was not heard of, and is again; the answer has not said where
	claimed  bool // has a coupon, or was told that there is none

	first, position int64         // of the positions told
	due             time.Duration // when the next action is to be done
	told            time.Duration // the interval that the last answer told
	heard           time.Duration // when the last poll that was answered was sent
	leaveAt         time.Duration // 0: never
	expires         time.Duration // of the token
}

// action is what a visitor does next.
type action uint8

const (
	doEnter action = iota
	doPoll
	doLeave
	doOrder
)

// engine drives the crowd: one scheduler that owns the timers, and one worker for
// each connection.
type engine struct {
	cfg   settings
	api   api
	rec   *recorder
	start time.Time
	work  chan int32
	wake  chan struct{}

	left map[string]*atomic.Int64 // of each kind of trick, how many are still to be tried

	mu       sync.Mutex
	visitors []visitor
	past     []stay // those whose visitor has entered again
	timers   timers
	born     int
	busy     int // handed to a worker
	over     time.Duration
}

func newEngine(cfg settings, a api, rec *recorder) *engine {
	e := &engine{
		cfg: cfg, api: a, rec: rec, over: cfg.Over,
		work: make(chan int32), wake: make(chan struct{}, 1),
		visitors: make([]visitor, cfg.Visitors),
	}
	e.left = map[string]*atomic.Int64{trickShared: {}, trickTwice: {}, trickPoll: {}, trickEnter: {}}
	e.left[trickShared].Store(int64(cfg.SharedTokens))
	for i, kind := range []string{trickTwice, trickPoll, trickEnter} {
		e.left[kind].Store(int64((cfg.Replays + i) / 3))
	}
	return e
}

// Run drives every visitor to the end of their plan, or until ctx ends or
// settings.Duration has passed.
func (e *engine) Run(ctx context.Context) {
	if e.cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.cfg.Duration)
		defer cancel()
	}
	e.start = time.Now()
	var workers sync.WaitGroup
	for range e.cfg.Connections {
		workers.Go(func() {
			for i := range e.work {
				e.serve(i)
			}
		})
	}
	e.schedule(ctx)
	close(e.work)
	workers.Wait()
}

// stays lists what became of everybody, once nothing runs any more.
func (e *engine) stays() []stay {
	all := append(make([]stay, 0, len(e.past)+e.born), e.past...)
	for i := range e.visitors[:e.born] {
		v := &e.visitors[i]
		if v.outcome == unfinished && v.admitted != 0 && !v.plan.orders {
			v.outcome = idle // only waited for the token to expire
		}
		all = append(all, v.stay)
	}
	return all
}

// now is the time from the start of the run.
func (e *engine) now() time.Duration { return time.Since(e.start) }

// grain is how seldom the crowd looks for what is due: ten at a time are much cheaper
// than ten times one, and nobody is a millisecond late.
const grain = time.Millisecond

// schedule hands out what is due until nobody is left.
func (e *engine) schedule(ctx context.Context) {
	for {
		i, wait, done := e.take()
		switch {
		case done:
			return
		case i >= 0:
			select {
			case e.work <- i:
			case <-ctx.Done():
				return
			}
			continue
		}
		timer := time.NewTimer(max(wait, grain))
		select {
		case <-timer.C:
		case <-e.wake:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// take finds who is due: first those who have something to do, then those who
// arrive, so that a spike of arrivals makes nobody poll late. Without anybody it
// says how long to wait.
func (e *engine) take() (i int32, wait time.Duration, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	wait = time.Hour
	if t, ok := e.timers.first(); ok {
		if t.due <= now {
			e.timers.pop()
			e.busy++
			return t.visitor, 0, false
		}
		wait = t.due - now
	}
	if e.born < len(e.visitors) {
		at := e.cfg.Arrival.at(e.born, len(e.visitors), e.over)
		if at <= now {
			i := e.born
			e.born++
			e.busy++
			v := &e.visitors[i]
			v.visitor, v.plan, v.due = int32(i), planOf(e.cfg.Seed, i, e.cfg.Habits), at
			v.target = uint8(i % e.cfg.Targets)
			return int32(i), 0, false
		}
		wait = min(wait, at-now)
	}
	return -1, wait, e.busy == 0 && len(e.timers) == 0 && e.born == len(e.visitors)
}

// serve lets a visitor do one thing and sees to it that the next is done in time.
func (e *engine) serve(i int32) {
	v := &e.visitors[i]
	switch late := e.now() - v.due; {
	case v.next != doEnter:
		e.rec.lateness.add(late)
	case !v.again:
		e.rec.arrivals.add(late)
	}
	due, more := e.act(v)
	if more && v.leaveAt > 0 && v.next == doPoll && !v.back && v.leaveAt < due {
		due, v.next = v.leaveAt, doLeave
	}
	v.due = due
	if !more {
		v.ticket, v.token = "", "" // a million of them are half a gigabyte
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy--
	first, any := e.timers.first()
	if more {
		e.timers.push(timer{due, i})
	}
	if more && (!any || due < first.due) || e.busy == 0 {
		select {
		case e.wake <- struct{}{}:
		default: // it has been told
		}
	}
}

// act does what is due. It tells when the next thing is, or that there is none.
func (e *engine) act(v *visitor) (due time.Duration, more bool) {
	switch v.next {
	case doEnter:
		return e.enter(v)
	case doPoll:
		return e.poll(v)
	case doLeave:
		return e.leave(v)
	default:
		return e.order(v)
	}
}

// call makes one request and notes how it went. Somebody without an answer, or with
// one that says the instance cannot, tries another the next time.
func (e *engine) call(ep endpoint, v *visitor, do func(target int) (answer, error)) (a answer, sent, received time.Duration, ok bool) {
	if e.cfg.Roam > 0 && rand.Float64() < e.cfg.Roam {
		v.target = uint8(rand.IntN(e.cfg.Targets))
	}
	sent = e.now()
	a, err := do(int(v.target))
	received = e.now()
	e.rec.request(ep, received-sent, a, err)
	if err != nil || a.Status >= http.StatusInternalServerError {
		v.target = uint8((int(v.target) + 1) % e.cfg.Targets)
	}
	return a, sent, received, err == nil
}

// after is when to try again what the service could not do: as it said, a little
// spread; without a word from it soon, and then less and less soon.
func (e *engine) after(v *visitor, a answer) time.Duration {
	pause := a.RetryAfter
	if pause == 0 {
		pause = 100 * time.Millisecond << min(v.failures, 5)
	}
	v.failures = min(v.failures+1, 200)
	return e.now() + pause + time.Duration(rand.Int64N(int64(pause)/4+1))
}
