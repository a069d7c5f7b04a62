package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

const (
	// maxAttempts bounds the repetitions of a transaction. Under the worst
	// contention tried, one repetition was enough nearly always.
	maxAttempts = 10
	// The wait before a repetition is random, up to so much for each attempt so far.
	// Who was rolled back for the sake of another may come again at once. A server
	// that is away or has no connection left needs longer: the attempts on it end
	// after half a second, and the buyer is told.
	conflictStep = 4 * time.Millisecond
	awayStep     = 20 * time.Millisecond
)

// repeatedMessage is logged of each repetition: tests count them.
const repeatedMessage = "transaction repeated"

// errCommitUnknown means that COMMIT did not come back well. Where the cause
// is a refusal of the database it has rolled back, else it may have committed.
var errCommitUnknown = errors.New("the outcome of the commit is unknown")

// errTaken means that a unique index refused a row that the look-up before had not
// found: somebody who waits for none of the same locks was quicker. The next look-up
// finds it.
var errTaken = errors.New("another transaction has written the same")

// transact runs fn in a transaction and commits it, again and again while the database
// rolls it back for its own reasons, or is lost before the commit. pause is slept where
// the test delay belongs.
func (s *Store) transact(ctx context.Context, db *gorm.DB, pause time.Duration, fn func(tx *gorm.DB) error) error {
	again := func(err error) bool {
		return s.dialect.conflict(err) || s.dialect.away(err) && !errors.Is(err, errCommitUnknown)
	}
	return s.repeat(ctx, again, func() error { return s.transactOnce(ctx, db, pause, fn) })
}

// settle is transact on the workers' connections for an fn that looks for what it is
// to write, under locks that wait for a transaction the server still has open. So it is
// repeated also when the outcome of the commit is unknown, and when fn returns errTaken:
// it finds what was committed.
func (s *Store) settle(ctx context.Context, pause time.Duration, fn func(tx *gorm.DB) error) error {
	again := func(err error) bool {
		return s.dialect.conflict(err) || s.dialect.away(err) || errors.Is(err, errCommitUnknown) || errors.Is(err, errTaken)
	}
	return s.repeat(ctx, again, func() error { return s.transactOnce(ctx, s.workers, pause, fn) })
}

// execute runs one writing statement by itself, without the round trips of a
// transaction. It must not matter if it is run twice: it is repeated also when the
// connection was lost and nobody knows what became of it.
func (s *Store) execute(ctx context.Context, db *gorm.DB, statement string, args ...any) error {
	again := func(err error) bool { return s.dialect.conflict(err) || s.dialect.away(err) }
	return s.repeat(ctx, again, func() error {
		end, err := s.turn(ctx)
		if err != nil {
			return err
		}
		defer end()
		return db.WithContext(ctx).Exec(statement, args...).Error
	})
}

func (s *Store) repeat(ctx context.Context, again func(error) bool, once func() error) error {
	for attempt := 1; ; attempt++ {
		err := once()
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !again(err) {
			return err
		}
		s.log.Debug(repeatedMessage, "attempt", attempt, "error", err)
		step := conflictStep
		if s.dialect.away(err) {
			step = awayStep
		}
		if s.dialect.demoted(err) {
			s.reconnect()
		}
		if sleep(ctx, rand.N(time.Duration(attempt)*step)) != nil {
			return err
		}
	}
}

// reconnect closes the connections that nobody uses: they lead to a server that was
// failed over from, and the next ones go to where its name leads now. The driver's
// RejectReadOnly does the same for one connection, but then says only that it was bad,
// and an operator has to be told of a server that takes no writes.
func (s *Store) reconnect() {
	for g, n := range map[*gorm.DB]int{s.workers: s.opts.Workers, s.side: sideConnections, s.upkeep: upkeepConnections} {
		if db, err := g.DB(); err == nil {
			db.SetMaxIdleConns(0)
			db.SetMaxIdleConns(n)
		}
	}
}

func (s *Store) transactOnce(ctx context.Context, db *gorm.DB, pause time.Duration, fn func(tx *gorm.DB) error) error {
	if s.writing != nil {
		// BEGIN takes the write lock here, so the delay comes before it.
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause = 0
	}
	end, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	// After a commit this does nothing; after a lost connection the server
	// rolls back by itself.
	defer tx.Rollback()
	if err := sleep(ctx, pause); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit().Error; err != nil {
		return fmt.Errorf("%w: %w", errCommitUnknown, err)
	}
	return nil
}

// turn waits to be the one goroutine that writes, where only one can. end lets the
// next one.
func (s *Store) turn(ctx context.Context) (end func(), err error) {
	if s.writing == nil {
		return func() {}, nil
	}
	select {
	case s.writing <- struct{}{}:
		return func() { <-s.writing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outward makes what leaves the package one of the domain's errors.
func (s *Store) outward(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{
		orders.ErrSoldOut, orders.ErrTokenSpent, orders.ErrProductNotFound,
		orders.ErrOrderNotFound, orders.ErrOtherLine, orders.ErrDatabase,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %s: %w", orders.ErrDatabase, doing, err)
}
