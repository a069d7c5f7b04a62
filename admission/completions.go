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
	// tellDeadline bounds one call, stopDeadline the last round.
	tellDeadline = time.Second
	stopDeadline = 2 * time.Second
)

// Completions tell the lines which admissions have come to order and which were
// used for one: from the first a line learns what share of the admitted comes and
// how soon, the second frees slots and ends tickets. They are best effort: the
// orders table alone decides that a ticket buys once, and a completion that is
// lost only keeps its slot until the admission expires.
type Completions struct {
	line func(id string) queue.Line
	log  *slog.Logger

	mu      sync.Mutex
	pending map[string][]*event // by line, oldest first, none empty; guarded by mu
	held    map[ticketOf]*event // what is in pending; guarded by mu
	stats   CompletionsStats    // guarded by mu

	outage queue.Outage // Run's own
}

// event is what a line is to be told of one ticket. An arrival that waits to be
// told becomes a commitment in its place: whoever spends has arrived.
type event struct {
	queue.Completion
	committed bool
}

type ticketOf struct{ line, ticketID string }

// CompletionsStats count completions since the start.
type CompletionsStats struct {
	Sent    uint64 // taken in by a line
	Dropped uint64 // no room, no such line, or refused by it
	Pending int    // held now
}

// NewCompletions makes a collector. line finds a line of this process by its id,
// or is nil; it is called with every completion, and must be quick and safe for
// concurrent use.
func NewCompletions(line func(id string) queue.Line, log *slog.Logger) *Completions {
	return &Completions{line: line, log: log, pending: make(map[string][]*event), held: make(map[ticketOf]*event)}
}

// Arrived notes that the holder of an admission has come to order, whatever comes
// of it. Like [Completions.Committed] it never waits for a store and never fails:
// without room, or for an unknown line, the completion is dropped and counted.
// Both keep the strings, so they must not be parts of a request's buffer. What is
// held already is not held twice, and the line counts each admission once: to
// call it again costs one look-up.
func (c *Completions) Arrived(line, subject, ticketID string) {
	c.add(line, event{queue.Completion{Subject: subject, TicketID: ticketID}, false})
}

// Committed notes that an order was committed with an admission.
func (c *Completions) Committed(line, subject, ticketID string) {
	c.add(line, event{queue.Completion{Subject: subject, TicketID: ticketID}, true})
}

func (c *Completions) add(line string, e event) {
	known := c.line(line) != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	ticket := ticketOf{line, e.TicketID}
	if held := c.held[ticket]; held != nil {
		held.committed = held.committed || e.committed
		return // an order that is repeated must not take the room of others
	}
	if !known || len(c.held) >= completionsHeld {
		c.stats.Dropped++
		return
	}
	c.pending[line] = append(c.pending[line], &e)
	c.held[ticket] = &e
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
				c.outage.Note(c.log, err, "completions wait: a line's store does not take them", "completions are taken again")
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
	for id, left := range c.counts() {
		for left > 0 {
			n, err := c.send(ctx, id)
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

// send offers a line its oldest batch and returns how many are settled: taken in,
// or refused for good. While the store is away that is none.
func (c *Completions) send(ctx context.Context, id string) (settled int, err error) {
	line := c.line(id)
	if line == nil { // it was there when they came
		return c.settle(id, c.oldest(id), false), nil
	}
	batch := c.oldest(id)
	came, used := split(batch)
	for _, call := range []struct {
		events []event
		tell   func(context.Context, []queue.Completion) error
	}{{came, line.Arrive}, {used, line.Spend}} {
		if len(call.events) == 0 {
			continue
		}
		callErr := tell(ctx, call.tell, call.events)
		if errors.Is(callErr, queue.ErrUnavailable) || callErr != nil && ctx.Err() != nil {
			return settled, errors.Join(err, callErr)
		}
		settled += c.settle(id, call.events, callErr == nil)
		err = errors.Join(err, callErr)
	}
	return settled, err
}

func tell(ctx context.Context, call func(context.Context, []queue.Completion) error, events []event) error {
	ctx, cancel := context.WithTimeout(ctx, tellDeadline)
	defer cancel()
	told := make([]queue.Completion, len(events))
	for i, e := range events {
		told[i] = e.Completion
	}
	err := call(ctx, told)
	if err != nil && ctx.Err() != nil && !errors.Is(err, queue.ErrUnavailable) {
		err = errors.Join(queue.ErrUnavailable, err) // no answer in time, whatever the line calls it
	}
	return err
}

func split(batch []event) (came, used []event) {
	for _, e := range batch {
		if e.committed {
			used = append(used, e)
		} else {
			came = append(came, e)
		}
	}
	return came, used
}

// counts are how many each line is still to be told.
func (c *Completions) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := make(map[string]int, len(c.pending))
	for id, events := range c.pending {
		n[id] = len(events)
	}
	return n
}

// oldest copies the next batch of a line; Run's goroutine alone takes it out.
func (c *Completions) oldest(id string) []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.pending[id]
	batch := make([]event, 0, completionsBatch)
	for _, e := range held[:min(len(held), completionsBatch)] {
		batch = append(batch, *e)
	}
	return batch
}

// settle takes out what a line was told, all of it from its oldest batch, and
// returns how many that were: an arrival that has become a commitment since stays.
func (c *Completions) settle(id string, told []event, sent bool) (settled int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range told {
		ticket := ticketOf{id, e.TicketID}
		if c.held[ticket].committed == e.committed {
			delete(c.held, ticket)
			settled++
		}
	}
	batch := min(len(c.pending[id]), completionsBatch)
	kept := slices.DeleteFunc(slices.Clone(c.pending[id][:batch]), func(e *event) bool { return c.held[ticketOf{id, e.TicketID}] != e })
	if c.pending[id] = slices.Replace(c.pending[id], 0, batch, kept...); len(c.pending[id]) == 0 {
		delete(c.pending, id)
	}
	if sent {
		c.stats.Sent += uint64(settled)
	} else {
		c.stats.Dropped += uint64(settled)
	}
	return settled
}

// Stats are the figures so far; safe for concurrent use.
func (c *Completions) Stats() CompletionsStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Pending = len(c.held)
	return s
}
