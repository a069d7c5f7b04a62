package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/queue"
)

const (
	// completionsHeld bounds what is kept in memory, all lines together; at
	// 1,000 orders/s it carries over ten seconds without the store.
	completionsHeld = 10_000
	// completionsBatch bounds one call to the store.
	completionsBatch = 500
	// completionsEvery is the least time between two rounds of calls.
	completionsEvery = 100 * time.Millisecond
	// spendDeadline bounds one call, stopDeadline the last round.
	spendDeadline = time.Second
	stopDeadline  = 2 * time.Second
)

// Completions tell the lines which admissions were used for an order, so that
// their slots are free and their tickets end. They are best effort: the orders
// table alone decides that a ticket buys once, and a completion that is lost
// only keeps its slot until the admission expires.
type Completions struct {
	lines map[string]queue.Line
	log   *slog.Logger

	mu      sync.Mutex
	pending map[string][]queue.Completion // by line, oldest first; guarded by mu
	held    map[ticketOf]bool             // what is in pending; guarded by mu
	stats   CompletionsStats              // guarded by mu

	outage outage // Run's own
}

type ticketOf struct{ line, ticketID string }

// CompletionsStats count completions since the start.
type CompletionsStats struct {
	Sent    uint64 // taken in by a line
	Dropped uint64 // no room, no such line, or refused by it
	Pending int    // held now
}

// NewCompletions makes a collector for the lines, by their ids.
func NewCompletions(lines map[string]queue.Line, log *slog.Logger) *Completions {
	return &Completions{lines: lines, log: log, pending: make(map[string][]queue.Completion), held: make(map[ticketOf]bool)}
}

// Add notes that an order was committed with an admission. It never waits for a
// store and never fails: without room, or for an unknown line, the completion is
// dropped and counted. It keeps the strings, so they must not be parts of a
// request's buffer.
func (c *Completions) Add(line, subject, ticketID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ticket := ticketOf{line, ticketID}
	if c.held[ticket] {
		return // an order that is repeated must not take the room of others
	}
	if c.lines[line] == nil || c.stats.Pending >= completionsHeld {
		c.stats.Dropped++
		return
	}
	c.pending[line] = append(c.pending[line], queue.Completion{Subject: subject, TicketID: ticketID})
	c.held[ticket] = true
	c.stats.Pending++
}

// Run sends what was added until ctx ends, then what is left, for two seconds at
// most, and returns nil. Whoever may still add is to be stopped before it. What a
// store does not take for now is held and tried again.
func (c *Completions) Run(ctx context.Context) error {
	rounds := time.NewTicker(completionsEvery)
	defer rounds.Stop()
	for {
		select {
		case <-rounds.C:
			err := c.runOnce(ctx)
			if ctx.Err() == nil { // else an error is of the stop, not of the store
				c.outage.note(c.log, err, "completions wait: a line's store does not take them", "completions are taken again")
			}
		case <-ctx.Done():
			return c.stop(ctx)
		}
	}
}

// stop sends the rest in bounded time, although ctx has ended.
func (c *Completions) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopDeadline)
	defer cancel()
	if err := c.runOnce(ctx); err != nil {
		c.log.Warn("completions were not told to the line; their slots free themselves when the admissions expire",
			"left", c.Stats().Pending, "error", err)
	}
	return nil
}

// runOnce sends what is pending now, each line on its own: one that does not
// answer is left for the next round.
func (c *Completions) runOnce(ctx context.Context) error {
	var errs []error
	for id, line := range c.lines {
		for left := c.count(id); left > 0; {
			n, err := c.send(ctx, id, line)
			if err != nil {
				errs = append(errs, err)
			}
			if n == 0 {
				break
			}
			left -= n
		}
	}
	return errors.Join(errs...)
}

// send offers the line its oldest batch and returns how many are settled: taken
// in, or refused for good. While the store is away that is none.
func (c *Completions) send(ctx context.Context, id string, line queue.Line) (int, error) {
	batch := c.oldest(id)
	ctx, cancel := context.WithTimeout(ctx, spendDeadline)
	defer cancel()
	err := line.Spend(ctx, batch)
	if errors.Is(err, queue.ErrUnavailable) || ctx.Err() != nil && err != nil {
		return 0, err
	}
	c.settle(id, len(batch), err == nil)
	return len(batch), err
}

func (c *Completions) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending[id])
}

// oldest copies the next batch of a line; Run's goroutine alone takes it out.
func (c *Completions) oldest(id string) []queue.Completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.pending[id]
	return slices.Clone(held[:min(len(held), completionsBatch)])
}

func (c *Completions) settle(id string, n int, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, done := range c.pending[id][:n] {
		delete(c.held, ticketOf{id, done.TicketID})
	}
	c.pending[id] = slices.Delete(c.pending[id], 0, n)
	c.stats.Pending -= n
	if sent {
		c.stats.Sent += uint64(n)
	} else {
		c.stats.Dropped += uint64(n)
	}
}

// Stats are the figures so far; safe for concurrent use.
func (c *Completions) Stats() CompletionsStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
