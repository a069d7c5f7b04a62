package main

import (
	"context"
	"fmt"
	"io"
	"os"
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
	samples  []sample
	latest   *sample // nil if there is none
	failed   int     // samples that were not to be had
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

// Run looks until ctx ends.
func (p *progress) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second / samplesPerSecond)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-ticker.C:
			p.sample(ctx)
			if tick%samplesPerSecond == 0 {
				p.look(tick / samplesPerSecond)
			}
		case <-ctx.Done():
			return
		}
	}
}

// sample reads the operator's figures.
func (p *progress) sample(ctx context.Context) {
	p.latest = nil
	if p.watch.operator == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 900*time.Millisecond)
	defer cancel()
	s, err := p.watch.sample(ctx)
	if err == nil {
		p.latest = &s
		p.samples = append(p.samples, s)
	} else if ctx.Err() == nil {
		p.failed++
	}
}

func (p *progress) look(second int) {
	m := p.rec.moment(second)
	m.Operator = p.latest
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
