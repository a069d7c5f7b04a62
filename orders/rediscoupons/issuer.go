package rediscoupons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"sluice/orders"
	"sluice/together"
)

// Ack says when a claim is acknowledged.
type Ack string

// The two ways; the package's documentation says what each promises.
const (
	Committed Ack = "committed" // once the database has it
	Issued    Ack = "issued"    // once Redis has it
)

// Issuer is an [orders.Issuer] in Redis, for any number of processes.
type Issuer struct {
	client redis.UniversalClient
	store  orders.CouponStore
	ack    Ack
	log    *slog.Logger

	reach     reach
	counts    counts
	leftAfter time.Duration // [leftAfter] but for tests

	issuing  *together.Calls[*asking]
	settling *together.Calls[settlement]

	wanted chan int64 // coupons whose claims are to be read from the database
	asked  sync.Map   // the same, and those being read
}

var _ orders.Issuer = (*Issuer)(nil)

// New makes one; it neither connects nor starts anything. Without [Issuer.Run] nothing
// is wrong, but the database does all the work. The client must heed the deadlines of
// contexts (ContextTimeoutEnabled) and is closed by its owner, as the store is.
func New(client redis.UniversalClient, store orders.CouponStore, ack Ack, log *slog.Logger) (*Issuer, error) {
	if ack != Committed && ack != Issued {
		return nil, fmt.Errorf("rediscoupons: ack must be %s or %s, not %q", Committed, Issued, ack)
	}
	i := &Issuer{
		client: client, store: store, ack: ack, log: log,
		reach:     reach{log: log},
		leftAfter: leftAfter,
		wanted:    make(chan int64, mostWanted),
	}
	i.issuing, i.settling = together.New(i.issueAll, mostTogether, patience), together.New(i.settle, mostTogether, patience)
	return i, nil
}

// Run reads the claims that Redis lacks and writes those that wait in the stream, until
// ctx ends. Then it writes what was acknowledged and is not yet written, as far as the
// database lets it within a few seconds; the rest is another process's, or the next
// start's.
func (i *Issuer) Run(ctx context.Context) error {
	var g errgroup.Group // its context is not needed: both end with ctx
	g.Go(func() error { return i.learn(ctx) })
	g.Go(func() error { return i.drain(ctx) })
	return g.Wait()
}

// Claim implements [orders.Issuer].
func (i *Issuer) Claim(ctx context.Context, c orders.Coupon, r orders.ClaimRequest, write orders.Write) orders.Claimed {
	got, err := i.issue(ctx, c, r)
	switch {
	case err != nil && i.ack == Issued:
		// Redis has promised coupons that are not written, and nobody else can tell
		// whether one is left.
		return orders.Claimed{Err: fmt.Errorf("%w: %w", orders.ErrDatabase, err)}
	case err != nil:
		i.counts.bypassed.Add(1)
		return write(ctx, r)
	}
	switch got.state {
	case stateSoldOut:
		i.counts.soldOut.Add(1)
		return orders.Claimed{Err: orders.ErrSoldOut}
	case stateCommitted:
		return has(c, r, got)
	case stateIssued, stateGiven:
		if got.state == stateIssued {
			i.counts.issued.Add(1)
		}
		if i.ack == Issued {
			return has(c, r, got)
		}
		return i.commit(ctx, r, got, write)
	case stateUnknown:
		i.want(c.ID)
	}
	i.counts.bypassed.Add(1)
	return i.commit(ctx, r, got, write)
}

// has is a claim that Redis can answer for.
func has(c orders.Coupon, r orders.ClaimRequest, got issued) orders.Claimed {
	return orders.Claimed{
		Claim: orders.Claim{CouponID: c.ID, Visitor: r.Visitor, Code: got.code, Remaining: max(0, c.Quantity-got.known)},
		// Also when the client has run the script twice.
		Created: got.code == r.Code,
	}
}

// commit has a claim written and tells Redis. What it does not come to tell is found in
// the stream.
func (i *Issuer) commit(ctx context.Context, r orders.ClaimRequest, got issued, write orders.Write) orders.Claimed {
	s := settlement{ClaimRequest: r, given: got.code != "", entry: got.entry}
	if s.given {
		s.Code = got.code // they may have been told, by a process that acknowledges what is issued
	}
	done := write(ctx, s.ClaimRequest)
	if !answered(done.Err) {
		return done
	}
	s.has = done.Claim.Code
	if s.given && done.Err != nil {
		i.counts.refused.Add(1)
	}
	// The caller may have been cut off while it waited; the answer is there all the same.
	_ = i.reach.try(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return i.settling.Do(ctx, s)
	})
	// Whoever else has written it, it was made for the request that brought its code.
	done.Created = done.Err == nil && done.Claim.Code == r.Code
	return done
}

// answered is whether the database has given its last word on a claim, and not only
// failed to.
func answered(err error) bool {
	return err == nil || refused(err)
}

func refused(err error) bool {
	return errors.Is(err, orders.ErrSoldOut) || errors.Is(err, orders.ErrCouponNotFound) || errors.Is(err, orders.ErrOtherLine)
}
