package admission

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/queue"
)

// admitDeadline bounds one call to the line's store.
const admitDeadline = time.Second

// Ticker asks a line for a batch at every tick. Any number of processes may run
// one on the same line, each out of phase with the others: the line's store
// decides whether a tick still has its batch to give.
type Ticker struct {
	line queue.Line
	rate Rater
	tick time.Duration
	log  *slog.Logger

	mu    sync.Mutex
	stats TickerStats // guarded by mu

	outage queue.Outage // Run's own
}

// TickerStats count what a ticker did since it was made.
type TickerStats struct {
	// Batches were given, Skipped had been given already (by another process, or
	// earlier in the same tick) or let nobody in by intent, Errors got no answer.
	Batches, Skipped, Errors uint64
	// Admitted is how many visitors were in the batches.
	Admitted uint64
	// Last is the last batch given; empty before the first.
	Last queue.Batch
}

// NewTicker makes a ticker that, once it runs, admits at the rater's rate every
// tick.
func NewTicker(line queue.Line, rate Rater, tick time.Duration, log *slog.Logger) *Ticker {
	return &Ticker{line: line, rate: rate, tick: tick, log: log.With("line", line.ID())}
}

// Run admits until ctx ends; then it returns nil. A failure does not stop it; it
// is logged when the store goes away and when it is back. Ticks missed during a
// slow call are not made up for: the line gives the time's worth with the next.
func (t *Ticker) Run(ctx context.Context) error {
	ticks := time.NewTicker(t.tick)
	defer ticks.Stop()
	for {
		_, err := t.runOnce(ctx)
		if ctx.Err() != nil {
			return nil // an error of the last call is of the stop, not of the store
		}
		t.outage.Note(t.log, err, "nobody is let in: the line's store does not answer", "the line's store answers again")
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// runOnce asks for one batch.
func (t *Ticker) runOnce(ctx context.Context) (queue.Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, admitDeadline)
	defer cancel()
	rate, why := t.rate.Rate()
	b, err := t.line.Admit(ctx, rate, why)
	t.count(b, err)
	if err != nil {
		return queue.Batch{}, fmt.Errorf("admission: a batch of line %q: %w", t.line.ID(), err)
	}
	return b, nil
}

func (t *Ticker) count(b queue.Batch, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.stats.Errors++
	case b.Skipped:
		t.stats.Skipped++
	default:
		t.stats.Batches++
		t.stats.Admitted += uint64(len(b.Admitted))
		t.stats.Last = b
	}
}

// Stats are the figures so far; safe for concurrent use.
func (t *Ticker) Stats() TickerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}
