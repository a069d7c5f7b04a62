package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"
)

// tick is the service's default time between two batches.
const tick = 100 * time.Millisecond

// progress looks at the run: at the operator's figures a few times a second, and once
// for the timeline and for whoever watches.
type progress struct {
	rec   *recorder
	watch *observer
	out   io.Writer
	every int // seconds between two lines; 0: none

	timeline []moment

	mu      sync.Mutex
	samples []sample
	latest  *sample // nil if there is none
	failed  int     // samples that were not to be had
}

func newProgress(rec *recorder, watch *observer, quiet bool, out io.Writer) *progress {
	p := &progress{rec: rec, watch: watch, out: out, every: 5}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.every = 1
		}
	}
	if quiet {
		p.every = 0
	}
	return p
}

// samplesPerSecond is how often the operator's figures are read: a rate is worked out
// once a second by each instance, in its own phase, and the judge must not miss one.
const samplesPerSecond = 4

// Run looks until ctx ends. Each instance is looked at apart: one that hangs must not
// keep the others from being seen.
func (p *progress) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, operator := range p.watch.operators {
		all.Go(func() {
			each(ctx, time.Second/samplesPerSecond, func(int) { p.sample(ctx, operator) })
		})
	}
	each(ctx, time.Second, p.look)
	all.Wait()
}

// each does something over and over until ctx ends.
func each(ctx context.Context, every time.Duration, do func(n int)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
			do(n)
		case <-ctx.Done():
			return
		}
	}
}

// sample reads the operator's figures at one instance.
func (p *progress) sample(ctx context.Context, operator *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, 900*time.Millisecond)
	defer cancel()
	s, err := p.watch.sample(ctx, operator)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.latest = &s
		p.samples = append(p.samples, s)
	} else if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.failed++
	}
}

// seen are the samples, by time, once nothing runs any more.
func (p *progress) seen() []sample {
	slices.SortFunc(p.samples, func(a, b sample) int { return cmp.Compare(a.At, b.At) })
	return p.samples
}

func (p *progress) look(second int) {
	m := p.rec.moment(second)
	p.mu.Lock()
	m.Operator, p.latest = p.latest, nil
	p.mu.Unlock()
	if p.every > 0 && second%p.every == 0 {
		before := moment{}
		if len(p.timeline) >= p.every {
			before = p.timeline[len(p.timeline)-p.every]
		}
		_, _ = fmt.Fprintln(p.out, m.line(before, p.every)) // a progress line is not worth ending a run for
	}
	p.timeline = append(p.timeline, m)
}

// line is a progress line, with rates since before.
func (m moment) line(before moment, seconds int) string {
	per := func(now, then int64) int64 { return (now - then) / int64(seconds) }
	s := fmt.Sprintf("%5d s  entered %d  waiting %d  admitted %d (%d/s)  ordered %d (%d/s)  errors %d  %d requests/s",
		m.Second, m.Entered, m.Waiting, m.Admitted, per(m.Admitted, before.Admitted),
		m.Ordered, per(m.Ordered, before.Ordered), m.Errors, per(m.Requests, before.Requests))
	if o := m.Operator; o != nil {
		s += fmt.Sprintf("  capacity %.1f/s, rate %.1f/s, limited by %s", o.Capacity, o.Rate, o.LimitedBy)
	}
	return s
}
