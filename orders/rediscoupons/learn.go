package rediscoupons

import (
	"context"
	"fmt"
	"time"
)

const (
	mostWanted = 64 // coupons that wait to be read; more are asked for again
	pageSize   = 1000
	// pageTimeout bounds reading one page and telling Redis.
	pageTimeout = 10 * time.Second
	// learnPause keeps a coupon that cannot be read from being tried without end.
	learnPause = time.Second
)

// want has the claims of a coupon read, once for all who ask meanwhile.
func (i *Issuer) want(coupon int64) {
	if _, asked := i.asked.LoadOrStore(coupon, nil); asked {
		return
	}
	select {
	case i.wanted <- coupon:
	default:
		i.asked.Delete(coupon)
	}
}

// learn reads what is wanted until ctx ends.
func (i *Issuer) learn(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case coupon := <-i.wanted:
			err := i.learnOnce(ctx, coupon)
			i.asked.Delete(coupon)
			if err == nil || ctx.Err() != nil {
				continue
			}
			i.log.Warn("the claims of a coupon cannot be read into Redis; the database gives it out", "coupon", coupon, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(learnPause):
			}
		}
	}
}

// learnOnce puts the claims that the database has of a coupon into Redis, beside those
// that are there. Several may do it at the same time, for good and all: claims are never
// taken back. Those made meanwhile are put there by who makes them.
//
// If Redis loses everything in between, it has only a part in the end. The next caller
// finds fewer there than the database has, and it begins again.
func (i *Issuer) learnOnce(ctx context.Context, coupon int64) error {
	for after := ""; ; {
		last, err := i.learnPage(ctx, coupon, after)
		if err != nil || last == "" {
			return err
		}
		after = last
	}
}

// learnPage returns the last visitor of the page, or "" if there are no more; then Redis
// knows the coupon.
func (i *Issuer) learnPage(ctx context.Context, coupon int64, after string) (last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := i.store.Claims(ctx, coupon, after, pageSize)
	if err != nil {
		return "", fmt.Errorf("rediscoupons: reading the claims: %w", err)
	}
	fields := make([]string, 0, 2*len(page)+2)
	for _, claim := range page {
		fields = append(fields, claim.Visitor, claim.Code)
		last = claim.Visitor
	}
	if len(page) < pageSize {
		fields, last = append(fields, "", "1"), ""
	}
	pipe := i.client.Pipeline()
	pipe.HSet(ctx, codes(coupon), fields)
	pipe.Expire(ctx, codes(coupon), keep)
	if _, err := pipe.Exec(ctx); err != nil {
		return "", fmt.Errorf("rediscoupons: putting claims into Redis: %w", err)
	}
	return last, nil
}
