package web

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/orders"
)

// The page of an operator sees what has been: who waited and came, and what was refused.
func TestLineHistory(t *testing.T) {
	inBubble(t, setup{orders: withOrders(), config: func(c *Config) { c.Overview = known }}, func(t *testing.T, f *fixture) {
		time.Sleep(2 * time.Second)
		for range 3 {
			f.enter()
		}
		f.public("GET", "/queue/position", "").problem(401, "ticket_missing")
		f.public("GET", "/queue/position", "").problem(401, "ticket_missing")
		f.admin("GET", "/admin/api/lines/nosuch/history", "").problem(404, "line_not_found")
		time.Sleep(2 * time.Second)
		type history struct {
			From    int64
			Waiting []*float64
			Errors  map[string][]*float64
		}
		var all, newer history
		f.admin("GET", "/admin/api/lines/default/history", "").want(200).golden("history").into(&all)
		n := len(all.Waiting)
		f.admin("GET", fmt.Sprint("/admin/api/lines/default/history?after=", all.From+int64(n-2)*1000), "").want(200).into(&newer)
		if len(newer.Waiting) != 1 || *newer.Waiting[0] != 3 || newer.From != all.From+int64(n-1)*1000 {
			t.Errorf("%+v", newer)
		}
		for _, after := range []string{"x", "1.5", "9223372036854775808"} {
			f.admin("GET", "/admin/api/lines/default/history?after="+after, "").problem(400, "invalid_request")
		}
	})
}

// What an operator sees of the database is what the process found when it last read it.
func TestDatabaseState(t *testing.T) {
	var store *brittleStore
	with := setup{orders: withOrders(), store: func(s orders.Store) orders.Store {
		store = &brittleStore{Store: s}
		return store
	}}
	inBubble(t, with, func(t *testing.T, f *fixture) {
		is := func(want string) {
			t.Helper()
			var line struct{ Orders struct{ Database string } }
			if f.admin("GET", "/admin/api/lines/default", "").want(200).into(&line); line.Orders.Database != want {
				t.Errorf("%q, want %q", line.Orders.Database, want)
			}
		}
		time.Sleep(time.Second)
		is("up")
		store.fail.Store(&orders.ErrDatabase)
		time.Sleep(time.Second)
		is("down")
		store.fail.Store(nil)
		time.Sleep(time.Second)
		is("up")
		store.deaf.Store(true)
		time.Sleep(4 * time.Second)
		is("down")
	})
}

// The codes are those of the table, sorted, each once.
func TestProblemCodes(t *testing.T) {
	if !slices.IsSorted(problemCodes) || len(slices.Compact(slices.Clone(problemCodes))) != len(problemCodes) || !slices.Contains(problemCodes, internal.code) {
		t.Error(problemCodes)
	}
	p := newProblemCounts()
	for _, code := range []string{"sold_out", "sold_out", "no such code"} {
		p.count(code)
	}
	i, _ := slices.BinarySearch(problemCodes, "sold_out")
	for j, n := range p.read() {
		if want := uint64(0); j == i && n != 2 || j != i && n != want {
			t.Errorf("%s: %d", problemCodes[j], n)
		}
	}
}

// brittleStore cannot be read while it is told so.
type brittleStore struct {
	orders.Store
	fail atomic.Pointer[error]
	deaf atomic.Bool
}

func (s *brittleStore) Products(ctx context.Context) ([]orders.Product, error) {
	if s.deaf.Load() {
		<-ctx.Done()
		return nil, orders.ErrDatabase
	}
	if err := s.fail.Load(); err != nil {
		return nil, *err
	}
	return s.Store.Products(ctx)
}
