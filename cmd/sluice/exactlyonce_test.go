package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"sluice/servicetest"
)

const (
	// kills is how often the process under load is killed, each at a random moment.
	kills  = 20
	buyers = 24
)

// rush is one process that buyers ask things of all the time while it is killed and
// started again. Whoever gets no answer asks the same again until there is one.
type rush struct {
	*testing.T
	environ []string
	address string
	db      *sql.DB

	at      *instance
	process *exec.Cmd

	answers sync.Map // token and path → deed
	refused sync.Map // code of a "not now" → true
}

// deed is what a buyer was told was done.
type deed struct {
	path, body string
	answer     map[string]any
}

// newRush starts the process on stores of the test's own, with everybody let in at
// once.
func newRush(t *testing.T, environ ...string) *rush {
	t.Helper()
	return newRushOn(t, servicetest.MySQL(t), environ...)
}

func newRushOn(t *testing.T, database string, environ ...string) *rush {
	t.Helper()
	address := freeAddress(t)
	r := &rush{T: t, address: address, db: openSQL(t, database), environ: append([]string{
		"SLUICE_REDIS=" + servicetest.OwnRedis(t).URL, "SLUICE_DATABASE=" + database,
		"SLUICE_SECRET=a-secret-of-the-test-of-32-bytes-or-more", "SLUICE_LISTEN=" + address,
	}, environ...)}
	r.start()
	if status, answer := call(t, http.MethodPatch, r.at.admin+"/admin/api/lines/default", nil, `{"mode":"passthrough"}`); status != http.StatusOK {
		t.Fatalf("passthrough: %d %v", status, answer)
	}
	return r
}

func (r *rush) start() {
	r.Helper()
	r.at, r.process = startProcess(r.T, r.environ...)
}

// buying has buyers do next with one new token after another while the rest of the
// world takes its course.
func (r *rush) buying(next func(ctx context.Context, token string) error, meanwhile func()) {
	r.Helper()
	ctx, end := context.WithCancel(r.Context())
	var crowd sync.WaitGroup
	for range buyers {
		crowd.Go(func() {
			for ctx.Err() == nil {
				token, err := r.token(ctx)
				if err == nil {
					err = next(ctx, token)
				}
				if err != nil && ctx.Err() == nil {
					r.Error(err)
					return
				}
			}
		})
	}
	meanwhile()
	time.Sleep(200 * time.Millisecond)
	end()
	crowd.Wait()
}

// killing kills the process, and starts it again, at random moments.
func (r *rush) killing() {
	r.Helper()
	for range kills {
		time.Sleep(time.Duration(20+rand.IntN(400)) * time.Millisecond)
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
		r.start()
	}
}

// token is one more visitor's, usable at once.
func (r *rush) token(ctx context.Context) (string, error) {
	answer, err := r.ask(ctx, "", "/queue/enter", "{}")
	token, _ := answer["token"].(string)
	if err == nil && token == "" {
		err = fmt.Errorf("enter: no token in %v", answer)
	}
	return token, err
}

// ask sends a request again and again until it is answered with other than "not
// now", and returns the answer if it is a success.
func (r *rush) ask(ctx context.Context, token, path, body string) (answer map[string]any, err error) {
	for {
		header := map[string]string{}
		if token != "" {
			header["Authorization"] = "Bearer " + token
		}
		status, answer, err := try(ctx, http.MethodPost, "", "http://"+r.address+path, header, body)
		switch {
		case err == nil && (status == http.StatusOK || status == http.StatusCreated):
			return answer, nil
		case err == nil && status != http.StatusServiceUnavailable && status != http.StatusAccepted && status != http.StatusTooEarly:
			return answer, fmt.Errorf("%s: %d %v", path, status, answer)
		}
		if err == nil {
			r.refused.Store(fmt.Sprint(answer["code"]), true)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// do asks for something and notes what was answered.
func (r *rush) do(ctx context.Context, token, path, body string) (map[string]any, error) {
	answer, err := r.ask(ctx, token, path, body)
	if err == nil {
		r.answers.Store(token+" "+path, deed{path, body, answer})
	}
	return answer, err
}

// again asks for everything that was acknowledged once more: the field of the answer
// must be the same. It returns how much that was.
func (r *rush) again(field string) (n int) {
	r.Helper()
	for key, value := range r.answers.Range {
		n++
		var token string
		d := value.(deed)
		_, _ = fmt.Sscan(key.(string), &token)
		answer, err := r.ask(r.Context(), token, d.path, d.body)
		if err != nil || answer[field] != d.answer[field] || answer[field] == nil {
			r.Errorf("%s answered %v, and again %v, %v", d.path, d.answer[field], answer[field], err)
		}
	}
	return n
}

// count reads one number from the database.
func (r *rush) count(query string, args ...any) (n int) {
	r.Helper()
	if err := r.db.QueryRow(query, args...).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// Whatever moment the process dies in, an order that was acknowledged is there, once,
// and asking for it again finds it.
func TestKilledWhileOrdering(t *testing.T) { endedWhileOrdering(t, (*rush).killing) }

// The same where it is asked to stop.
func TestStoppedWhileOrdering(t *testing.T) { endedWhileOrdering(t, (*rush).stopping) }

func endedWhileOrdering(t *testing.T, ending func(*rush)) {
	t.Parallel()
	const stock = 1_000_000
	r := newRush(t)
	product := addProduct(t, r.at, stock)
	r.buying(r.ordering(product), func() { ending(r) })
	if acknowledged := r.ordersStand(product, stock); acknowledged < kills {
		t.Errorf("only %d orders: nothing was shown", acknowledged)
	}
}

// ordering orders a few of a product.
func (r *rush) ordering(product int) func(context.Context, string) error {
	return func(ctx context.Context, token string) error {
		_, err := r.do(ctx, token, "/orders", fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":%d}]}`, product, 1+rand.IntN(3)))
		return err
	}
}

// ordersStand holds the database against what was acknowledged; it returns how much
// that was.
func (r *rush) ordersStand(product, stock int) (acknowledged int) {
	r.Helper()
	acknowledged = r.again("order_id")
	r.Logf("%d orders acknowledged, %d made", acknowledged, r.count("SELECT COUNT(*) FROM orders"))
	for _, value := range r.answers.Range {
		if id := value.(deed).answer["order_id"]; r.count("SELECT COUNT(*) FROM orders WHERE id = ?", id) != 1 {
			r.Errorf("the order %v is not there", id)
		}
	}
	if n := r.count("SELECT COUNT(*) - COUNT(DISTINCT token_id) FROM orders"); n != 0 {
		r.Errorf("%d orders share a token", n)
	}
	if n := r.count("SELECT p.stock + COALESCE((SELECT SUM(quantity) FROM order_items WHERE product_id = p.id), 0) FROM products p WHERE id = ?", product); n != stock {
		r.Errorf("stock and items add up to %d", n)
	}
	return acknowledged
}

// freeAddress is one that a process can be started at again and again.
func freeAddress(t testing.TB) string { return servicetest.Address(t) }

// openSQL reaches into the database past the service.
func openSQL(t *testing.T, database string) *sql.DB {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
