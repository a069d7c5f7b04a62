package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

// The test binary runs itself as another process when childTask names what
// that one is to do; childOptions has the store to do it on.
const (
	childTask    = "SLUICE_TEST_CHILD_TASK"
	childOptions = "SLUICE_TEST_CHILD_OPTIONS"
)

// childStore is the part of the options that crosses to the child.
type childStore struct {
	URL, Path string
	Product   int64
	Coupon    int64
	Provider  string // its URL
	Name      string // of this child, for its tokens and visitors
}

func child(task string) int {
	var c childStore
	if err := json.Unmarshal([]byte(os.Getenv(childOptions)), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := Open(context.Background(), Options{URL: c.URL, Path: c.Path, Workers: 4, Log: discard})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch task {
	case "place":
		err = placeForever(s, c)
	case "claim":
		err = claimForever(s, c)
	case "pay":
		err = payForever(s, c)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// placeForever places groups, and now and then a lone order, and prints the id of each
// acknowledged order on a line. It ends by being killed; should that fail, with its
// standard output.
func placeForever(s *Store, c childStore) error {
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for worker := range cap(errs) {
		wg.Go(func() {
			for n := 0; ; n++ {
				group := groupFor(c.Product, fmt.Sprintf("%s-%d-%d", c.Name, worker, n), 1+n%20)
				for _, placed := range s.Place(context.Background(), group) {
					err := placed.Err
					if err == nil {
						_, err = os.Stdout.WriteString(placed.Order.ID + "\n") // one write: a line is whole or absent
					}
					if err != nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return <-errs
}

func childProcess(t testing.TB, task string, c childStore) *exec.Cmd {
	t.Helper()
	options, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task, childOptions+"="+string(options))
	cmd.Stderr = os.Stderr
	return cmd
}

// TestKilledProcessLosesNothing kills a process that is placing orders, as
// kill -9 does, and holds the database against what it had acknowledged.
func TestKilledProcessLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		const stock = 1_000_000
		s := openStore(t, opts, logger.Discard)
		product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Price: 1, Stock: stock})
		if err != nil {
			t.Fatal(err)
		}
		acknowledged := map[string]bool{}
		for round := range 3 {
			c := childStore{URL: opts.URL, Path: opts.Path, Product: product, Name: fmt.Sprint("round-", round)}
			for _, id := range orderstest.KillAfter(t, childProcess(t, "place", c), 100+rand.IntN(900)) {
				acknowledged[id] = true
			}
			left := stockPlusItems(t, s, product)
			if left != stock {
				t.Errorf("round %d: stock and items add up to %d, not %d", round, left, stock)
			}
		}
		for id := range acknowledged {
			if _, err := s.Order(t.Context(), id); err != nil {
				t.Errorf("acknowledged order %s: %v", id, err)
			}
		}
		t.Logf("%d acknowledged", len(acknowledged))
	})
}

// stockPlusItems reads both in one statement: a transaction of the killed
// process may still be ending.
func stockPlusItems(t *testing.T, s *Store, product int64) int64 {
	t.Helper()
	var sum int64
	err := s.side.WithContext(t.Context()).Raw("SELECT p.stock + COALESCE("+
		"(SELECT SUM(i.quantity) FROM order_items i JOIN orders o ON o.id = i.order_id"+
		" WHERE i.product_id = p.id AND o.state <> 'cancelled'), 0)"+
		" FROM products p WHERE p.id = ?", product).Scan(&sum).Error
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestSeveralOpenAtOnce has goroutines and processes create and migrate one
// missing database together.
func TestSeveralOpenAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		var wg sync.WaitGroup
		for range 3 {
			cmd := childProcess(t, "open", childStore{URL: opts.URL, Path: opts.Path})
			wg.Go(func() {
				if err := cmd.Run(); err != nil {
					t.Errorf("process: %v", err)
				}
			})
			wg.Go(func() {
				s, err := Open(t.Context(), opts)
				if err != nil {
					t.Errorf("goroutine: %v", err)
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		s := openStore(t, opts, logger.Discard)
		var twice sql.NullInt64
		err := s.side.Raw("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM goose_db_version GROUP BY version_id) AS versions").Scan(&twice).Error
		if err != nil || twice.Int64 != 1 {
			t.Errorf("a migration was run %d times, %v", twice.Int64, err)
		}
	})
}
