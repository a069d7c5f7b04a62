package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

// handle is one of a store's handles, with the connections it is to have.
type handle struct {
	*sql.DB
	size int
}

func handles(t *testing.T, s *Store, workers int) map[string]handle {
	t.Helper()
	made := map[string]handle{}
	for name, h := range map[string]struct {
		*gorm.DB
		size int
	}{"workers": {s.workers, workers}, "side": {s.side, sideConnections}, "upkeep": {s.upkeep, upkeepConnections}} {
		db, err := h.DB.DB()
		if err != nil {
			t.Fatal(err)
		}
		made[name] = handle{db, h.size}
	}
	return made
}

// takeAll takes every connection of the handle at the same time.
func (h handle) takeAll(t *testing.T) (conns []*sql.Conn, giveBack func()) {
	t.Helper()
	for range h.size {
		c, err := h.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	return conns, func() {
		for _, c := range conns {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// sessions are what each connection must have set.
var sessions = map[string]map[string]string{
	"mysql": {
		// Its name depends on the server, and some know both.
		"tx_isolation":          "READ-COMMITTED",
		"transaction_isolation": "READ-COMMITTED",

		"innodb_lock_wait_timeout": "5",
		"time_zone":                "+00:00",
		"sql_mode":                 "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
	},
	"sqlite": {
		"journal_mode": "wal",
		"synchronous":  "2", // FULL
		"foreign_keys": "1",
		"busy_timeout": "5000",
	},
}

// setting reads one setting of a connection; ok is false if there is none such.
func setting(t *testing.T, c *sql.Conn, dialect, name string) (value string, ok bool) {
	t.Helper()
	var err error
	if dialect == "sqlite" {
		err = c.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value)
	} else {
		err = c.QueryRowContext(t.Context(), "SHOW SESSION VARIABLES WHERE variable_name = ?", name).Scan(&name, &value)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("read %s: %v", name, err)
	}
	return value, err == nil
}

// TestConnections looks at each connection that a store may have.
func TestConnections(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		opts.Workers = 7
		s := openStore(t, opts, logger.Discard)
		for name, h := range handles(t, s, opts.Workers) {
			conns, giveBack := h.takeAll(t)
			for i, c := range conns {
				known := 0
				for what, want := range sessions[s.dialect.name] {
					got, ok := setting(t, c, s.dialect.name, what)
					if ok {
						known++
					}
					if ok && got != want {
						t.Errorf("%s %d: %s is %q, want %q", name, i, what, got, want)
					}
				}
				if known < 4 {
					t.Errorf("%s %d: only %d settings are known", name, i, known)
				}
			}
			giveBack()
			if st := h.Stats(); st.MaxOpenConnections != h.size || st.Idle != h.size || st.MaxIdleClosed != 0 {
				t.Errorf("%s: %+v, want %d kept open", name, st, h.size)
			}
		}
	})
}

// TestConnectionsGrowOld: a server hangs up on what it finds idle for too long,
// so no connection may reach that age.
func TestConnectionsGrowOld(t *testing.T) {
	t.Parallel()
	opts := databases["mysql"](t)
	opts.Workers, opts.Log = 3, discard
	b, err := prepare(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if b.lifetime <= 0 || b.lifetime > 5*time.Minute {
		t.Errorf("lifetime %v", b.lifetime)
	}
	b.lifetime = time.Nanosecond // each is too old when it is given back
	s := connected(t, b, opts)
	for name, h := range handles(t, s, opts.Workers) {
		_, giveBack := h.takeAll(t)
		giveBack()
		if n := h.Stats().MaxLifetimeClosed; n < int64(h.size) {
			t.Errorf("%s: %d closed for their age", name, n)
		}
	}
}

// TestHandlesDoNotShare has the users of some handles be stuck: a crowd that
// reads orders from a table that does not answer, or the workers. What does not
// need those handles goes on, the catalogue above all.
func TestHandlesDoNotShare(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		s := openStore(t, opts, logger.Discard)
		id, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 2})
		if err != nil {
			t.Fatal(err)
		}
		lamp := []orders.CartItem{{ProductID: id, Quantity: 1}}
		all := handles(t, s, opts.Workers)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // so that a failure ends
		defer cancel()

		_, readersAreBack := all["side"].takeAll(t)
		_, upkeepIsBack := all["upkeep"].takeAll(t)
		for i, wantCreated := range []bool{true, false} { // the second finds the first's
			if _, created, err := orderstest.Ask(ctx, s, orders.Buyer{TokenID: "t"}, lamp); err != nil || created != wantCreated {
				t.Errorf("place %d beside all others stuck: created %v, %v", i, created, err)
			}
		}
		upkeepIsBack()
		_, workersAreBack := all["workers"].takeAll(t)
		products, errProducts := s.Products(ctx)
		if len(products) != 1 || products[0].Stock != 1 {
			t.Errorf("products %+v", products)
		}
		n, errCancel := s.CancelUnpaid(ctx, -time.Minute, 10)
		if n != 1 {
			t.Errorf("%d cancelled", n)
		}
		if err := errors.Join(errProducts, errCancel, s.Ping(ctx)); err != nil {
			t.Errorf("beside stuck readers and workers: %v", err)
		}
		readersAreBack()
		_, errOrder := s.ByToken(ctx, "t")
		_, errSummary := s.Summary(ctx)
		_, errAdd := s.AddProduct(ctx, orders.Product{Name: fmt.Sprint("Lamp ", n)})
		if err := errors.Join(errOrder, errSummary, errAdd); err != nil {
			t.Errorf("beside stuck workers: %v", err)
		}
		workersAreBack()
	})
}

// TestSeveralStatementsAtATime are for the workers, who write. What people read with
// takes one, so that nothing they send could ever become another.
func TestSeveralStatementsAtATime(t *testing.T) {
	t.Parallel()
	opts := databases["mysql"](t)
	opts.Workers, opts.Log = 1, discard
	s := openStore(t, opts, logger.Discard)
	for name, h := range handles(t, s, opts.Workers) {
		_, err := h.ExecContext(t.Context(), "DO 1;DO 2")
		if refused := err != nil; refused != (name != "workers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
