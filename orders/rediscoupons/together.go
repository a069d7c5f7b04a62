package rediscoupons

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// mostTogether bounds one call of a script: it keeps Redis busy for about a millisecond.
const mostTogether = 100

// together has callers share calls of a script: while one is on its way, those who come
// meanwhile gather for the next. One that comes alone goes at once. A goroutine runs only
// while there is something to call for, and a call for at most [patience].
type together[T any] struct {
	call func(ctx context.Context, some []T) error

	mu      sync.Mutex
	pending []*carriage[T] // guarded by mu
	running bool           // guarded by mu
}

// carriage is one call; done is closed when it is over.
type carriage[T any] struct {
	seats []*seat[T]
	done  chan struct{}
	err   error
}

type seat[T any] struct {
	what T
	gone atomic.Bool // nobody waits for it any more
}

// do has the script called for one, and waits for that until ctx ends. Then it may be
// called for it or not.
func (t *together[T]) do(ctx context.Context, what T) error {
	s := &seat[T]{what: what}
	c := t.board(s)
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		s.gone.Store(true)
		return ctx.Err()
	}
}

func (t *together[T]) board(s *seat[T]) *carriage[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.pending); n == 0 || len(t.pending[n-1].seats) == mostTogether {
		t.pending = append(t.pending, &carriage[T]{done: make(chan struct{})})
	}
	c := t.pending[len(t.pending)-1]
	c.seats = append(c.seats, s)
	if !t.running {
		t.running = true
		go t.run()
	}
	return c
}

func (t *together[T]) run() {
	for {
		t.mu.Lock()
		if len(t.pending) == 0 {
			t.running = false
			t.mu.Unlock()
			return
		}
		c := t.pending[0]
		t.pending = t.pending[1:]
		t.mu.Unlock()
		// Those who gave up on a silent Redis must get nothing when it is back.
		c.seats = slices.DeleteFunc(c.seats, func(s *seat[T]) bool { return s.gone.Load() })
		if len(c.seats) > 0 {
			c.err = t.carry(c)
		}
		close(c.done)
	}
}

func (t *together[T]) carry(c *carriage[T]) error {
	// Nobody's own deadline may cut what others wait for too.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	some := make([]T, len(c.seats))
	for i, s := range c.seats {
		some[i] = s.what
	}
	return t.call(ctx, some)
}
