package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/servicetest"
)

// counter is a shop on two instances with a crowd that buys, each buyer with one new
// token after the other, repeating an order with its token until it has an answer.
type counter struct {
	*testing.T
	db       *servicetest.MariaDB
	at       [2]*instance
	products [2]int

	mu      sync.Mutex
	orders  map[string]string // guarded by mu; id by token, of all that were acknowledged
	codes   map[string]int    // guarded by mu; of refusals
	slowest time.Duration     // guarded by mu; of any answer to an order
}

const (
	counterStock = 1_000_000
	counterLimit = 2 * time.Second // orders.deadline here
	// placeLimit is how long a worker may be at an order before it gives up.
	placeLimit = 20 * time.Second
)

// openCounter begins two instances that reach the database at this URL.
func openCounter(t *testing.T, db *servicetest.MariaDB, through string) *counter {
	t.Helper()
	environ := []string{
		"SLUICE_REDIS=" + servicetest.OwnRedis(t).URL, "SLUICE_DATABASE=" + through,
		"SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3), "SLUICE_ORDERS_DEADLINE=" + counterLimit.String(),
	}
	c := &counter{T: t, db: db, orders: map[string]string{}, codes: map[string]int{}}
	c.at = [2]*instance{serveEmbedded(t, environ...), serveEmbedded(t, environ...)}
	if status, answer := call(t, http.MethodPatch, c.at[0].admin+"/admin/api/lines/default", nil, `{"mode":"passthrough"}`); status != http.StatusOK {
		t.Fatalf("passthrough: %d %v", status, answer)
	}
	for i := range c.products {
		c.products[i] = addProduct(t, c.at[0], counterStock)
	}
	return c
}

// during has the crowd buy while something happens, and until it buys again after that.
// It returns how many orders were acknowledged meanwhile.
func (c *counter) during(fault func()) (acknowledged int) {
	c.Helper()
	ctx, end := context.WithCancel(c.Context())
	var crowd sync.WaitGroup
	for n := range 12 {
		crowd.Go(func() {
			for ctx.Err() == nil {
				c.buy(n)
			}
		})
	}
	crowd.Go(func() { c.look(ctx) })
	eventually(c.T, "orders are taken", func() bool { return c.acknowledged() > 20 })
	before := c.acknowledged()
	fault()
	acknowledged = c.acknowledged() - before
	before = c.acknowledged()
	eventually(c.T, "orders are taken again", func() bool { return c.acknowledged() > before+50 })
	end()
	crowd.Wait()
	return acknowledged
}

func (c *counter) acknowledged() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.orders)
}

// buy makes one order, however often that takes. Each is of both products.
func (c *counter) buy(n int) {
	v := &visitor{t: c}
	status, answer, err := try(c.Context(), http.MethodPost, "", c.at[n%2].public+"/queue/enter", nil, "{}")
	token, _ := answer["token"].(string)
	if err != nil || status != http.StatusCreated || token == "" {
		c.Errorf("enter: %d %v, %v", status, answer, err)
		return
	}
	v.token = token
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); n++ {
		begun := time.Now()
		status, answer = c.ask(c.at[n%2], token)
		took := time.Since(begun)
		id, _ := answer["order_id"].(string)
		code, _ := answer["code"].(string)
		c.mu.Lock()
		c.slowest = max(c.slowest, took)
		if id != "" {
			c.orders[token] = id
		} else {
			c.codes[code]++
		}
		c.mu.Unlock()
		if id != "" {
			return
		}
		if status != http.StatusServiceUnavailable || answer["retry_after_ms"] == nil {
			c.Errorf("order: %d %v", status, answer)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.Error("two minutes without an order")
}

func (c *counter) ask(at *instance, token string) (int, map[string]any) {
	body := fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1},{"product_id":%d,"quantity":1}]}`, c.products[0], c.products[1])
	status, answer, err := try(c.Context(), http.MethodPost, "", at.public+"/orders", map[string]string{"Authorization": "Bearer " + token}, body)
	if err != nil {
		c.Errorf("order: %v", err)
	}
	return status, answer
}

// look does what needs no database, which must not be touched by its faults.
func (c *counter) look(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for _, path := range []string{"/queue/status", "/products"} {
			status, answer, err := try(ctx, http.MethodGet, "", c.at[n%2].public+path, nil, "")
			if ctx.Err() == nil && (err != nil || status != http.StatusOK) {
				c.Errorf("%s: %d %v, %v", path, status, answer, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// judge looks at what there is after the fault: what was acknowledged stands, once, and
// is found with its token at either instance; nothing else was sold.
func (c *counter) judge(codes ...string) {
	c.Helper()
	allowed := map[string]bool{}
	for _, code := range codes {
		allowed[code] = true
	}
	for code := range c.codes {
		if !allowed[code] {
			c.Errorf("%d were refused with %q", c.codes[code], code)
		}
	}
	if c.slowest > counterLimit+placeLimit+tooLong {
		c.Errorf("an order was answered after %v", c.slowest)
	}
	asked := 0
	for token, id := range c.orders {
		if asked++; asked > 50 {
			break
		}
		if status, again := c.ask(c.at[rand.IntN(2)], token); status != http.StatusOK || again["order_id"] != id {
			c.Errorf("order %s asked for again: %d %v", id, status, again)
		}
	}
	db := c.db.Connect()
	for query, want := range map[string]int{
		"SELECT COUNT(*) FROM orders":                 len(c.orders),
		"SELECT COUNT(*) FROM order_items":            2 * len(c.orders),
		"SELECT SUM(stock) FROM products":             2*counterStock - 2*len(c.orders),
		"SELECT COUNT(DISTINCT token_id) FROM orders": len(c.orders),
	} {
		var n int
		if err := db.QueryRowContext(c.Context(), query).Scan(&n); err != nil || n != want {
			c.Errorf("%s: %d, want %d, %v", query, n, want, err)
		}
	}
	c.Logf("%d orders; refused: %v; the slowest answer took %v", len(c.orders), c.codes, c.slowest)
}

// stop stops both instances, with whatever database there is.
func (c *counter) stop() {
	c.Helper()
	for _, at := range c.at {
		begun := time.Now()
		if code := at.end(); code != exitOK || time.Since(begun) > patience {
			c.Errorf("stopped with %d after %v; log:\n%s", code, time.Since(begun), at.log)
		}
	}
}

// A database that is silent, as one whose disk hangs: whoever waits is told within the
// deadlines, nobody is answered twice differently, and it goes on by itself.
func TestDatabaseFrozen(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	c := openCounter(t, db, db.URL)
	n := c.during(func() {
		db.Freeze()
		time.Sleep(placeLimit + 5*time.Second)
		db.Thaw()
	})
	c.judge("overloaded", "database_unavailable")
	if n > 12 || c.codes["database_unavailable"] == 0 || c.codes["overloaded"] == 0 {
		t.Errorf("%d orders were acknowledged by a database that was silent; refused: %v", n, c.codes)
	}
}

// A silence that is shorter than the patience of the workers is nobody's trouble but
// that of those who find all workers waiting.
func TestDatabaseFrozenForAMoment(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	c := openCounter(t, db, db.URL)
	c.during(func() {
		for range 3 {
			db.Freeze()
			time.Sleep(time.Second)
			db.Thaw()
			time.Sleep(time.Second)
		}
	})
	c.judge()
	db.Freeze()
	c.stop()
}

// A database that takes 100 ms for every word is slow, and nothing else.
func TestDatabaseSlow(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	wire := servicetest.NewProxy(t, db.URL)
	c := openCounter(t, db, wire.URL)
	n := c.during(func() {
		wire.Delay(100 * time.Millisecond)
		time.Sleep(8 * time.Second)
		wire.Delay(0)
	})
	c.judge()
	if n == 0 {
		t.Error("no order was taken while the database was slow")
	}
}

// A server that has no more connections to give: those there are do what they can, and
// who finds none is told to come again.
func TestDatabaseConnectionLimit(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	c := openCounter(t, db, db.URL)
	c.during(func() {
		const all = 10 // the fewest that it may be told to have
		others := db.Connect()
		var conns []*sql.Conn
		ours := map[int]bool{}
		for range all - 1 {
			conn, err := others.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			ours[numbers(t, conn, "SELECT CONNECTION_ID()")[0]] = true
		}
		db.Exec(fmt.Sprintf("SET GLOBAL max_connections = %d", all))
		for _, id := range numbers(t, conns[0], "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'sluice_test'") {
			if !ours[id] {
				_, _ = conns[0].ExecContext(t.Context(), fmt.Sprintf("KILL %d", id)) // it may have gone
			}
		}
		time.Sleep(3 * time.Second)
		for _, conn := range conns {
			_ = conn.Close()
		}
		_ = others.Close()
		time.Sleep(time.Second)
		db.Exec("SET GLOBAL max_connections = 151")
	})
	c.judge("overloaded", "database_unavailable")
	if c.codes["database_unavailable"] == 0 {
		t.Errorf("refused: %v", c.codes)
	}
}

// Somebody else who works on the same rows in another order, or for longer than a lock
// is waited for, costs repetitions of whole transactions, and nobody hears of them.
func TestDatabaseConflicts(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	c := openCounter(t, db, db.URL)
	other := db.Connect()
	db.Exec("CREATE TABLE sluice_test_own.weight (n INT)")
	deadlocks := 0
	lock := func(pause time.Duration, ids ...int) {
		tx, err := other.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		// The server gives up whoever has written less, and that is to be us.
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO weight SELECT seq FROM seq_1_to_100"); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if _, err := tx.ExecContext(t.Context(), "UPDATE products SET brand = CONCAT(brand, '') WHERE id = ?", id); err != nil {
				deadlocks++
				return
			}
			time.Sleep(pause)
		}
	}
	n := c.during(func() {
		for begun := time.Now(); time.Since(begun) < 5*time.Second; {
			lock(20*time.Millisecond, c.products[1], c.products[0])
			time.Sleep(50 * time.Millisecond) // else a transaction may be given up ten times, which is the bound
		}
	})
	var counted int
	if err := other.QueryRowContext(t.Context(), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_DEADLOCKS'").Scan(&counted); err != nil {
		t.Fatal(err)
	}
	c.judge()
	if n == 0 || counted <= deadlocks {
		t.Errorf("%d orders, %d deadlocks, of which %d were the other's", n, counted, deadlocks)
	}
	t.Logf("%d deadlocks, of which %d were the other's", counted, deadlocks)

	c.during(func() { lock(7*time.Second, c.products[0]) })
	c.judge("overloaded")
}

// A server that has become read-only, as after a fail-over to another: orders are told
// at once, the log says why, and they are taken as soon as there is one that writes.
func TestDatabaseReadOnly(t *testing.T) {
	t.Parallel()
	db := servicetest.OwnMariaDB(t)
	c := openCounter(t, db, db.URL)
	n := c.during(func() {
		db.Exec("SET GLOBAL read_only = 1")
		c.mu.Lock()
		c.slowest = 0
		c.mu.Unlock()
		time.Sleep(4 * time.Second)
		c.mu.Lock()
		// The change itself waits for transactions that wait for each other, until one
		// of them has waited for a lock for too long.
		if c.slowest > placeLimit || c.codes["database_unavailable"] == 0 {
			t.Errorf("refused: %v; the slowest answer took %v", c.codes, c.slowest)
		}
		c.mu.Unlock()
		db.Exec("SET GLOBAL read_only = 0")
	})
	c.judge("database_unavailable", "overloaded")
	if n > 12 {
		t.Errorf("%d orders were acknowledged by a database that writes nothing", n)
	}
	db.Stop()
	c.stop()
	if log := c.at[0].log.String() + c.at[1].log.String(); !strings.Contains(log, "read-only") {
		t.Errorf("nothing in the log says why:\n%s", log)
	}
}

// numbers are the first column of what a query finds.
func numbers(t *testing.T, conn *sql.Conn, query string) (all []int) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}
