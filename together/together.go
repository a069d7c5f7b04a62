// Package together has callers share calls: while one call is on its way, those who
// come meanwhile gather for the next, and one that comes alone goes at once. So a store
// that answers a hundred questions as quickly as one is asked a hundred at a time, with
// nobody waiting for others to come.
//
// Nobody's end ends the work of the others: a caller's deadline frees that caller, and
// the call goes on for the rest, bounded by a patience of its own. Those who gave up
// before their call began are not called for, so that they do not stand in front of
// those who come when a silent store answers again.
package together

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Calls makes the shared calls. A goroutine runs only while there is something to call
// for. Safe for concurrent use.
type Calls[T any] struct {
	call     func(ctx context.Context, some []T) error
	most     int
	patience time.Duration

	mu      sync.Mutex
	pending []*carriage[T] // guarded by mu; all but the last are full
	running bool           // guarded by mu
}

// carriage is one call to come.
type carriage[T any] struct {
	seats []T           // in the order of arrival
	gone  []int         // of those who gave up; counts until the call begins
	done  chan struct{} // closed when the call is over
	err   error         // of the call; set before done is closed
}

// New makes one whose calls are for at most so many callers and take at most patience:
// then the context of call ends, which call must heed.
func New[T any](call func(ctx context.Context, some []T) error, most int, patience time.Duration) *Calls[T] {
	return &Calls[T]{call: call, most: most, patience: patience}
}

// Do has the call made for one, and returns its error, which all that shared it get;
// what is one's own belongs into what. When ctx ends first its error is returned, and
// the call may be made for this one or not.
func (c *Calls[T]) Do(ctx context.Context, what T) error {
	mine, seat := c.board(what)
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		mine.gone = append(mine.gone, seat)
		return ctx.Err()
	}
}

func (c *Calls[T]) board(what T) (mine *carriage[T], seat int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.pending); n == 0 || len(c.pending[n-1].seats) == c.most {
		c.pending = append(c.pending, &carriage[T]{done: make(chan struct{})})
	}
	mine = c.pending[len(c.pending)-1]
	mine.seats = append(mine.seats, what)
	if !c.running {
		c.running = true
		go c.run()
	}
	return mine, len(mine.seats) - 1
}

func (c *Calls[T]) run() {
	for next := c.next(); next != nil; next = c.next() {
		if len(next.seats) > 0 {
			next.err = c.carry(next.seats)
		}
		close(next.done)
	}
}

// next takes the carriage in front, with those who still wait; nil ends the run.
func (c *Calls[T]) next() *carriage[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		c.running = false
		return nil
	}
	front := c.pending[0]
	c.pending = slices.Delete(c.pending, 0, 1)
	if len(front.gone) > 0 {
		front.leaveOut()
	}
	return front
}

// leaveOut takes those who gave up out of their seats.
func (c *carriage[T]) leaveOut() {
	slices.Sort(c.gone)
	gone, kept := c.gone, c.seats[:0]
	for seat, what := range c.seats {
		if len(gone) > 0 && gone[0] == seat {
			gone = gone[1:]
			continue
		}
		kept = append(kept, what)
	}
	c.seats = kept
}

func (c *Calls[T]) carry(some []T) error {
	// Nobody's own deadline may cut what others wait for too.
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	return c.call(ctx, some)
}
