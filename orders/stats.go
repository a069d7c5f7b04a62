package orders

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// PoolStats is what a [Pool] is doing and has done since it was made.
type PoolStats struct {
	// At is when all of it was so, with a monotonic reading.
	At      time.Time
	Workers int
	// Busy is how many workers are at work, Running how many units of work they have
	// in hand.
	Busy, Running int
	// Backlog is how many submissions wait for a worker; BacklogPeak is the
	// most that ever did, and BacklogLimit the most that may.
	Backlog, BacklogPeak, BacklogLimit int
	// Completed counts units of work that ran to their end, well or badly, Groups
	// how often a worker did so: Completed ÷ Groups is how many went together.
	// Refused counts those that got no worker, and those whose wait for another of
	// the same token ended first.
	Completed, Groups, Refused int64
	// Repeated counts those of the completed whose token had been served before, or
	// whom the database failed: they are no other visitor, and Completed less Repeated
	// is how many visitors were served. RepeatTime is how long those of them took that
	// made nothing new: each its part of its group's time.
	// One token may repeat itself without end: whoever wants to know what visitors
	// cost must leave that time out, but not that of an order after a claim.
	Repeated   int64
	RepeatTime time.Duration
	// BusyTime is the time that all workers together have been at work, those
	// at work now included: between two readings it grows by the number of
	// busy workers times the time between them.
	BusyTime time.Duration
	// UsedTime is BusyTime with all workers counted as busy while anything waits in
	// the backlog. Often the others are free and may not take what waits: of one
	// product that everybody wants one group is at work at a time, however many
	// workers there are. Whoever takes them for free promises ten times too much. The
	// other error is the smaller one: where a few wait for a product that others do
	// not want, it looks as if there were less to gain than there is.
	UsedTime time.Duration
	// Work is how long units of work took, each as long as its group, Wait how long
	// the same ones had waited before their group began.
	Work, Wait Latency
}

// Latency sums up the durations of the last 10 to 20 seconds. With a Count of
// 0 the other fields are 0 and say nothing.
type Latency struct {
	Count              int64
	P50, P95, P99, Max time.Duration
}

// Stats reads the pool's figures, all of the same moment.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.advance()
	return PoolStats{
		At:           now,
		Workers:      p.opts.Workers,
		Busy:         p.busy,
		Running:      p.running,
		Backlog:      p.waiting.len(),
		BacklogPeak:  p.record.backlogPeak,
		BacklogLimit: p.opts.Backlog,
		Completed:    p.record.completed,
		Groups:       p.record.groups,
		Refused:      p.record.refused,
		Repeated:     p.record.repeated,
		RepeatTime:   p.record.repeatTime,
		BusyTime:     p.record.busyTime,
		UsedTime:     p.record.usedTime,
		Work:         p.record.work.latency(now),
		Wait:         p.record.wait.latency(now),
	}
}

// record is what a pool remembers; the pool's lock guards it.
type record struct {
	completed, groups  int64
	refused, repeated  int64
	repeatTime         time.Duration
	backlogPeak        int
	busyTime, usedTime time.Duration // up to since
	since              time.Time
	work, wait         window
}

func newRecord(now time.Time) record {
	return record{since: now, work: newWindow(now), wait: newWindow(now)}
}

// advance adds the time since the last call, in which so many workers were busy and so
// many used.
func (r *record) advance(now time.Time, busy, used int) {
	passed := now.Sub(r.since)
	r.busyTime += time.Duration(busy) * passed
	r.usedTime += time.Duration(used) * passed
	r.since = now
}

func (r *record) done(now time.Time, g *group) {
	took := now.Sub(g.begun)
	r.groups++
	for _, s := range g.members {
		r.completed++
		counts := s.unit.counts()
		if counts != another {
			r.repeated++
		}
		if counts == nothing {
			r.repeatTime += took / time.Duration(len(g.members))
		}
		r.wait.add(now, g.begun.Sub(s.arrived))
		r.work.add(now, took)
	}
}

const (
	windowLength  = 10 * time.Second
	longestInHist = 10 * time.Minute // longer ones count as this
)

// window keeps the durations of the current and of the last full period, so
// that a reading always covers at least one period of traffic and what was
// slow an hour ago no longer shows.
type window struct {
	current, last *hdrhistogram.Histogram // of µs, to 1 %
	begun         time.Time
}

func newWindow(now time.Time) window {
	made := func() *hdrhistogram.Histogram {
		return hdrhistogram.New(1, longestInHist.Microseconds(), 2)
	}
	return window{current: made(), last: made(), begun: now}
}

func (w *window) add(now time.Time, d time.Duration) {
	w.turn(now)
	// A value in range cannot be refused.
	_ = w.current.RecordValue(min(max(d, 0), longestInHist).Microseconds())
}

func (w *window) turn(now time.Time) {
	age := now.Sub(w.begun)
	if age < windowLength {
		return
	}
	w.current, w.last = w.last, w.current
	w.current.Reset()
	if age >= 2*windowLength {
		w.last.Reset()
	}
	w.begun = now
}

func (w *window) latency(now time.Time) Latency {
	w.turn(now)
	both := w.last.Clone()
	both.Merge(w.current)
	if both.TotalCount() == 0 {
		return Latency{}
	}
	at := both.ValueAtPercentilesSlice([]float64{50, 95, 99})
	us := func(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
	return Latency{
		Count: both.TotalCount(),
		P50:   us(at[0]), P95: us(at[1]), P99: us(at[2]), Max: us(both.Max()),
	}
}
