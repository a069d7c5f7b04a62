package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm/logger"

	"sluice/orders"
)

// BenchmarkHotProduct has everybody buy one piece of the same product: one by one, as
// is usual, and in groups, by so many connections at a time.
func BenchmarkHotProduct(b *testing.B) {
	for name, fresh := range databases {
		bench := func(what string, connections int, run func(b *testing.B, s *Store, product int64)) {
			b.Run(fmt.Sprintf("%s/%s/connections=%d", name, what, connections), func(b *testing.B) {
				s, product := hotProduct(b, fresh(b), connections)
				b.ReportAllocs()
				b.ResetTimer()
				run(b, s, product)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			})
		}
		for _, connections := range []int{1, 10, 50} {
			bench("one-by-one", connections, func(b *testing.B, s *Store, product int64) {
				oneByOne(b, s, product, connections)
			})
		}
		for _, size := range []int{1, 10, 100, 500} {
			for _, connections := range []int{1, 2, 10} {
				bench(fmt.Sprint("groups-of=", size), connections, func(b *testing.B, s *Store, product int64) {
					inGroups(b, s, product, connections, size)
				})
			}
		}
	}
}

// BenchmarkLoneOrder is what a lone order pays for the groups: it places one the usual
// way and one in a group of its own in turn, so that both meet the same noise, and
// reports the medians.
func BenchmarkLoneOrder(b *testing.B) {
	for name, fresh := range databases {
		b.Run(name, func(b *testing.B) {
			s, product := hotProduct(b, fresh(b), 1)
			db, err := s.workers.DB()
			if err != nil {
				b.Fatal(err)
			}
			var usual, grouped []time.Duration
			for b.Loop() {
				begun := time.Now()
				if err := placeUsually(b.Context(), s, db, product); err != nil {
					b.Fatal(err)
				}
				between := time.Now()
				placeGroup(b, s, product, 1)
				usual = append(usual, between.Sub(begun))
				grouped = append(grouped, time.Since(between))
			}
			slices.Sort(usual)
			slices.Sort(grouped)
			median := func(sorted []time.Duration) float64 { return float64(sorted[len(sorted)/2]) / 1000 }
			b.ReportMetric(median(usual), "usual-µs")
			b.ReportMetric(median(grouped), "grouped-µs")
			b.ReportMetric(median(grouped)/median(usual), "ratio")
		})
	}
}

func hotProduct(b *testing.B, opts Options, connections int) (*Store, int64) {
	opts.Workers, opts.Log = connections, discard
	s := openStore(b, opts, logger.Discard)
	flushesAtEachCommit(b, s)
	product, err := s.AddProduct(b.Context(), orders.Product{
		Name: "Lamp", Price: 1000, Stock: orders.MaxStock, ImageURL: "https://shop.example/lamp.png",
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, product
}

// flushesAtEachCommit fails where a committed order could be lost: that is quicker.
func flushesAtEachCommit(b *testing.B, s *Store) {
	b.Helper()
	read, want := "SELECT @@innodb_flush_log_at_trx_commit", 1
	if s.dialect.oneWriter {
		read, want = "PRAGMA synchronous", 2
	}
	var got int
	if err := s.workers.WithContext(b.Context()).Raw(read).Scan(&got).Error; err != nil || got != want {
		b.Fatalf("%s is %d, %v; want %d", read, got, err, want)
	}
}

// share has n turns taken by so many at a time.
func share(b *testing.B, n, by int, turn func() error) {
	turns := make(chan struct{}, n)
	for range n {
		turns <- struct{}{}
	}
	close(turns)
	var wg sync.WaitGroup
	for range by {
		wg.Go(func() {
			for range turns {
				if err := turn(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func inGroups(b *testing.B, s *Store, product int64, connections, size int) {
	if rest := b.N % size; rest > 0 {
		placeGroup(b, s, product, rest)
	}
	share(b, b.N/size, connections, func() error { placeGroup(b, s, product, size); return nil })
}

func placeGroup(b *testing.B, s *Store, product int64, size int) {
	cart := []orders.CartItem{{ProductID: product, Quantity: 1}}
	group := make([]orders.Request, size)
	for i := range group {
		group[i] = orders.Request{Buyer: orders.Buyer{TokenID: rand.Text(), Visitor: rand.Text(), Line: "default"}, Cart: cart}
	}
	for _, placed := range s.Place(b.Context(), group) {
		if !placed.Created {
			b.Errorf("placed %+v", placed)
		}
	}
}

// oneByOne is the usual way, with nothing that this package would do besides: it is
// given what the product costs, and does not answer repetitions.
func oneByOne(b *testing.B, s *Store, product int64, connections int) {
	db, err := s.workers.DB()
	if err != nil {
		b.Fatal(err)
	}
	share(b, b.N, connections, func() error { return placeUsually(b.Context(), s, db, product) })
}

func placeUsually(ctx context.Context, s *Store, db *sql.DB, product int64) (err error) {
	if s.writing != nil { // else SQLite's writers poll for its lock, and give up
		s.writing <- struct{}{}
		defer func() { <-s.writing }()
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	taken, err := tx.ExecContext(ctx, "UPDATE products SET stock = stock - ? WHERE id = ? AND stock >= ?", 1, product, 1)
	if err != nil {
		return err
	}
	if n, err := taken.RowsAffected(); n != 1 {
		return fmt.Errorf("sold out: %d, %w", n, err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, token_id, visitor, line, state, pieces, discount, total, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, "+s.dialect.nowMS+")",
		id, rand.Text(), rand.Text(), "default", "pending", 1, 0, 1000)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO order_items (order_id, seq, product_id, name, image_url, quantity, unit_price)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?)", id, 0, product, "Lamp", "https://shop.example/lamp.png", 1, 1000)
	if err != nil {
		return err
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
