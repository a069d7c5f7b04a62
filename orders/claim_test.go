package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeCoupons are what a [fakeStore] keeps of coupons.
type fakeCoupons struct {
	all    []Coupon
	claims map[string]Claim // by coupon and visitor
	groups [][]ClaimRequest // that Claim was called with
}

func (f *fakeStore) Claim(_ context.Context, group []ClaimRequest) []Claimed {
	f.do(func() { f.coupons.groups = append(f.coupons.groups, group) })
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	claimed := make([]Claimed, len(group))
	for i, r := range group {
		claimed[i] = f.coupons.claim(r)
		if err := f.failing(); err != nil {
			claimed[i] = Claimed{Err: err}
		}
	}
	return claimed
}

func (f *fakeCoupons) claim(r ClaimRequest) Claimed {
	at := slices.IndexFunc(f.all, func(c Coupon) bool { return c.ID == r.CouponID })
	key := fmt.Sprint(r.CouponID, r.Visitor)
	had, has := f.claims[key]
	switch {
	case at < 0:
		return Claimed{Err: ErrCouponNotFound}
	case f.all[at].Line != "" && f.all[at].Line != r.Line:
		return Claimed{Err: ErrOtherLine}
	case has:
		return Claimed{Claim: had}
	case f.all[at].Issued == f.all[at].Quantity:
		return Claimed{Err: ErrSoldOut}
	}
	f.all[at].Issued++
	c := Claim{r.CouponID, r.Visitor, r.Code, f.all[at].Quantity - f.all[at].Issued}
	if f.claims == nil {
		f.claims = map[string]Claim{}
	}
	f.claims[key] = c
	return Claimed{Claim: c, Created: true}
}

func (f *fakeStore) Coupons(context.Context) ([]Coupon, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.coupons.all), f.failing()
}

func (f *fakeStore) AddCoupon(_ context.Context, c Coupon) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.ID = int64(len(f.coupons.all) + 1)
	f.coupons.all = append(f.coupons.all, c)
	return c.ID, f.failing()
}

// claimReply is what one caller of Claim got, and when since it asked.
type claimReply struct {
	claim   Claim
	created bool
	err     error
	after   time.Duration
}

// askClaim claims coupon 1 in a goroutine of its own, and returns when nothing moves
// any more. The reply may be read once the goroutine has ended.
func askClaim(ctx context.Context, wg *sync.WaitGroup, s *Service, b Buyer) *claimReply {
	return askClaimOf(ctx, wg, s, b, 1)
}

func askClaimOf(ctx context.Context, wg *sync.WaitGroup, s *Service, b Buyer, coupon int64) *claimReply {
	r, start := &claimReply{}, time.Now()
	wg.Go(func() {
		r.claim, r.created, r.err = s.Claim(ctx, b, coupon)
		r.after = time.Since(start)
	})
	synctest.Wait()
	return r
}

func (r *claimReply) check(t *testing.T, who string, created bool, want error, after time.Duration) {
	t.Helper()
	if r.created != created || !errors.Is(r.err, want) || (want == nil) != (r.claim.Code != "") || r.after != after {
		t.Errorf("%s: %+v, want created %v, %v, after %v", who, *r, created, want, after)
	}
}

func visitor(name string) Buyer {
	return Buyer{TokenID: "token of " + name, Visitor: name, Line: "default"}
}

// TestOneVisitorsClaimTakesOnePlace has one visitor ask for one coupon on 200
// connections, with two tokens.
func TestOneVisitorsClaimTakesOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 5}}}}
		s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog = 2, 1 })
		var arrived []Buyer
		s.OnArrived(func(b Buyer) { arrived = append(arrived, b) })
		s.OnCommitted(func(b Buyer) { t.Errorf("%v spent a token on a claim", b) })
		var wg sync.WaitGroup
		var flood [200]*claimReply
		for i := range flood {
			b := visitor("flood")
			b.TokenID = fmt.Sprint("token ", i%2)
			flood[i] = askClaim(t.Context(), &wg, s, b)
		}
		if p := s.PoolStats(); p.Busy != 1 || p.Backlog != 0 || p.BacklogPeak != 0 {
			t.Errorf("200 of one visitor: %+v", p)
		}
		wg.Wait()
		for i, r := range flood {
			r.check(t, fmt.Sprint("flood ", i), i == 0, nil, work)
			if r.claim != flood[0].claim {
				t.Errorf("flood %d: %+v, the first %+v", i, r.claim, flood[0].claim)
			}
		}
		if len(f.coupons.groups) != 1 || len(f.coupons.groups[0]) != 1 || len(arrived) != 1 {
			t.Errorf("worked on %v, arrived %v", f.coupons.groups, arrived)
		}
		again := askClaim(t.Context(), &wg, s, visitor("flood"))
		wg.Wait()
		again.check(t, "again", false, nil, work)
		if again.claim != flood[0].claim {
			t.Errorf("again: %+v, the first %+v", again.claim, flood[0].claim)
		}
		stop()
	})
}

// TestNoCouponTakesNoPlace has one visitor ask for 200 coupons that are not there, or
// another line's, while the only worker is busy.
func TestNoCouponTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{takes: time.Second, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 5}, {ID: 2, Quantity: 5, Line: "vip"}}}}
		s, stop := running(t, f, func(o *Options) { o.Workers = 1 })
		var wg sync.WaitGroup
		askClaim(t.Context(), &wg, s, visitor("busy"))
		for i := range int64(200) {
			want := ErrCouponNotFound
			if i == 0 {
				want = ErrOtherLine
			}
			askClaimOf(t.Context(), &wg, s, visitor("flood"), 2+i).check(t, fmt.Sprint("coupon ", 2+i), false, want, 0)
		}
		if p := s.PoolStats(); p.Backlog != 0 || p.BacklogPeak != 0 {
			t.Errorf("200 that are not there: %+v", p)
		}
		wg.Wait()
		stop()
	})
}

// TestTwinsOfAClaim are those who ask for the same while it is at work.
func TestTwinsOfAClaim(t *testing.T) {
	const work = 5 * time.Second
	alone := func(name string, run func(*testing.T, *fakeStore, *Service, *sync.WaitGroup)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 2, Line: "default"}}}}
				s, stop := running(t, f, func(o *Options) { o.Workers, o.Backlog, o.Deadline = 1, 2, 8*time.Second })
				var wg sync.WaitGroup
				run(t, f, s, &wg)
				wg.Wait()
				stop()
			})
		})
	}
	alone("of another visitor", func(t *testing.T, _ *fakeStore, s *Service, wg *sync.WaitGroup) {
		a := askClaim(t.Context(), wg, s, visitor("a"))
		b := askClaim(t.Context(), wg, s, visitor("b"))
		wg.Wait()
		a.check(t, "a", true, nil, work)
		b.check(t, "b", true, nil, 2*work)
		if a.claim.Code == b.claim.Code || a.claim.Remaining != 1 || b.claim.Remaining != 0 {
			t.Errorf("claims %+v and %+v", a.claim, b.claim)
		}
	})
	alone("of another line", func(t *testing.T, _ *fakeStore, s *Service, wg *sync.WaitGroup) {
		elsewhere := visitor("a")
		elsewhere.Line = "vip"
		good := askClaim(t.Context(), wg, s, visitor("a"))
		refused := askClaim(t.Context(), wg, s, elsewhere)
		wg.Wait()
		good.check(t, "the coupon's line", true, nil, work)
		refused.check(t, "the other line", false, ErrOtherLine, 0)
	})
	alone("of another coupon", func(t *testing.T, f *fakeStore, s *Service, wg *sync.WaitGroup) {
		f.do(func() { f.coupons.all = append(f.coupons.all, Coupon{ID: 2, Quantity: 1}) })
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		one := askClaim(t.Context(), wg, s, visitor("a"))
		two := askClaimOf(t.Context(), wg, s, visitor("a"), 2)
		wg.Wait()
		one.check(t, "coupon 1", true, nil, work)
		two.check(t, "coupon 2", true, nil, 2*work)
		if one.claim.CouponID != 1 || two.claim.CouponID != 2 {
			t.Errorf("claims %+v and %+v", one.claim, two.claim)
		}
	})
	alone("of one who gives up", func(t *testing.T, _ *fakeStore, s *Service, wg *sync.WaitGroup) {
		askClaim(t.Context(), wg, s, visitor("before"))
		ctx, cancel := context.WithCancel(t.Context())
		first := askClaim(ctx, wg, s, visitor("a"))
		twin := askClaim(t.Context(), wg, s, visitor("a"))
		cancel()
		wg.Wait()
		first.check(t, "the one who gave up", true, nil, 2*work)
		twin.check(t, "the twin", false, nil, 2*work)
	})
	alone("of one that finds no worker", func(t *testing.T, f *fakeStore, s *Service, wg *sync.WaitGroup) {
		f.do(func() { f.takes = 20 * time.Second })
		askClaim(t.Context(), wg, s, visitor("before"))
		first := askClaim(t.Context(), wg, s, visitor("a"))
		time.Sleep(time.Second)
		twin := askClaim(t.Context(), wg, s, visitor("a"))
		wg.Wait()
		first.check(t, "first", false, ErrOverloaded, 8*time.Second)
		twin.check(t, "twin", false, ErrOverloaded, 7*time.Second)
	})
	alone("while the database is away", func(t *testing.T, f *fakeStore, s *Service, wg *sync.WaitGroup) {
		f.do(func() { f.away = true })
		first := askClaim(t.Context(), wg, s, visitor("a"))
		twin := askClaim(t.Context(), wg, s, visitor("a"))
		wg.Wait()
		first.check(t, "first", false, ErrDatabase, work)
		twin.check(t, "twin", false, ErrDatabase, work)
	})
}

func TestClaimRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []Buyer{{}, {TokenID: "t"}, {Visitor: "v"}, {TokenID: "t", Visitor: "\xff"}, {TokenID: "t", Visitor: strings.Repeat("v", 256)}} {
		if _, _, err := s.Claim(t.Context(), b, 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("buyer %+v: %v", b, err)
		}
	}
	if _, _, err := s.Claim(t.Context(), someone, -1); !errors.Is(err, ErrCouponNotFound) {
		t.Errorf("no coupon: %v", err)
	}
}

// Claims that wait for one coupon are given out together, in the order of arrival,
// beside those of another coupon, and each has its own answer.
func TestClaimsAreGivenOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 3, Line: "default"}, {ID: 2, Quantity: 1}}}}
		s, stop := running(t, f, func(o *Options) { o.Workers = 2 })
		var wg sync.WaitGroup
		askClaim(t.Context(), &wg, s, visitor("first"))
		waiting := []*claimReply{
			askClaim(t.Context(), &wg, s, visitor("a")),
			askClaim(t.Context(), &wg, s, visitor("b")),
			askClaim(t.Context(), &wg, s, visitor("c")),
		}
		other := askClaimOf(t.Context(), &wg, s, visitor("a"), 2)
		wg.Wait()
		for i, want := range []error{nil, nil, ErrSoldOut} {
			waiting[i].check(t, fmt.Sprint("waiting ", i), want == nil, want, 2*work)
		}
		other.check(t, "of another coupon", true, nil, work)
		var groups [][]string
		for _, group := range f.coupons.groups {
			var visitors []string
			for _, r := range group {
				visitors = append(visitors, r.Visitor)
			}
			groups = append(groups, visitors)
		}
		if got := fmt.Sprint(groups); got != "[[first] [a] [a b c]]" {
			t.Errorf("groups of %s", got)
		}
		stop()
	})
}

// Who claims and then orders is one visitor served, twice at work.
func TestClaimAndOrderAreOneVisitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		f := &fakeStore{takes: work, coupons: fakeCoupons{all: []Coupon{{ID: 1, Quantity: 3}}}}
		s, stop := running(t, f, nil)
		claim := func() { _, _, _ = s.Claim(t.Context(), someone, 1) }
		order := func() { _, _, _ = s.Place(t.Context(), Request{Buyer: someone, Cart: oneLamp}) }
		for i, step := range []struct {
			do                        func()
			completed, repeated, idle int64
		}{
			{claim, 1, 0, 0},
			{order, 2, 1, 0},
			{claim, 3, 2, 1},
		} {
			step.do()
			p := s.PoolStats()
			if p.Completed != step.completed || p.Repeated != step.repeated || p.RepeatTime != time.Duration(step.idle)*work {
				t.Errorf("step %d: %d completed, %d of them repeated, %s for nothing", i, p.Completed, p.Repeated, p.RepeatTime)
			}
		}
		stop()
	})
}
