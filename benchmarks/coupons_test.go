package benchmarks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
	"sluice/orders/rediscoupons"
	"sluice/orders/sqlstore"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// outcome is what somebody who claims is told.
type outcome int

const (
	failed outcome = iota
	issued
	soldOut
	alreadyIssued
)

// way is one way to give out one coupon.
type way interface {
	claim(ctx context.Context, visitor string) (outcome, error)
	// settle returns when all that was given is written that will be.
	settle(ctx context.Context) error
}

// contender is a way with its name, and how it begins with a coupon of its own.
type contender struct {
	name  string
	ours  bool
	begin func(t testing.TB, s *couponStage) way // what it runs ends with t
}

func contenders() []contender {
	return []contender{
		{"pessimistic lock", false, func(t testing.TB, s *couponStage) way {
			return &pessimistic{s.db, s.newCoupon(t, s.store)}
		}},
		{"conditional update + unique", false, func(t testing.TB, s *couponStage) way {
			return &conditional{s.db, s.newCoupon(t, s.store)}
		}},
		{"Redis Lua + write-behind in memory", false, func(t testing.TB, s *couponStage) way {
			w, err := newWriteBehind(t.Context(), s.redis, s.db, s.newCoupon(t, s.store), s.quantity)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}},
		{"ours: database", true, func(t testing.TB, s *couponStage) way {
			return s.service(t, nil)
		}},
		{"ours: Redis first, ack committed", true, func(t testing.TB, s *couponStage) way {
			return s.service(t, s.issuer(t, rediscoupons.Committed))
		}},
		{"ours: Redis first, ack issued", true, func(t testing.TB, s *couponStage) way {
			return s.service(t, s.issuer(t, rediscoupons.Issued))
		}},
	}
}

// service is one of our ways, through everything but HTTP.
type service struct {
	*orders.Service
	db     *sql.DB
	coupon int64
	given  atomic.Int64
}

// settle waits until the database has what was given.
func (s *service) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		rows, _, err := written(ctx, s.db, s.coupon)
		if err != nil || rows == s.given.Load() {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *service) claim(ctx context.Context, visitor string) (outcome, error) {
	buyer := orders.Buyer{TokenID: visitor, Visitor: visitor, Line: "default"}
	_, created, err := s.Claim(ctx, buyer, s.coupon)
	switch {
	case errors.Is(err, orders.ErrSoldOut):
		return soldOut, nil
	case err != nil:
		return failed, err
	case !created:
		return alreadyIssued, nil
	}
	s.given.Add(1)
	return issued, nil
}

// couponStage is where all of them play: one schema, one Redis.
type couponStage struct {
	quantity int
	db       *sql.DB
	redis    redis.UniversalClient
	store    *sqlstore.Store
	coupon   int64 // the one under way
}

func (s *couponStage) service(t testing.TB, issuer orders.Issuer) *service {
	t.Helper()
	of := startService(t, s.store, issuer)
	return &service{Service: of, db: s.db, coupon: s.newCoupon(t, of)}
}

func newCouponStage(t testing.TB, quantity int) *couponStage {
	t.Helper()
	address := servicetest.MySQL(t)
	log := slog.New(slog.DiscardHandler)
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: address, Workers: connections, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	client, err := redisqueue.Dial(servicetest.OwnRedis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &couponStage{quantity: quantity, db: openDatabase(t, address), redis: client, store: store}
}

// issuer runs during one rush only: one that acknowledges what is issued would write the
// claims of the other way too.
func (s *couponStage) issuer(t testing.TB, ack rediscoupons.Ack) orders.Issuer {
	t.Helper()
	issuer, err := rediscoupons.New(s.redis, s.store, ack, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, issuer.Run)
	return issuer
}

// startService runs an order side with the backlog of a rush.
func startService(t testing.TB, store orders.Store, issuer orders.Issuer) *orders.Service {
	t.Helper()
	opts := orders.DefaultOptions()
	opts.Workers, opts.Backlog, opts.Deadline = connections, 10_000, patience
	s, err := orders.NewService(store, opts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if issuer != nil {
		s.IssueThrough(issuer)
	}
	runUntilEnd(t, s.Run)
	return s
}

// runUntilEnd runs what belongs to the test until it ends.
func runUntilEnd(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type couponAdder interface {
	AddCoupon(context.Context, orders.Coupon) (int64, error)
}

func (s *couponStage) newCoupon(t testing.TB, with couponAdder) int64 {
	t.Helper()
	id, err := with.AddCoupon(t.Context(), orders.Coupon{Name: "First come", Quantity: int64(s.quantity), Discount: 100})
	if err != nil {
		t.Fatal(err)
	}
	s.coupon = id
	return id
}

// written is how many claims are in the database, and how many the coupon's row says.
func written(ctx context.Context, db *sql.DB, coupon int64) (rows, counted int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT issued, (SELECT COUNT(*) FROM coupon_claims WHERE coupon_id = id) FROM coupons WHERE id = ?",
		coupon).Scan(&counted, &rows)
	return rows, counted, err
}

// rushed is what came of one rush.
type rushed struct {
	contender
	goroutines      int
	all             time.Duration // until the last answer
	took            times
	issued, soldOut int64
	errors          int64
	first           error // of them
	unwritten       int64 // issued, and not in the database at the last answer
	rows, counted   int64 // at the end
	settle          error
}

// rush has every visitor claim once.
func (s *couponStage) rush(t testing.TB, c contender, visitors, goroutines int) rushed {
	t.Helper()
	w := c.begin(t, s)
	outcomes, errs := make([]outcome, visitors), make([]error, visitors)
	took := make([]time.Duration, visitors)
	var next atomic.Int64
	var ready, running sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(goroutines)
	for range goroutines {
		running.Go(func() {
			ready.Done()
			<-gate
			for i := next.Add(1) - 1; i < int64(visitors); i = next.Add(1) - 1 {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				outcomes[i], errs[i] = w.claim(ctx, fmt.Sprintf("visitor-%d", i))
				cancel()
				took[i] = time.Since(began)
			}
		})
	}
	ready.Wait()
	began := time.Now()
	close(gate)
	running.Wait()
	r := rushed{contender: c, goroutines: goroutines, all: time.Since(began), took: timesOf(took)}
	for i, o := range outcomes {
		switch {
		case errs[i] != nil:
			r.errors++
			r.first = errs[i]
		case o == issued:
			r.issued++
		case o == soldOut:
			r.soldOut++
		}
	}
	rows, _, err := written(t.Context(), s.db, s.coupon)
	r.unwritten = r.issued - rows
	r.settle = w.settle(t.Context())
	if err == nil {
		r.rows, r.counted, err = written(t.Context(), s.db, s.coupon)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wrong says what of the promise was not kept; empty if all of it was.
func (r rushed) wrong(visitors, quantity int64) string {
	var wrong []string
	if r.errors > 0 {
		wrong = append(wrong, fmt.Sprintf("%d errors, such as %v", r.errors, r.first))
	}
	if r.issued+r.soldOut+r.errors != visitors {
		wrong = append(wrong, fmt.Sprintf("%d were told that they have one", visitors-r.issued-r.soldOut-r.errors))
	}
	if r.issued != quantity {
		wrong = append(wrong, fmt.Sprintf("%d issued of %d", r.issued, quantity))
	}
	if r.rows != r.issued || r.counted != r.rows {
		wrong = append(wrong, fmt.Sprintf("%d issued, %d written, %d counted", r.issued, r.rows, r.counted))
	}
	if r.settle != nil {
		wrong = append(wrong, r.settle.Error())
	}
	return strings.Join(wrong, "; ")
}

// TestCoupons has 10,000 visitors claim one of 5,000 coupons, in every way, first
// from as many goroutines as a server has threads, and then all at once.
func TestCoupons(t *testing.T) {
	visitors, quantity, crowds, repeat := 400, 200, []int{20, 400}, 1
	if *full {
		visitors, quantity, crowds, repeat = 10_000, 5_000, []int{200, 10_000}, *rounds
	}
	s := newCouponStage(t, quantity)
	t.Log(durability(t, s.db))
	runs := map[string][]rushed{}
	key := func(c contender, goroutines int) string { return fmt.Sprint(c.name, goroutines) }
	for round := range repeat {
		for _, goroutines := range crowds {
			for _, c := range contenders() {
				t.Run(fmt.Sprintf("round %d, %d goroutines, %s", round+1, goroutines, c.name), func(t *testing.T) {
					r := s.rush(t, c, visitors, goroutines)
					wrong := r.wrong(int64(visitors), int64(quantity))
					t.Logf("%s ms, p50 %s p95 %s p99 %s ms, %d unwritten; %s",
						ms(r.all), ms(r.took.p50), ms(r.took.p95), ms(r.took.p99), r.unwritten, wrong)
					if wrong != "" && c.ours {
						t.Error(wrong)
					}
					runs[key(c, goroutines)] = append(runs[key(c, goroutines)], r)
				})
			}
		}
	}
	var middle []rushed
	for _, goroutines := range crowds {
		for _, c := range contenders() {
			middle = append(middle, median(runs[key(c, goroutines)], func(r rushed) float64 { return r.all.Seconds() }))
		}
	}
	table := couponTable(middle, visitors)
	t.Log("\n" + table)
	intoDocument(t, "bench-coupons", table)
	writePicture(t, "coupons.svg", couponPicture(middle, crowds, visitors, quantity))
}

func couponTable(runs []rushed, visitors int) string {
	var b strings.Builder
	b.WriteString("| from | way | all answered | claims/s | p50 | p95 | p99 | issued | errors | issued, but not in the database at the last answer |\n" +
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range runs {
		name := r.name
		if r.ours {
			name = "**" + name + "**"
		}
		fmt.Fprintf(&b, "| %d | %s | %s ms | %.0f | %s ms | %s ms | %s ms | %d | %d | %d |\n", r.goroutines, name, ms(r.all),
			float64(visitors)/r.all.Seconds(), ms(r.took.p50), ms(r.took.p95), ms(r.took.p99), r.issued, r.errors, r.unwritten)
	}
	return b.String()
}
