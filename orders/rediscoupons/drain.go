package rediscoupons

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
)

const (
	// leftAfter is how old an entry of the stream is whose writer must have died or
	// failed: far longer than a commit takes. Nothing is wrong if they are only slow.
	leftAfter = 5 * time.Second
	drainPage = 1000 // claims in one transaction
	// drainPause follows a look into the stream after which something is left.
	drainPause = time.Second
	// lastDrain bounds the writing of what was acknowledged when the process stops.
	lastDrain = 5 * time.Second
)

// drainEvery is how often each process looks into the stream.
func (i *Issuer) drainEvery() time.Duration {
	if i.ack == Issued {
		return 50 * time.Millisecond
	}
	return time.Second
}

// drain writes what waits in the stream, again and again until ctx ends. What is
// acknowledged when it is issued is written here, by whichever process comes first.
// What is acknowledged later is written by the process that issued it, and is found
// here only if that one could not.
//
// Several may write the same entry: the second finds it written. A consumer group would
// spare them that, and would have to be made anew after every loss, with its lists of
// who has died with what in their hands.
func (i *Issuer) drain(ctx context.Context) error {
	failing := false
	wait := time.NewTimer(i.drainEvery())
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return i.drainLast(ctx)
		case <-wait.C:
		}
		err := i.drainOnce(ctx)
		if ctx.Err() != nil {
			continue
		}
		switch {
		case err != nil && !failing:
			i.log.Warn("coupons that were given out wait to be written", "error", err)
		case err == nil && failing:
			i.log.Info("coupons that were given out are written again")
		}
		failing = err != nil
		wait.Reset(i.drainEvery())
		if failing {
			wait.Reset(drainPause)
		}
	}
}

func (i *Issuer) drainLast(ctx context.Context) error {
	if i.ack != Issued {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastDrain)
	defer cancel()
	if err := i.drainOnce(ctx); err != nil {
		i.log.Warn("coupons that were given out are left for another process, or the next start", "error", err)
	}
	return nil
}

// drainOnce goes once through the stream, from the oldest to those that are due. What
// cannot be written stays, and keeps nobody behind it from being written.
func (i *Issuer) drainOnce(ctx context.Context) error {
	until, err := i.due(ctx)
	if err != nil {
		return err
	}
	var failed error
	for after := "-"; ; {
		page, err := i.waiting(ctx, after, until)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return failed
		}
		after = "(" + page[len(page)-1].entry
		answered, err := i.write(ctx, page)
		if err != nil {
			failed = err
		}
		if err != nil && answered == 0 || len(page) < drainPage {
			return failed
		}
	}
}

// due is the last entry to be written now.
func (i *Issuer) due(ctx context.Context) (until string, err error) {
	if i.ack == Issued {
		return "+", nil
	}
	err = i.reach.try(ctx, func(ctx context.Context) error {
		// Of any node of a cluster: a few seconds more or less do not matter.
		now, err := i.client.Time(ctx).Result()
		if err != nil {
			return fmt.Errorf("rediscoupons: reading the time of Redis: %w", err)
		}
		until = strconv.FormatInt(now.Add(-i.leftAfter).UnixMilli(), 10)
		return nil
	})
	return until, err
}

// waiting reads a page of the stream. An entry that cannot be read names no coupon: the
// database will not know it, and it goes.
func (i *Issuer) waiting(ctx context.Context, after, until string) (page []settlement, err error) {
	var entries []redis.XMessage
	err = i.reach.try(ctx, func(ctx context.Context) error {
		if entries, err = i.client.XRangeN(ctx, claims, after, until, drainPage).Result(); err != nil {
			return fmt.Errorf("rediscoupons: reading what was given out: %w", err)
		}
		return nil
	})
	for _, e := range entries {
		text := func(field string) string { s, _ := e.Values[field].(string); return s }
		coupon, _ := strconv.ParseInt(text("coupon"), 10, 64)
		page = append(page, settlement{entry: e.ID, given: text("mark") == markGiven, ClaimRequest: orders.ClaimRequest{
			CouponID: coupon, Visitor: text("visitor"), Line: text("line"), Code: text("code"),
		}})
	}
	return page, err
}

// write has the database write claims that were given out, and says how many it has
// answered for; the error is one of the others.
func (i *Issuer) write(ctx context.Context, page []settlement) (int, error) {
	group := make([]orders.ClaimRequest, len(page))
	for k, s := range page {
		group[k] = s.ClaimRequest
	}
	var done []settlement
	var failed error
	for k, claimed := range i.store.Claim(ctx, group) {
		s := page[k]
		switch {
		case claimed.Err == nil:
			s.has = claimed.Claim.Code
			i.counts.drained.Add(1)
		case refused(claimed.Err) && s.given:
			i.counts.refused.Add(1)
			i.log.Warn("a coupon that was given out is refused by the database",
				"coupon", s.CouponID, "visitor", s.Visitor, "error", claimed.Err)
		case refused(claimed.Err):
		default:
			failed = claimed.Err
			continue
		}
		done = append(done, s)
	}
	for some := range slices.Chunk(done, mostTogether) {
		if err := i.reach.try(ctx, func(ctx context.Context) error { return i.settle(ctx, some) }); err != nil {
			return len(done), err
		}
	}
	return len(done), failed
}
