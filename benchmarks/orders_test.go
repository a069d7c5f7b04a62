package benchmarks

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/journal"
	"sluice/journal/filejournal"
	"sluice/orders"
	"sluice/orders/sqlstore"
	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/servicetest"
	"sluice/web"
)

// shop is a whole order half behind its HTTP, with tokens that it verifies, and one
// product that everybody wants.
type shop struct {
	name    string
	address string
	product int64
	tokens  *admission.Tokens
	db      *sql.DB
	minted  int // tokens so far
	sold    int // orders acknowledged so far
}

const hotStock = 100_000_000

// openShop serves orders from a schema of its own; wrap may put another store in
// front of ours, and changes what the service is made of.
func openShop(t testing.TB, name string, wrap func(*sqlstore.Store, *sql.DB, *orders.Options) orders.Store) *shop {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	address := servicetest.MySQL(t)
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: address, Workers: connections, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := &shop{name: name, db: openDatabase(t, address)}
	opts := orders.DefaultOptions()
	opts.Workers = connections
	service, err := orders.NewService(wrap(store, s.db, &opts), opts, log)
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, service.Run)
	s.product, err = service.AddProduct(t.Context(), orders.Product{Name: "Mug", Brand: "Sluice", Price: 1000, Stock: hotStock, ImageURL: "/mug.svg"})
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, service, log)
	return s
}

func (s *shop) serve(t testing.TB, service *orders.Service, log *slog.Logger) {
	t.Helper()
	line, err := memqueue.New(web.DefaultLine, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	watch := queue.NewWatch(line, 250*time.Millisecond, log)
	if err := watch.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, watch.Run)
	if s.tokens, err = admission.NewTokens([][]byte{[]byte("a secret for tests, of 32 bytes.")}); err != nil {
		t.Fatal(err)
	}
	kept, err := filejournal.Open(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	server, err := web.New(web.Config{
		Role: web.RoleOrders, Lines: web.NewLines(web.Line{Line: line, Watch: watch}), Tokens: s.tokens, Orders: service,
		FollowupTTL: time.Hour, Journal: journal.NewBook(kept, log), AccessLogEvery: 100, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	public, admin := listen(t), listen(t)
	s.address = public.Addr().String()
	runUntilEnd(t, func(ctx context.Context) error {
		return server.Serve(ctx, public, admin, web.Drain{Timeout: 10 * time.Second})
	})
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mint makes admission tokens, of which each makes one order.
func (s *shop) mint(t testing.TB, n int) []string {
	t.Helper()
	tokens := make([]string, n)
	for i := range tokens {
		s.minted++
		var err error
		if tokens[i], err = mintFor(s.tokens, strconv.Itoa(s.minted)); err != nil {
			t.Fatal(err)
		}
	}
	return tokens
}

// bought is what came of a closed loop of buyers.
type bought struct {
	perSecond float64
	took      times
}

// buy has so many orders made over so many connections, each with the next order as
// soon as the last is answered.
func (s *shop) buy(t testing.TB, n, over int) bought {
	t.Helper()
	tokens := s.mint(t, n)
	took := make([]time.Duration, n)
	var next atomic.Int64
	var buying errgroup.Group
	began := time.Now()
	for range over {
		buying.Go(func() error {
			c, err := net.Dial("tcp", s.address)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			b := s.newBuyer(c)
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				sent := time.Now()
				if err := b.order(tokens[i]); err != nil {
					return err
				}
				took[i] = time.Since(sent)
			}
			return nil
		})
	}
	err := buying.Wait()
	all := time.Since(began)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	s.sold += n
	return bought{float64(n) / all.Seconds(), timesOf(took)}
}

// inTurn has one buyer at each shop, who order in turn, so that whatever else goes on
// in the machine meets all of them: how long a lone order takes.
func inTurn(t testing.TB, shops []*shop, n int) []bought {
	t.Helper()
	took, sum := make([][]time.Duration, len(shops)), make([]time.Duration, len(shops))
	buyers, tokens := make([]*buyer, len(shops)), make([][]string, len(shops))
	for i, s := range shops {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		buyers[i], tokens[i] = s.newBuyer(c), s.mint(t, n)
	}
	for k := range n {
		for i, s := range shops {
			sent := time.Now()
			if err := buyers[i].order(tokens[i][k]); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			took[i] = append(took[i], time.Since(sent))
			sum[i] += time.Since(sent)
			s.sold++
		}
	}
	all := make([]bought, len(shops))
	for i := range shops {
		all[i] = bought{float64(n) / sum[i].Seconds(), timesOf(took[i])}
	}
	return all
}

// buyer orders on one connection. It is as cheap as it can be: it takes time of the
// processors that the server needs.
type buyer struct {
	in  *bufio.Reader
	out *bufio.Writer
	req fasthttp.Request
	res fasthttp.Response
}

func (s *shop) newBuyer(c net.Conn) *buyer {
	b := &buyer{in: bufio.NewReader(c), out: bufio.NewWriter(c)}
	b.req.SetRequestURI("http://" + s.address + "/orders")
	b.req.Header.SetMethod(fasthttp.MethodPost)
	b.req.Header.SetContentType("application/json")
	b.req.SetBodyString(fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, s.product))
	return b
}

func (b *buyer) order(token string) error {
	b.req.Header.Set("Authorization", "Bearer "+token)
	if err := errors.Join(b.req.Write(b.out), b.out.Flush(), b.res.Read(b.in)); err != nil {
		return err
	}
	if b.res.StatusCode() != fasthttp.StatusCreated {
		return fmt.Errorf("an order was not made: %d %s", b.res.StatusCode(), b.res.Body())
	}
	return nil
}

// holdsTrue compares what was acknowledged with what the database has.
func (s *shop) holdsTrue(t testing.TB) {
	t.Helper()
	var rows, pieces, left int
	err := s.db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM orders), (SELECT SUM(quantity) FROM order_items), (SELECT stock FROM products)").
		Scan(&rows, &pieces, &left)
	if err != nil {
		t.Fatal(err)
	}
	if rows != s.sold || pieces != s.sold || left != hotStock-s.sold {
		t.Errorf("%s: %d acknowledged, %d orders of %d pieces, stock %d less", s.name, s.sold, rows, pieces, hotStock-left)
	}
}

// TestOrders has the same server sell one hot product over HTTP in three ways, which
// differ in how the store writes: the published conditional update, the same with
// the hot row last, and ours in groups.
func TestOrders(t *testing.T) {
	crowds, repeat, lone := []int{20, 50}, 1, 50
	single, grouped := 200, 1000 // orders a round
	if *full {
		crowds, repeat, lone = []int{200, 1000}, *rounds, 1000
		single, grouped = 6_000, 60_000
	}
	alone := func(last bool) func(*sqlstore.Store, *sql.DB, *orders.Options) orders.Store {
		return func(store *sqlstore.Store, db *sql.DB, opts *orders.Options) orders.Store {
			opts.TestDelay = 1 // makes no groups, and this store does not sleep it
			return &oneByOne{store, db, last}
		}
	}
	shops := []*shop{
		openShop(t, "conditional update, one by one", alone(false)),
		openShop(t, "the same, hot row last", alone(true)),
		openShop(t, "ours: groups", func(store *sqlstore.Store, _ *sql.DB, _ *orders.Options) orders.Store { return store }),
	}
	t.Log(durability(t, shops[0].db))
	runs := map[string][]bought{}
	note := func(round, over int, s *shop, r bought) {
		t.Logf("round %d, %d connections, %s: %.0f orders/s, p50 %s p99 %s ms", round+1, over, s.name, r.perSecond, ms(r.took.p50), ms(r.took.p99))
		key := fmt.Sprint(over, s.name)
		runs[key] = append(runs[key], r)
	}
	for round := range repeat {
		for i, r := range inTurn(t, shops, lone) {
			note(round, 1, shops[i], r)
		}
		for _, over := range crowds {
			for i, s := range shops {
				n := single
				if i == len(shops)-1 {
					n = grouped
				}
				s.buy(t, 2*over, over) // what is only slow the first time
				note(round, over, s, s.buy(t, n, over))
			}
		}
	}
	for _, s := range shops {
		s.holdsTrue(t)
	}
	table := orderTable(shops, append([]int{1}, crowds...), func(s *shop, over int) bought {
		return median(runs[fmt.Sprint(over, s.name)], func(b bought) float64 { return b.perSecond })
	})
	t.Log("\n" + table)
	intoDocument(t, "bench-orders", table)
}

func orderTable(shops []*shop, crowds []int, of func(*shop, int) bought) string {
	var b strings.Builder
	b.WriteString("| connections | store | orders/s | of the first | p50 | p99 |\n|--:|---|--:|--:|--:|--:|\n")
	for _, over := range crowds {
		first := of(shops[0], over)
		for _, s := range shops {
			r := of(s, over)
			fmt.Fprintf(&b, "| %d | %s | %.0f | %.1f× | %s ms | %s ms |\n",
				over, s.name, r.perSecond, r.perSecond/first.perSecond, ms(r.took.p50), ms(r.took.p99))
		}
	}
	return b.String()
}
