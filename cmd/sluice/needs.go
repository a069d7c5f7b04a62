package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
)

const (
	// meetTimeout bounds one attempt: reaching a store, migrating it, the first look.
	meetTimeout = time.Minute
	// The pause between two attempts doubles from the first to the longest; each is
	// shortened by up to half of it, so that processes that were started together do
	// not stay together.
	firstPause   = 100 * time.Millisecond
	longestPause = 4 * time.Second
	// remindEvery is how often the log says again what is waited for.
	remindEvery = time.Minute
)

// need is something that a process must have before it can serve.
type need struct {
	name string // as /readyz shows it
	is   string // what it is, for people
	meet func(context.Context) error
	// passes tells of an error of meet whether to wait may help.
	passes func(error) bool
}

// needSameCoupons waits until no live process gives coupons out in another way: two that
// do know nothing of each other's, and what one has promised the other gives away. Two
// that start in the same moment do not see each other.
func (a *app) needSameCoupons(register admission.Register) need {
	mode := a.cfg.Coupons.Mode
	return need{
		name: "coupons.mode", is: mode,
		meet: func(ctx context.Context) error {
			live, err := register.Publish(ctx, admission.Report{Process: a.process})
			if err != nil {
				return err
			}
			for _, r := range live {
				if r.Orders != nil && r.Orders.Coupons != "" && r.Orders.Coupons != mode {
					return fmt.Errorf("the process %s has coupons.mode %s, this one %s: all must have the same, so it has to end first", r.Process, r.Orders.Coupons, mode)
				}
			}
			return nil
		},
		passes: func(error) bool { return true },
	}
}

func names(needs []need) []string {
	all := make([]string, len(needs))
	for i, n := range needs {
		all[i] = n.name
	}
	return all
}

// meetNeeds returns once all needs are met, all of them being tried at the same time,
// or with the error of the first that cannot be, or when ctx ends. The first is the
// lines, and is met once more before the last is noted, from when on everything is
// served: what was read of a line while the database was waited for may be hours old,
// and the line paused or started anew since.
func (a *app) meetNeeds(ctx context.Context) error {
	var noting sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range a.needs {
		group.Go(func() error {
			if err := n.await(ctx, a.log); err != nil {
				return err
			}
			noting.Lock()
			defer noting.Unlock()
			if len(a.started.Missing()) == 1 {
				if err := a.needs[0].await(ctx, a.log); err != nil {
					return err
				}
			}
			a.started.Met(n.name)
			return nil
		})
	}
	return group.Wait()
}

// await tries until the need is met.
func (n need) await(ctx context.Context, log *slog.Logger) error {
	begun := time.Now()
	var reminded time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := n.try(ctx)
		switch {
		case err == nil && !reminded.IsZero():
			log.Info("what was waited for is there", "need", n.name, "after", time.Since(begun))
			return nil
		case err == nil:
			return nil
		case ctx.Err() != nil || !n.passes(err):
			return fmt.Errorf("using the %s %s: %w", n.name, n.is, err)
		}
		if time.Since(reminded) >= remindEvery {
			log.Warn("not ready: something is waited for", "need", n.name, "at", n.is, "error", err)
			reminded = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

func (n need) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	return n.meet(ctx)
}
