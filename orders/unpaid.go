package orders

import (
	"context"
	"log/slog"
	"time"
)

const (
	sweepEvery = 5 * time.Second
	// sweepLimit bounds one transaction, and with it how long it holds locks
	// on products that others are buying.
	sweepLimit = 100
)

// sweeper cancels orders that were not paid in time. Any number of processes
// may sweep one database: the store cancels each order once.
type sweeper struct {
	store Store
	age   time.Duration
	log   *slog.Logger
}

// Run sweeps until ctx ends.
func (s *sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		cancelled, err := s.runOnce(ctx)
		if cancelled > 0 {
			s.log.Info("unpaid orders cancelled", "orders", cancelled)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("unpaid orders could not be cancelled", "error", err)
		}
	}
}

// runOnce cancels everything that is due.
func (s *sweeper) runOnce(ctx context.Context) (total int, err error) {
	for {
		n, err := s.sweep(ctx)
		total += n
		if err != nil || n < sweepLimit {
			return total, err
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	return s.store.CancelUnpaid(ctx, s.age, sweepLimit)
}
