package benchmarks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"sluice/orders"
)

// The three ways of a published report, on our tables: a claim is the same row
// whoever writes it.

// pessimistic locks the coupon from before it looks until it has written: history
// check, SELECT … FOR UPDATE, decrement, insert.
type pessimistic struct {
	db     *sql.DB
	coupon int64
}

func (w *pessimistic) settle(context.Context) error { return nil }

func (w *pessimistic) claim(ctx context.Context, visitor string) (outcome, error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	var had int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM coupon_claims WHERE coupon_id = ? AND visitor = ?", w.coupon, visitor).Scan(&had); err != nil {
		return 0, err
	}
	if had > 0 {
		return alreadyIssued, nil
	}
	var left int64
	if err := tx.QueryRowContext(ctx, "SELECT quantity - issued FROM coupons WHERE id = ? FOR UPDATE", w.coupon).Scan(&left); err != nil {
		return 0, err
	}
	if left == 0 {
		return soldOut, nil
	}
	if _, err := tx.ExecContext(ctx, "UPDATE coupons SET issued = issued + 1 WHERE id = ?", w.coupon); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, insertClaims+claimRow, claimArgs(nil, w.coupon, visitor)...); err != nil {
		return 0, err
	}
	return issued, tx.Commit()
}

// conditional takes one off where there is one, and leaves it to the unique index
// that nobody has two: two statements instead of four.
type conditional struct {
	db     *sql.DB
	coupon int64
}

func (w *conditional) settle(context.Context) error { return nil }

func (w *conditional) claim(ctx context.Context, visitor string) (outcome, error) {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	result, err := tx.ExecContext(ctx, "UPDATE coupons SET issued = issued + 1 WHERE id = ? AND issued < quantity", w.coupon)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return soldOut, err
	}
	_, err = tx.ExecContext(ctx, insertClaims+claimRow, claimArgs(nil, w.coupon, visitor)...)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == 1062 {
		return alreadyIssued, nil
	}
	if err != nil {
		return 0, err
	}
	return issued, tx.Commit()
}

const (
	insertClaims = "INSERT INTO coupon_claims (coupon_id, visitor, code, discount, line, claimed_at) VALUES "
	claimRow     = "(?, ?, ?, 100, '', CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED))"
)

func claimArgs(args []any, coupon int64, visitor string) []any {
	return append(args, coupon, visitor, orders.NewCode())
}

// writeBehind has a script in Redis decide and answers at once. What was given waits
// in this process's memory for one writer, who inserts up to 2,000 at a time. When
// 10,000 wait, what comes is dropped; a batch that fails is lost. Both are counted
// here, which the original does not do.
type writeBehind struct {
	redis  redis.UniversalClient
	db     *sql.DB
	coupon int64

	queue   chan string
	writer  sync.WaitGroup
	mu      sync.Mutex
	dropped int   // guarded by mu
	lost    int   // guarded by mu
	failed  error // guarded by mu; of the batches lost
}

const (
	memoryQueue = 10_000
	writerBatch = 2_000
)

// KEYS: the set of those who have one, the number that is left. ARGV: the visitor.
// Answers 1 issued, 0 sold out, -1 has one already. O(1).
var decide = redis.NewScript(`
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return -1 end
if tonumber(redis.call('GET', KEYS[2]) or '0') <= 0 then return 0 end
redis.call('DECR', KEYS[2])
redis.call('SADD', KEYS[1], ARGV[1])
return 1`)

func newWriteBehind(ctx context.Context, client redis.UniversalClient, db *sql.DB, coupon int64, quantity int) (*writeBehind, error) {
	w := &writeBehind{redis: client, db: db, coupon: coupon, queue: make(chan string, memoryQueue)}
	if err := client.Set(ctx, w.keys()[1], quantity, 0).Err(); err != nil {
		return nil, err
	}
	w.writer.Go(w.write)
	return w, nil
}

func (w *writeBehind) keys() []string {
	name := fmt.Sprintf("published:{%d}:", w.coupon)
	return []string{name + "issued", name + "left"}
}

func (w *writeBehind) claim(ctx context.Context, visitor string) (outcome, error) {
	decision, err := decide.Run(ctx, w.redis, w.keys(), visitor).Int()
	if err != nil {
		return 0, err
	}
	switch decision {
	case -1:
		return alreadyIssued, nil
	case 0:
		return soldOut, nil
	}
	select {
	case w.queue <- visitor:
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dropped++
	}
	return issued, nil
}

// write is the one writer, until the queue is closed.
func (w *writeBehind) write() {
	for visitor := range w.queue {
		batch := []string{visitor}
		for more := true; more && len(batch) < writerBatch; {
			select {
			case next, open := <-w.queue:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		if err := w.insert(batch); err != nil {
			w.mu.Lock()
			w.lost, w.failed = w.lost+len(batch), err
			w.mu.Unlock()
		}
	}
}

func (w *writeBehind) insert(batch []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var args []any
	for _, visitor := range batch {
		args = claimArgs(args, w.coupon, visitor)
	}
	rows := strings.Repeat(claimRow+",", len(batch)-1) + claimRow
	if _, err := tx.ExecContext(ctx, insertClaims+rows, args...); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE coupons SET issued = issued + ? WHERE id = ?", len(batch), w.coupon); err != nil {
		return err
	}
	return tx.Commit()
}

// settle ends the writer after all that waits.
func (w *writeBehind) settle(context.Context) error {
	close(w.queue)
	w.writer.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped+w.lost > 0 {
		return fmt.Errorf("%d dropped, %d lost: %w", w.dropped, w.lost, w.failed)
	}
	return nil
}

// patience is how long a claim waits for its turn, as long as the published pools do,
// before it counts as failed.
const patience = 30 * time.Second
