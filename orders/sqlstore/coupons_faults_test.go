package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

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
		coupon, err := watch.AddCoupon(t.Context(), orders.Coupon{Name: name, Quantity: 4})
		if err != nil {
			t.Fatal(err)
		}
		group := func(visitors ...string) (group []orders.ClaimRequest) {
			for _, v := range visitors {
				group = append(group, orders.ClaimRequest{CouponID: coupon, Visitor: v, Code: orders.NewCode()})
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
		slow := openStore(t, opts, logger.Discard)
		coupon, err := slow.AddCoupon(t.Context(), orders.Coupon{Name: "A tenth off", Quantity: 1})
		if err != nil {
			t.Fatal(err)
		}
		request := func(visitor string) []orders.ClaimRequest {
			return []orders.ClaimRequest{{CouponID: coupon, Visitor: visitor, Code: orders.NewCode()}}
		}
		slow.SetTestDelay(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan orders.Claimed, 2)
		delayed := func() { done <- slow.Claim(ctx, request("slow"))[0] }
		go delayed()
		if !slow.dialect.oneWriter {
			inUse(t, slow, 1)
		}
		if got := quick.Claim(t.Context(), request("quick"))[0]; got.Err != nil || !got.Created {
			t.Errorf("beside a delayed claim: %+v", got)
		}
		go delayed() // too late
		if !slow.dialect.oneWriter {
			inUse(t, slow, 2)
		}
		select {
		case got := <-done:
			t.Fatalf("a delayed claim ended: %+v", got)
		default:
		}
		cancel()
		for range 2 {
			if got := <-done; !errors.Is(got.Err, orders.ErrDatabase) {
				t.Errorf("a delayed claim, given up: %+v", got)
			}
		}
		slow.SetTestDelay(0)
		if got := slow.Claim(t.Context(), request("slow"))[0]; !errors.Is(got.Err, orders.ErrSoldOut) {
			t.Errorf("after the delay: %+v", got)
		}
	})
}
