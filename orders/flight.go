package orders

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// flights keep the orders of each token one after the other in this process:
// one is in flight, and its twins wait for it outside the pool. Otherwise one
// admission, repeated on many connections, would hold every worker and every
// place in the backlog, and lock out those who have waited for theirs.
//
// golang.org/x/sync/singleflight is not enough: who waits in its Do cannot
// give up, and with DoChan nobody knows in time whether the work is theirs,
// which must be awaited, or another's, which may be left.
type flights struct {
	mu      sync.Mutex
	byToken map[string]*flight // guarded by mu
}

// flight is one order on its way. What it came to is written before landed is
// closed and only read after that.
type flight struct {
	request Request
	landed  chan struct{}

	order Order
	err   error
	// known is false when the flight says nothing to its twins: its own
	// request gave up, or it panicked.
	known bool
}

// join begins a flight, which the caller must land, or finds the one to wait
// for.
func (fs *flights) join(r Request) (f *flight, mine bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.byToken[r.Buyer.TokenID]; ok {
		return f, false
	}
	if fs.byToken == nil {
		fs.byToken = make(map[string]*flight)
	}
	r.Cart = slices.Clone(r.Cart)
	f = &flight{request: r, landed: make(chan struct{})}
	fs.byToken[r.Buyer.TokenID] = f
	return f, true
}

func (fs *flights) land(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.byToken, f.request.Buyer.TokenID)
	close(f.landed)
}

// wait returns nil once the flight has landed, or [ErrOverloaded].
func (f *flight) wait(ctx context.Context, until time.Time) error {
	deadline := time.NewTimer(time.Until(until))
	defer deadline.Stop()
	select {
	case <-f.landed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOverloaded, context.Cause(ctx))
	case <-deadline.C:
		return ErrOverloaded
	}
}

// answer is what a landed flight means for a twin. ok is false when that one
// has to try for itself.
func (f *flight) answer(r Request) (o Order, ok bool, err error) {
	same := f.request.means(r)
	switch {
	case !f.known || f.err != nil && !same:
		return Order{}, false, nil
	case f.err == nil && !same:
		return Order{}, true, ErrTokenSpent
	}
	return f.order, true, f.err
}
