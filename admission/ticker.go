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

// Ticker asks a line for a batch at every tick of the store's clock. Any number of
// processes may run one on the same line: the line's store decides whether a tick
// still has its batch to give, and one that is late is stood in for by the others.
type Ticker struct {
	line queue.Line
	rate Rater
	tick time.Duration
	now  func() time.Time // by the store's clock
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
	// Late is of the ticks of the batches given.
	Late Lateness
	// Last is the last batch given; empty before the first.
	Last queue.Batch
}

// NewTicker makes a ticker that, once it runs, admits at the rater's rate every
// tick.
func NewTicker(line queue.Line, rate Rater, tick time.Duration, log *slog.Logger) *Ticker {
	return &Ticker{line: line, rate: rate, tick: tick, now: time.Now, log: log.With("line", line.ID())}
}

// On makes it go by a clock that tells the store's time, and not by its own. To be called
// before Run.
func (t *Ticker) On(clock func() time.Time) *Ticker {
	t.now = clock
	return t
}

// aim is how far into a tick the line is asked: so much may the clock be fast without
// the store finding the tick before still on, which has had its batch.
const aim = time.Millisecond

// untilNext is the time from now until the line is to be asked again, which was last
// asked at a time: at once if a tick has begun meanwhile.
func (t *Ticker) untilNext(asked time.Time) time.Duration {
	width, now := t.tick.Microseconds(), t.now().UnixMicro()
	if now/width > asked.UnixMicro()/width {
		return 0
	}
	return t.tick - time.Duration(now%width)*time.Microsecond + aim
}

// Run admits until ctx ends; then it returns nil. A failure does not stop it; it
// is logged when the store goes away and when it is back. Ticks missed during a
// slow call are not made up for: the line gives the time's worth with the next.
func (t *Ticker) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		asked := t.now()
		_, err := t.runOnce(ctx)
		if ctx.Err() != nil {
			return nil // an error of the last call is of the stop, not of the store
		}
		t.outage.Note(t.log, err, "nobody is let in: the line's store does not answer", "the line's store answers again")
		next.Reset(t.untilNext(asked))
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
		t.stats.Late.note(b, t.tick)
	}
}

// Stats are the figures so far; safe for concurrent use.
func (t *Ticker) Stats() TickerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}
