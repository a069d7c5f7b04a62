package orders

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	reconcileEvery = 2 * time.Second
	// reconcileShare is the part of the payments at once that may be repetitions, so
	// that a provider which comes back after an outage is not met by all it has missed.
	reconcileShare = 10
)

// Run asks again for payments that are not settled, those of killed processes too,
// until ctx ends or the payments are halted. Then the calls of the provider that are
// under way end, whoever began them; it waits until their payments are as settled as
// they will be, and returns nil; from then on no payment begins.
func (p *payments) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.halt)()
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for p.halted.Err() == nil {
		select {
		case <-p.halted.Done():
		case <-tick.C:
			p.reconcile(p.halted)
		}
	}
	// The slots are never given back: see halted in begin. It cannot fail without a
	// deadline, and what it waits for is bounded by sideTimeout.
	return p.slots.Acquire(context.Background(), int64(p.atOnce))
}

// reconcile asks for everything that is due, one round after the other, as long as the
// provider has answers. While it has none, one round in reconcileEvery is enough.
func (p *payments) reconcile(ctx context.Context) {
	limit := max(1, p.atOnce/reconcileShare)
	for {
		r := p.reconcileOnce(ctx, limit)
		if ctx.Err() != nil {
			return
		}
		if r.settled > 0 {
			p.log.Info("payments settled that were unknown", "payments", r.settled)
		}
		if r.err != nil {
			p.log.Warn("payments stay unknown for now", "asked", r.asked, "settled", r.settled, "error", r.err)
		}
		if r.asked < limit || 2*r.settled < r.asked {
			return
		}
	}
}

// round is what came of asking for some payments again.
type round struct {
	asked, settled int
	err            error // one of those, if not all were settled
}

// reconcileOnce asks for up to limit payments, all at the same time.
func (p *payments) reconcileOnce(ctx context.Context, limit int) round {
	due, err := p.due(ctx, limit)
	if err != nil {
		return round{err: fmt.Errorf("look for what is due: %w", err)}
	}
	var (
		asking  sync.WaitGroup
		settled atomic.Int64
		failure atomic.Pointer[error]
	)
	for _, attempt := range due {
		asking.Go(func() {
			if err := p.again(ctx, attempt); err != nil {
				failure.Store(&err)
				return
			}
			settled.Add(1)
		})
	}
	asking.Wait()
	r := round{asked: len(due), settled: int(settled.Load())}
	if err := failure.Load(); err != nil {
		r.err = *err
	}
	return r
}

// due is what was begun or claimed so long ago that whoever did it has stored the
// outcome or given up: what it took to note it, to ask, and to store.
func (p *payments) due(ctx context.Context, limit int) ([]Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	return p.store.UnsettledPayments(ctx, p.timeout+2*sideTimeout, limit)
}

func (p *payments) again(ctx context.Context, attempt Payment) error {
	if err := p.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.slots.Release(1)
	// Not ctx: an answer that is there when the process stops is still stored.
	_, err := p.settle(context.WithoutCancel(ctx), attempt)
	if err == nil {
		p.counts.reconciled.Add(1)
	}
	return err
}
