package orderstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/orders"
)

// Claiming is one way of giving coupons out, on a database of one test's own.
type Claiming struct {
	// Open returns one more instance, as another process would have, which ends with
	// the test.
	Open func(t testing.TB) *orders.Service
	// Store is the database behind them all: its word is the last.
	Store orders.Store
	// Settle waits until all that was acknowledged is in the database.
	Settle func(t testing.TB)
	// Process is another process, not started, that runs [ClaimForever] on an
	// instance of its own.
	Process func(t testing.TB, coupon int64, name string) *exec.Cmd
}

// RunClaiming runs the suite that every way of giving coupons out must pass; fresh
// makes what each test needs.
func RunClaiming(t *testing.T, fresh func(t testing.TB) Claiming) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Claiming)
	}{
		{"CrowdForOneCoupon", crowdForOneCoupon},
		{"OneVisitorManyTimes", oneVisitorManyTimes},
		{"RefusedClaims", refusedClaims},
		{"KilledProcessLosesNoClaim", killedProcessLosesNoClaim},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// Serve runs a service on the store until the test ends; setUp changes it before.
func Serve(t testing.TB, store orders.Store, setUp func(*orders.Service)) *orders.Service {
	t.Helper()
	s, err := orders.NewService(store, orders.DefaultOptions(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	setUp(s)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s
}

// instances are two that know the coupon.
func instances(t testing.TB, way Claiming, c orders.Coupon) (s [2]*orders.Service, coupon int64) {
	t.Helper()
	coupon = addCoupon(t, way.Store, c)
	for i := range s {
		s[i] = way.Open(t)
		if err := s[i].Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s, coupon
}

// written is who has the coupon by the database, once all is settled: visitor to code.
func written(t testing.TB, way Claiming, coupon int64) map[string]string {
	t.Helper()
	way.Settle(t)
	codes, visitors := map[string]string{}, map[string]string{}
	for _, c := range claimsOf(t, way.Store, coupon) {
		if other, twice := visitors[c.Code]; twice {
			t.Errorf("%s and %s have one code", c.Visitor, other)
		}
		codes[c.Visitor], visitors[c.Code] = c.Code, c.Visitor
	}
	if n := issued(t, way.Store, coupon); n != int64(len(codes)) {
		t.Errorf("%d issued, %d claims", n, len(codes))
	}
	return codes
}

// crowdForOneCoupon has three times as many come as there are coupons, each on two
// connections, and again when they have their answer.
func crowdForOneCoupon(t *testing.T, way Claiming) {
	const pieces, visitors, connections = 100, 300, 2
	s, coupon := instances(t, way, orders.Coupon{Quantity: pieces})
	var created atomic.Int64
	var answers [visitors * connections]string // codes; empty: sold out
	ask := func(i, times int) {
		for range times {
			got, made, err := s[rand.IntN(2)].Claim(t.Context(), buyer(i/connections), coupon)
			switch {
			case errors.Is(err, orders.ErrSoldOut):
			case err != nil:
				t.Errorf("visitor %d: %v", i/connections, err)
				return
			case got.CouponID != coupon || got.Visitor != buyer(i/connections).Visitor || got.Code == "" || got.Remaining < 0 || got.Remaining >= pieces:
				t.Errorf("visitor %d: %+v", i/connections, got)
			}
			if made {
				created.Add(1)
			}
			if answers[i] != "" && got.Code != answers[i] {
				t.Errorf("visitor %d: code %q after %q", i/connections, got.Code, answers[i])
			}
			answers[i] = got.Code
		}
	}
	together(len(answers), func(i int) { ask(i, 2) })
	together(len(answers), func(i int) { ask(i, 1) }) // when all are gone
	codes := written(t, way, coupon)
	if len(codes) != pieces || created.Load() != pieces {
		t.Errorf("%d claims and %d said to be created, of %d", len(codes), created.Load(), pieces)
	}
	for i, code := range answers {
		if has := codes[buyer(i/connections).Visitor]; has != code {
			t.Errorf("visitor %d: code %q, the database has %q", i/connections, code, has)
		}
	}
}

func oneVisitorManyTimes(t *testing.T, way Claiming) {
	const times = 100
	s, coupon := instances(t, way, orders.Coupon{Quantity: 10})
	var created atomic.Int64
	var codes [times]string
	together(times, func(i int) {
		b := buyer(1)
		b.TokenID = fmt.Sprint("token-", i%7) // they may have been admitted again
		got, made, err := s[i%2].Claim(t.Context(), b, coupon)
		if err != nil {
			t.Errorf("try %d: %v", i, err)
		}
		if made {
			created.Add(1)
		}
		codes[i] = got.Code
	})
	has := written(t, way, coupon)
	if created.Load() != 1 || len(has) != 1 {
		t.Errorf("%d said that they created it, claims %v", created.Load(), has)
	}
	for i, code := range codes {
		if code != has[buyer(1).Visitor] {
			t.Errorf("try %d: code %q, the database has %v", i, code, has)
		}
	}
}

func refusedClaims(t *testing.T, way Claiming) {
	s, coupon := instances(t, way, orders.Coupon{Quantity: 1, Line: "vip"})
	vip := buyer(1)
	vip.Line = "vip"
	for i := range s {
		if _, _, err := s[i].Claim(t.Context(), buyer(1), coupon); !errors.Is(err, orders.ErrOtherLine) {
			t.Errorf("of another line: %v", err)
		}
		if _, _, err := s[i].Claim(t.Context(), vip, coupon+1); !errors.Is(err, orders.ErrCouponNotFound) {
			t.Errorf("of no coupon: %v", err)
		}
	}
	// Those who were refused have taken nothing.
	first, made, err := s[0].Claim(t.Context(), vip, coupon)
	if err != nil || !made || first.Remaining != 0 {
		t.Fatalf("claim: %+v, created %v, %v", first, made, err)
	}
	for i := range s {
		if again, made, err := s[i].Claim(t.Context(), vip, coupon); err != nil || made || again.Code != first.Code {
			t.Errorf("again: %+v, created %v, %v", again, made, err)
		}
		late := buyer(2)
		late.Line = "vip"
		if _, _, err := s[i].Claim(t.Context(), late, coupon); !errors.Is(err, orders.ErrSoldOut) {
			t.Errorf("too late: %v", err)
		}
	}
	if has := written(t, way, coupon); len(has) != 1 || has[vip.Visitor] != first.Code {
		t.Errorf("claims %v", has)
	}
}

// killedProcessLosesNoClaim kills a process that is giving coupons out, as kill -9
// does, and holds the database against what it had acknowledged.
func killedProcessLosesNoClaim(t *testing.T, way Claiming) {
	s, coupon := instances(t, way, orders.Coupon{Quantity: 1_000_000})
	acknowledged := map[string]string{}
	for round := range 3 {
		name := fmt.Sprint("round-", round)
		for _, line := range KillAfter(t, way.Process(t, coupon, name), 50+rand.IntN(150)) {
			visitor, code, _ := strings.Cut(line, " ")
			acknowledged[visitor] = code
		}
	}
	codes := written(t, way, coupon)
	for visitor, code := range acknowledged {
		if codes[visitor] != code {
			t.Errorf("visitor %s: acknowledged %q, the database has %q", visitor, code, codes[visitor])
		}
		got, made, err := s[0].Claim(t.Context(), orders.Buyer{TokenID: visitor, Visitor: visitor}, coupon)
		if err != nil || made || got.Code != code {
			t.Errorf("visitor %s: %+v, created %v, %v, after %q", visitor, got, made, err, code)
		}
	}
	t.Logf("%d acknowledged, %d written", len(acknowledged), len(codes))
}

// ClaimForever claims for one new visitor after the other, whose names begin with name,
// and writes visitor and code of each acknowledged claim on a line. It ends with the
// process, by being killed; should that fail, with w.
func ClaimForever(s *orders.Service, coupon int64, name string, w io.Writer) error {
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for worker := range cap(errs) {
		wg.Go(func() {
			for n := 0; ; n++ {
				visitor := fmt.Sprintf("%s-%d-%d", name, worker, n)
				c, _, err := s.Claim(context.Background(), orders.Buyer{TokenID: visitor, Visitor: visitor}, coupon)
				if err == nil {
					_, err = io.WriteString(w, visitor+" "+c.Code+"\n") // one write: a line is whole or absent
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	return <-errs
}
