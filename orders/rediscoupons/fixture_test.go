package rediscoupons

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/orders"
	"sluice/orders/sqlstore"
	"sluice/servicetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childOptions) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

var discard = slog.New(slog.DiscardHandler)

// databases are what the tests with a real one run on.
var databases = map[string]func(testing.TB) sqlstore.Options{
	"mysql": func(t testing.TB) sqlstore.Options { return sqlstore.Options{URL: servicetest.MySQL(t)} },
	"sqlite": func(t testing.TB) sqlstore.Options {
		return sqlstore.Options{Path: filepath.Join(t.TempDir(), "orders.db")}
	},
}

// onEach runs a test on each database with each way to acknowledge.
func onEach(t *testing.T, run func(t *testing.T, h *house)) {
	for name, fresh := range databases {
		for _, ack := range []Ack{Committed, Issued} {
			t.Run(name+"/"+string(ack), func(t *testing.T) {
				t.Parallel()
				opts := fresh(t)
				opts.Workers, opts.Log = 10, discard
				run(t, &house{redis: servicetest.OwnRedis(t), database: opts, ack: ack})
			})
		}
	}
}

// house is a Redis and a database of a test's own, for any number of processes.
type house struct {
	redis    string
	database sqlstore.Options
	ack      Ack
}

func (h *house) store(t testing.TB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), h.database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// process is an issuer as a process has it, with connections of its own.
type process struct {
	*Issuer
	wire   *wire
	latest atomic.Pointer[orders.Coupon] // the one coupon of the test, as the catalogue has it
}

// start runs a process for a coupon until the test ends. A store of its own is opened
// unless one is given.
func (h *house) start(t testing.TB, coupon int64, store orders.CouponStore) *process {
	t.Helper()
	if store == nil {
		store = h.store(t)
	}
	p := &process{wire: &wire{}}
	p.Issuer = newIssuer(t, p.wire.dial(t, h.redis), store, h.ack)
	p.leftAfter = 100 * time.Millisecond
	p.look(t, coupon)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			p.look(t, coupon)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return p
}

// look brings the catalogue up to date. A database that does not answer leaves it old.
func (p *process) look(t testing.TB, id int64) {
	if all, err := p.store.Coupons(context.WithoutCancel(t.Context())); err == nil {
		for _, c := range all {
			if c.ID == id {
				p.latest.Store(&c)
			}
		}
	}
}

// claim asks for the coupon as the order side does, without the pool.
func (p *process) claim(visitor string) orders.Claimed {
	r := orders.ClaimRequest{CouponID: p.latest.Load().ID, Visitor: visitor, Line: "default", Code: orders.NewCode()}
	return p.Claim(context.Background(), *p.latest.Load(), r, p.write1)
}

func (p *process) write1(ctx context.Context, r orders.ClaimRequest) orders.Claimed {
	return p.store.Claim(ctx, []orders.ClaimRequest{r})[0]
}

func newIssuer(t testing.TB, client redis.UniversalClient, store orders.CouponStore, ack Ack) *Issuer {
	t.Helper()
	i, err := New(client, store, ack, discard)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// wire is the network between one process and Redis, to be cut.
type wire struct {
	mu   sync.Mutex
	down bool
	open []net.Conn
}

func (w *wire) dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.down {
			return nil, errors.New("the wire is cut")
		}
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			w.open = append(w.open, c)
		}
		return c, err
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

func addCoupon(t testing.TB, s orders.CouponStore, quantity int64) orders.Coupon {
	t.Helper()
	c := orders.Coupon{Name: "A tenth off", Quantity: quantity, Discount: 100}
	var err error
	if c.ID, err = s.AddCoupon(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// claimsOf are the codes of all visitors in the database. It fails the test if they are
// not as many as the coupon counts, or too many.
func claimsOf(t testing.TB, s orders.CouponStore, c orders.Coupon) map[string]string {
	t.Helper()
	got, n := map[string]string{}, 0
	for after := ""; ; {
		page, err := s.Claims(t.Context(), c.ID, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range page {
			got[claim.Visitor], after = claim.Code, claim.Visitor
			n++
		}
		if len(page) < 1000 {
			break
		}
	}
	all, err := s.Coupons(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range all {
		if now.ID == c.ID && (now.Issued != int64(n) || n != len(got) || int64(n) > c.Quantity) {
			t.Errorf("%d issued, %d claims of %d visitors, of %d coupons", now.Issued, n, len(got), c.Quantity)
		}
	}
	return got
}

// drained waits until the stream is empty: everything that was given out is answered for.
func (p *process) drained(t testing.TB) {
	t.Helper()
	eventually(t, "the stream is empty", func() bool {
		n, err := p.client.XLen(t.Context(), claims).Result()
		return err == nil && n == 0
	})
}

// knows waits until claims are answered from Redis.
func (p *process) knows(t testing.TB, coupon int64) {
	t.Helper()
	eventually(t, "Redis knows the coupon", func() bool {
		got, err := p.issue(t.Context(), orders.Coupon{ID: coupon}, orders.ClaimRequest{Visitor: "nobody"}) // of none, none is left
		if err == nil && got.state == stateUnknown {
			p.want(coupon)
		}
		return err == nil && got.state == stateSoldOut
	})
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
