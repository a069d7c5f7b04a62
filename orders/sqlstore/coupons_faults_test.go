package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/servicetest"
)

// mended ends the fault of a network as soon as a store says that it repeats.
type mended struct {
	slog.Handler
	network *network
}

func (m mended) Enabled(context.Context, slog.Level) bool { return true }

func (m mended) Handle(context.Context, slog.Record) error {
	m.network.fault.Store(int32(none))
	return nil
}

// TestClaimsOfAnUnknownCommit loses the commit of a group of claims, or its answer.
func TestClaimsOfAnUnknownCommit(t *testing.T) {
	t.Parallel()
	opts := Options{URL: servicetest.MySQL(t), Workers: 2, Log: discard}
	broken := &network{}
	s := openThrough(t, broken, opts)
	mending := &network{}
	opts.Log = slog.New(mended{slog.DiscardHandler, mending})
	mends := openThrough(t, mending, opts)
	watch := openStore(t, opts, logger.Discard)
	for name, f := range map[string]fault{"lost": commitLost, "unheard": commitUnheard} {
		coupon := aCoupon(t, watch, 4)
		group := func(visitors ...string) (group []orders.ClaimRequest) {
			for _, v := range visitors {
				group = append(group, claimBy(v, coupon))
			}
			return group
		}

		// It goes on failing: nothing is acknowledged, and the same again gets what
		// became of it.
		first := group("b", "a", "b")
		broken.fault.Store(int32(f))
		for i, got := range s.Claim(t.Context(), first) {
			if got.Created || !errors.Is(got.Err, orders.ErrDatabase) {
				t.Errorf("%s: claim %d: %+v", name, i, got)
			}
		}
		broken.fault.Store(int32(none))
		again := s.Claim(t.Context(), group("a", "b"))
		for i, code := range []string{first[1].Code, first[0].Code} {
			committed := again[i].Claim.Code == code
			if again[i].Err != nil || committed != (f == commitUnheard) || again[i].Created == committed {
				t.Errorf("%s, then well: %+v", name, again[i])
			}
		}

		// It fails once: who asks does not notice, and the last coupon is not sold out
		// to the visitor who has it.
		second := group("c", "a", "d", "c", "e")
		mending.fault.Store(int32(f))
		claimed := mends.Claim(t.Context(), second)
		for i, want := range []orders.Claimed{
			{Claim: orders.Claim{Code: second[0].Code}, Created: true},
			{Claim: orders.Claim{Code: again[0].Claim.Code}},
			{Claim: orders.Claim{Code: second[2].Code}, Created: true},
			{Claim: orders.Claim{Code: second[0].Code}},
			{Err: orders.ErrSoldOut},
		} {
			got := claimed[i]
			if got.Claim.Code != want.Claim.Code || got.Created != want.Created || !errors.Is(got.Err, want.Err) {
				t.Errorf("%s once: claim %d: %+v, want %+v", name, i, got, want)
			}
		}
		claims, err := watch.Claims(t.Context(), coupon, "", 10)
		if err != nil || len(claims) != 4 || claims[0].Remaining != 0 {
			t.Errorf("%s: claims %+v, %v", name, claims, err)
		}
	}
}

// TestClaimWaitsForTheTestDelay on its connection, but with no lock: another store
// gives the same coupon out meanwhile. Who is too late is delayed as well.
func TestClaimWaitsForTheTestDelay(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		quick := openStore(t, opts, logger.Discard)
		statements := &counter{Interface: logger.Discard}
		slow := openStore(t, opts, statements)
		coupon := aCoupon(t, quick, 1)
		slow.SetTestDelay(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan orders.Claimed, 2)
		delayed := func() { done <- slow.Claim(ctx, []orders.ClaimRequest{claimBy("slow", coupon)})[0] }
		go delayed()
		if !slow.dialect.oneWriter {
			inUse(t, slow, 1)
		}
		if got := quick.Claim(t.Context(), []orders.ClaimRequest{claimBy("quick", coupon)})[0]; got.Err != nil || !got.Created {
			t.Errorf("beside a delayed claim: %+v", got)
		}
		go delayed() // too late
		cancel()
		for range 2 {
			if got := <-done; !errors.Is(got.Err, orders.ErrDatabase) {
				t.Errorf("a delayed claim, given up: %+v", got)
			}
		}
		if n := statements.n.Load(); n != 0 {
			t.Errorf("%d statements in the delay", n)
		}
		slow.SetTestDelay(0)
		if got := slow.Claim(t.Context(), []orders.ClaimRequest{claimBy("slow", coupon)})[0]; !errors.Is(got.Err, orders.ErrSoldOut) {
			t.Errorf("after the delay: %+v", got)
		}
	})
}

// TestTooLateTakesNoLock has somebody else hold the coupon's row, or SQLite's one
// lock, while those come who find nothing left.
func TestTooLateTakesNoLock(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		s, other := openStore(t, opts, logger.Discard), openStore(t, opts, logger.Discard)
		coupon := aCoupon(t, s, 1)
		first := s.Claim(t.Context(), []orders.ClaimRequest{claimBy("first", coupon)})[0]
		held, release := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- other.transact(t.Context(), other.side, 0, func(tx *gorm.DB) error {
				_, err := other.readCoupons(tx, []orders.ClaimRequest{claimBy("", coupon)}, other.dialect.forUpdate)
				close(held)
				<-release
				return err
			})
		}()
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), lockWait/2) // a lock would take longer
		defer cancel()
		claimed := s.Claim(ctx, []orders.ClaimRequest{claimBy("late", coupon), claimBy("first", coupon)})
		close(release)
		if err := <-done; err != nil {
			t.Errorf("the holder of the lock: %v", err)
		}
		if got := claimed[0]; !errors.Is(got.Err, orders.ErrSoldOut) {
			t.Errorf("too late: %+v", got)
		}
		if got := claimed[1]; got.Err != nil || got.Claim.Code != first.Claim.Code {
			t.Errorf("who has it: %+v, not %+v", got, first)
		}
	})
}

func aCoupon(t *testing.T, s *Store, quantity int64) int64 {
	t.Helper()
	id, err := s.AddCoupon(t.Context(), orders.Coupon{Name: "A tenth off", Quantity: quantity})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func claimBy(visitor string, coupon int64) orders.ClaimRequest {
	return orders.ClaimRequest{CouponID: coupon, Visitor: visitor, Code: orders.NewCode()}
}
