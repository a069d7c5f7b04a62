package orders

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeIssuer has no coupon for the visitor "loser", and leaves the others to write.
type fakeIssuer struct {
	mu    sync.Mutex
	asked []Coupon // guarded by mu
}

func (f *fakeIssuer) Claim(ctx context.Context, c Coupon, r ClaimRequest, write Write) Claimed {
	f.mu.Lock()
	f.asked = append(f.asked, c)
	f.mu.Unlock()
	if r.Visitor == "loser" {
		return Claimed{Err: ErrSoldOut}
	}
	return write(ctx, r)
}

func (f *fakeIssuer) Stats() IssuerStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return IssuerStats{Issued: int64(len(f.asked))}
}

// TestIssuerStandsInFront has an issuer answer without a worker, and a claim that it
// leaves to the database wait for one.
func TestIssuerStandsInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 2 * time.Second
		f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 5, Line: "default"}}}}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog, o.Deadline = 1, 5, 7*time.Second })
		issuer := &fakeIssuer{}
		s.IssueThrough(issuer)
		var arrived []string
		s.OnArrived(func(b Buyer) { arrived = append(arrived, b.Visitor) })
		var wg sync.WaitGroup
		winner := askClaim(t.Context(), &wg, s, visitor("winner"))
		loser := askClaim(t.Context(), &wg, s, visitor("loser"))
		wg.Wait()
		winner.check(t, "who got one", true, nil, work)
		loser.check(t, "who was turned away", false, ErrSoldOut, 0)
		elsewhere := visitor("winner")
		elsewhere.Line = "vip"
		refused := askClaim(t.Context(), &wg, s, elsewhere)
		wg.Wait()
		refused.check(t, "of another line", false, ErrOtherLine, 0)
		if len(issuer.asked) != 2 || issuer.asked[0] != (Coupon{ID: 1, Quantity: 5, Line: "default"}) {
			t.Errorf("the issuer was asked for %+v", issuer.asked)
		}
		if len(arrived) != 3 {
			t.Errorf("arrived: %v", arrived)
		}
		stop()
	})
}

// TestIssuerKnowsTheCatalogue claims many coupons that are not there, for which the
// database is not read each time, and one that another process has just added.
func TestIssuerKnowsTheCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{}
		s, stop := running(t, f, nil)
		issuer := &fakeIssuer{}
		s.IssueThrough(issuer)
		var wg sync.WaitGroup
		before := f.reads
		for id := range int64(10) {
			time.Sleep(time.Millisecond)
			wg.Go(func() {
				if _, _, err := s.Claim(t.Context(), visitor("a"), id); !errors.Is(err, ErrCouponNotFound) {
					t.Errorf("one that is not there: %v", err)
				}
			})
		}
		wg.Wait()
		if n := f.reads - before; n != 1 || len(issuer.asked) > 0 {
			t.Errorf("the database was read %d times for what is not there, and the issuer asked for %v", n, issuer.asked)
		}
		time.Sleep(time.Millisecond)
		f.do(func() { f.coupons.all = []Coupon{{ID: 1, Quantity: 5}} })
		if _, created, err := s.Claim(t.Context(), visitor("a"), 1); err != nil || !created || len(issuer.asked) != 1 {
			t.Errorf("one that was just added: created %v, %v", created, err)
		}
		f.do(func() { f.away = true })
		time.Sleep(catalogAgain)
		if _, _, err := s.Claim(t.Context(), visitor("a"), 2); !errors.Is(err, ErrDatabase) {
			t.Errorf("one that nobody can look for: %v", err)
		}
		stop()
	})
}
