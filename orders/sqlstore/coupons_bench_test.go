package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
)

// BenchmarkHotCoupon has everybody claim the same coupon: one by one, as is usual, and
// in groups, by so many connections at a time; and come too late for it.
func BenchmarkHotCoupon(b *testing.B) {
	for name, fresh := range databases {
		bench := func(what string, connections int, c orders.Coupon, run func(b *testing.B, s *Store, coupon int64)) {
			b.Run(fmt.Sprintf("%s/%s/connections=%d", name, what, connections), func(b *testing.B) {
				opts := fresh(b)
				opts.Workers, opts.Log = connections, discard
				s := openStore(b, opts, logger.Discard)
				flushesAtEachCommit(b, s)
				coupon, err := s.AddCoupon(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				run(b, s, coupon)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
			})
		}
		plenty := orders.Coupon{Name: "A tenth off", Quantity: orders.MaxCoupons, Discount: 100}
		for _, connections := range []int{1, 10, 50} {
			bench("one-by-one", connections, plenty, func(b *testing.B, s *Store, coupon int64) {
				claimOneByOne(b, s, coupon, connections)
			})
		}
		none := plenty
		none.Quantity = 0 // which only a service refuses
		for _, size := range []int{1, 10, 100, 500} {
			for _, connections := range []int{1, 2} {
				bench(fmt.Sprint("groups-of=", size), connections, plenty, func(b *testing.B, s *Store, coupon int64) {
					claimInGroups(b, s, coupon, connections, size, nil)
				})
			}
			bench(fmt.Sprint("too-late/groups-of=", size), 1, none, func(b *testing.B, s *Store, coupon int64) {
				claimInGroups(b, s, coupon, 1, size, orders.ErrSoldOut)
			})
		}
	}
}

func claimInGroups(b *testing.B, s *Store, coupon int64, connections, size int, want error) {
	claim := func(size int) error {
		group := make([]orders.ClaimRequest, size)
		for i := range group {
			group[i] = orders.ClaimRequest{CouponID: coupon, Visitor: rand.Text(), Line: "default", Code: orders.NewCode()}
		}
		for _, claimed := range s.Claim(b.Context(), group) {
			if !errors.Is(claimed.Err, want) {
				return fmt.Errorf("claimed %+v", claimed)
			}
		}
		return nil
	}
	if left := b.N % size; left > 0 {
		if err := claim(left); err != nil {
			b.Error(err)
		}
	}
	share(b, b.N/size, connections, func() error { return claim(size) })
}

// claimOneByOne is the usual way, with nothing that this package would do besides: it
// is given what the coupon is worth, and does not answer repetitions.
func claimOneByOne(b *testing.B, s *Store, coupon int64, connections int) {
	db, err := s.workers.DB()
	if err != nil {
		b.Fatal(err)
	}
	share(b, b.N, connections, func() error { return claimUsually(b.Context(), s, db, coupon) })
}

func claimUsually(ctx context.Context, s *Store, db *sql.DB, coupon int64) (err error) {
	if s.writing != nil { // else SQLite's writers poll for its lock, and give up
		s.writing <- struct{}{}
		defer func() { <-s.writing }()
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	given, err := tx.ExecContext(ctx, "UPDATE coupons SET issued = issued + 1 WHERE id = ? AND issued < quantity", coupon)
	if err != nil {
		return err
	}
	if n, err := given.RowsAffected(); n != 1 {
		return fmt.Errorf("sold out: %d, %w", n, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO coupon_claims (coupon_id, visitor, code, discount, line, claimed_at)"+
		" VALUES (?, ?, ?, ?, ?, "+s.dialect.nowMS+")", coupon, rand.Text(), orders.NewCode(), 100, "")
	if err != nil {
		return err
	}
	return tx.Commit()
}
