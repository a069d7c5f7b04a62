package rediscoupons

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/orders/sqlstore"
	"sluice/servicetest"
)

var discard = slog.New(slog.DiscardHandler)

// databases are what the tests with a real one run on.
var databases = map[string]func(testing.TB) sqlstore.Options{
	"mysql": func(t testing.TB) sqlstore.Options { return sqlstore.Options{URL: servicetest.MySQL(t)} },
	"sqlite": func(t testing.TB) sqlstore.Options {
		return sqlstore.Options{Path: filepath.Join(t.TempDir(), "orders.db")}
	},
}

// house is a Redis and a database of a test's own, for any number of processes.
type house struct {
	redis    string
	database sqlstore.Options
	store    *sqlstore.Store
	ack      Ack
}

// onEach runs a test on each database with each way to acknowledge.
func onEach(t *testing.T, run func(t *testing.T, fresh func(testing.TB) *house)) {
	for name, fresh := range databases {
		for _, ack := range []Ack{Committed, Issued} {
			t.Run(name+"/"+string(ack), func(t *testing.T) {
				t.Parallel()
				run(t, func(t testing.TB) *house {
					return newHouse(t, servicetest.OwnRedis(t).URL, fresh(t), ack)
				})
			})
		}
	}
}

func newHouse(t testing.TB, redis string, database sqlstore.Options, ack Ack) *house {
	t.Helper()
	h := &house{redis: redis, database: database, ack: ack}
	h.database.Workers, h.database.Log = orders.DefaultOptions().Workers, discard
	h.store = h.open(t)
	return h
}

func (h *house) open(t testing.TB) *sqlstore.Store {
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

// instance is the order side of one process, with connections of its own.
type instance struct {
	*orders.Service
	issuer *Issuer
	wire   *wire
}

// start runs an instance until the test ends.
func (h *house) start(t testing.TB) *instance {
	t.Helper()
	in := &instance{wire: &wire{}}
	store := h.open(t)
	in.issuer = newIssuer(t, in.wire.dial(t, h.redis), store, h.ack)
	in.issuer.leftAfter = 100 * time.Millisecond
	in.Service = orderstest.Serve(t, store, func(s *orders.Service) { s.IssueThrough(in.issuer) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.issuer.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return in
}

// two run on a coupon that Redis knows.
func (h *house) two(t testing.TB, quantity int64) (coupon int64, a, b *instance) {
	t.Helper()
	coupon, err := h.store.AddCoupon(t.Context(), orders.Coupon{Name: "A tenth off", Quantity: quantity})
	if err != nil {
		t.Fatal(err)
	}
	a, b = h.start(t), h.start(t)
	a.answers(t, coupon)
	b.answers(t, coupon)
	return coupon, a, b
}

// answers waits until Redis knows all that the database has, by a fresh catalogue.
func (in *instance) answers(t testing.TB, coupon int64) {
	t.Helper()
	if err := in.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := in.Coupon(coupon)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis knows the coupon", func() bool {
		read := in.issuer.client.HExists(t.Context(), codes(coupon), "").Val()
		known := in.issuer.client.HLen(t.Context(), codes(coupon)).Val() - 1
		if !read || known < c.Issued {
			in.issuer.want(coupon)
			return false
		}
		return true
	})
}

// settled waits until the stream is empty: everything that was given out is answered
// for.
func settled(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	eventually(t, "the stream is empty", func() bool {
		n, err := client.XLen(t.Context(), claims).Result()
		return err == nil && n == 0
	})
}

// written are the codes of all visitors in the database.
func (h *house) written(t testing.TB, coupon int64) map[string]string {
	t.Helper()
	page, err := h.store.Claims(t.Context(), coupon, "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	for _, claim := range page {
		codes[claim.Visitor] = claim.Code
	}
	return codes
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
	down bool       // guarded by mu
	to   string     // guarded by mu; another address than that of the URL
	open []net.Conn // guarded by mu
}

func (w *wire) dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := connect(url, w.connect)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// connect makes a client of one server, of sentinels or of a cluster, as the URL says.
func connect(url string, dialer func(context.Context, string, string) (net.Conn, error)) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch rest, master, _ := strings.Cut(rest, "?master="); scheme {
	case "redis-cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: strings.Split(rest, ","), ContextTimeoutEnabled: true, DialerRetries: 1, Dialer: dialer,
			ClusterStateReloadInterval: time.Second,
		}), nil
	case "redis-sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			SentinelAddrs: strings.Split(rest, ","), MasterName: master, ContextTimeoutEnabled: true, DialerRetries: 1, Dialer: dialer,
		}), nil
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opts.ContextTimeoutEnabled, opts.DialerRetries, opts.Dialer = true, 1, dialer
	return redis.NewClient(opts), nil
}

func (w *wire) connect(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("the wire is cut")
	}
	if w.to != "" {
		address = w.to
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.open = append(w.open, c)
	}
	return c, err
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

// mend connects again, to the Redis of the URL or to another one.
func (w *wire) mend(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.to = false, strings.TrimPrefix(url, "redis://")
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
