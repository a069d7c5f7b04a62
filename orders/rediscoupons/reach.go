package rediscoupons

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// patience is how long Redis may take for one call. Under a rush callers queue for
	// its connections; it is long enough that they are not taken for an outage.
	patience = 2 * time.Second
	// pause is how long Redis is left alone after a call that failed. Then one caller
	// tries, and the others wait for what becomes of it, with the database.
	pause = time.Second
	// mostTogether bounds one call of a script that callers share: it keeps Redis busy
	// for about a millisecond.
	mostTogether = 100
)

// errAway means that Redis was not asked, since it did not answer a moment ago.
var errAway = errors.New("rediscoupons: Redis is away")

// reach lets callers through to Redis, but does not let them pile up in front of one
// that does not answer.
type reach struct {
	log *slog.Logger

	mu    sync.Mutex
	since time.Time // guarded by mu; zero while Redis answers
	retry time.Time // guarded by mu; when the next caller may try
}

// try makes a call, or returns [errAway]. The call's context ends in time. It says
// nothing about Redis if the caller was cut off.
func (r *reach) try(ctx context.Context, call func(context.Context) error) error {
	if !r.open() {
		return errAway
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := call(bounded)
	if err == nil || ctx.Err() == nil {
		r.note(err)
	}
	return err
}

func (r *reach) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return true
	}
	now := time.Now()
	if now.Before(r.retry) {
		return false
	}
	r.retry = now.Add(pause)
	return true
}

// note logs each outage once, and its end.
func (r *reach) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := time.Now(); {
	case err != nil:
		if r.since.IsZero() {
			r.since = now
			r.log.Warn("Redis does not answer; it gives no coupons out", "error", err)
		}
		r.retry = now.Add(pause)
	case !r.since.IsZero():
		r.log.Info("Redis gives coupons out again", "away", now.Sub(r.since))
		r.since = time.Time{}
	}
}
