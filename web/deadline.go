package web

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends in time or when it is cancelled, as
// [context.WithDeadline] makes it; but its timer is made only when somebody waits for the
// end, and most polls are answered without.
type deadline struct {
	at time.Time

	mu     sync.Mutex
	ended  bool               // guarded by mu
	waited context.Context    // guarded by mu; nil until somebody waits
	cancel context.CancelFunc // of waited; guarded by mu
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.wait().Done() }

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.waited != nil:
		return d.waited.Err()
	case d.ended:
		return context.Canceled
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value lets contexts that are made of this one find the one that ends them.
func (d *deadline) Value(key any) any { return d.wait().Value(key) }

func (d *deadline) wait() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waited == nil {
		d.waited, d.cancel = context.WithDeadline(context.Background(), d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.waited
}

// end cancels it and frees what it holds.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
