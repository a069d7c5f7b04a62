package orderstest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/orders"
)

// RunCoupons runs the suite of [orders.CouponStore]; fresh makes the database of each
// test.
func RunCoupons(t *testing.T, fresh func(t testing.TB) Database) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Database)
	}{
		{"ClaimsACoupon", claimsACoupon},
		{"RefusedClaimWritesNothing", refusedClaimWritesNothing},
		{"GivesOutInTheOrderOfTheGroup", givesOutInTheOrderOfTheGroup},
		{"KeepsWhoHasIt", keepsWhoHasIt},
		{"PagesOfClaims", pagesOfClaims},
		{"BadClaimStandsAlone", badClaimStandsAlone},
		{"ClaimWithEndedContext", claimWithEndedContext},
		{"ClaimStatementsDoNotGrow", claimStatementsDoNotGrow},
		{"GroupsForMixedCoupons", groupsForMixedCoupons},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// claimant asks for a coupon, with a code that is theirs alone.
func claimant(n int, coupon int64) orders.ClaimRequest {
	return orders.ClaimRequest{CouponID: coupon, Visitor: buyer(n).Visitor, Line: "default", Code: orders.NewCode()}
}

func addCoupon(t testing.TB, s orders.CouponStore, c orders.Coupon) int64 {
	t.Helper()
	if c.Name == "" {
		c.Name = "A tenth off"
	}
	id, err := s.AddCoupon(t.Context(), c)
	if err != nil {
		t.Fatalf("add a coupon: %v", err)
	}
	return id
}

func issued(t testing.TB, s orders.CouponStore, id int64) int64 {
	t.Helper()
	coupons, err := s.Coupons(t.Context())
	if err != nil {
		t.Fatalf("read the coupons: %v", err)
	}
	for _, c := range coupons {
		if c.ID == id {
			return c.Issued
		}
	}
	t.Fatalf("coupon %d is gone", id)
	return 0
}

// claimsOf reads all claims of a coupon in small pages.
func claimsOf(t testing.TB, s orders.CouponStore, id int64) (all []orders.Claim) {
	t.Helper()
	for after := ""; ; {
		page, err := s.Claims(t.Context(), id, after, 7)
		if err != nil {
			t.Fatalf("read the claims: %v", err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Visitor
	}
}

func claimsACoupon(t *testing.T, db Database) {
	s := db.Open(t, 2)
	id := addCoupon(t, s, orders.Coupon{Quantity: 2, Discount: 150, Line: "default", Issued: 2})
	if n := issued(t, s, id); n != 0 {
		t.Errorf("%d issued of a new coupon", n)
	}
	first := claimant(1, id)
	got := s.Claim(t.Context(), []orders.ClaimRequest{first})[0]
	want := orders.Claimed{Claim: orders.Claim{CouponID: id, Visitor: "visitor-1", Code: first.Code, Remaining: 1}, Created: true}
	if got != want {
		t.Fatalf("claimed %+v, want %+v", got, want)
	}
	second := s.Claim(t.Context(), []orders.ClaimRequest{claimant(2, id)})[0]
	if second.Err != nil || !second.Created || second.Claim.Remaining != 0 || second.Claim.Code == first.Code {
		t.Errorf("the last one: %+v", second)
	}
	// Who has one gets it, also when nothing is left.
	want.Created, want.Claim.Remaining = false, 0
	if got := s.Claim(t.Context(), []orders.ClaimRequest{claimant(1, id)})[0]; got != want {
		t.Errorf("again: %+v, want %+v", got, want)
	}
	if got := s.Claim(t.Context(), []orders.ClaimRequest{claimant(3, id)})[0]; !errors.Is(got.Err, orders.ErrSoldOut) {
		t.Errorf("too late: %+v", got)
	}
	if n, all := issued(t, s, id), claimsOf(t, s, id); n != 2 || len(all) != 2 || all[0] != want.Claim || all[1] != second.Claim {
		t.Errorf("%d issued, claims %+v", n, all)
	}
}

func refusedClaimWritesNothing(t *testing.T, db Database) {
	s := db.Open(t, 2)
	vip := addCoupon(t, s, orders.Coupon{Quantity: 5, Line: "vip"})
	some := addCoupon(t, s, orders.Coupon{Quantity: 5})
	for name, c := range map[string]struct {
		coupon int64
		want   error
	}{
		"unknown":     {some + 1, orders.ErrCouponNotFound},
		"far unknown": {1 << 62, orders.ErrCouponNotFound},
		"negative":    {-1, orders.ErrCouponNotFound},
		"other line":  {vip, orders.ErrOtherLine},
	} {
		got := s.Claim(t.Context(), []orders.ClaimRequest{claimant(1, c.coupon)})[0]
		if !errors.Is(got.Err, c.want) || got.Created || got.Claim != (orders.Claim{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, id := range []int64{vip, some} {
		if n, all := issued(t, s, id), claimsOf(t, s, id); n != 0 || len(all) != 0 {
			t.Errorf("coupon %d: %d issued, claims %+v", id, n, all)
		}
	}
}

// givesOutInTheOrderOfTheGroup has every fate in one group.
func givesOutInTheOrderOfTheGroup(t *testing.T, db Database) {
	s := db.Open(t, 2)
	vip := addCoupon(t, s, orders.Coupon{Quantity: 5, Line: "vip"})
	two := addCoupon(t, s, orders.Coupon{Quantity: 2})
	four := addCoupon(t, s, orders.Coupon{Quantity: 4})
	before := s.Claim(t.Context(), []orders.ClaimRequest{claimant(9, four)})[0]
	if before.Err != nil {
		t.Fatal(before.Err)
	}
	group := []orders.ClaimRequest{
		claimant(9, two), claimant(1, vip), claimant(4, four), claimant(3, two), claimant(9, two),
		claimant(8, two), claimant(5, 999), claimant(9, four), claimant(2, four), claimant(3, two), claimant(3, four),
	}
	type fate struct {
		code      string
		created   bool
		remaining int64
		err       error
	}
	want := []fate{
		{group[0].Code, true, 1, nil},
		{err: orders.ErrOtherLine},
		{group[2].Code, true, 2, nil},
		{group[3].Code, true, 0, nil},
		{group[0].Code, false, 0, nil},
		{err: orders.ErrSoldOut},
		{err: orders.ErrCouponNotFound},
		{before.Claim.Code, false, 2, nil},
		{group[8].Code, true, 1, nil},
		{group[3].Code, false, 0, nil},
		{group[10].Code, true, 0, nil},
	}
	for i, got := range s.Claim(t.Context(), group) {
		if (fate{got.Claim.Code, got.Created, got.Claim.Remaining, got.Err}) != want[i] {
			t.Errorf("claim %d: %+v, want %+v", i, got, want[i])
		}
	}
	for id, n := range map[int64]int{vip: 0, two: 2, four: 4} {
		if got, all := issued(t, s, id), claimsOf(t, s, id); got != int64(n) || len(all) != n {
			t.Errorf("coupon %d: %d issued, claims %+v, want %d", id, got, all, n)
		}
	}
}

func keepsWhoHasIt(t *testing.T, db Database) {
	s := db.Open(t, 2)
	c := orders.Coupon{
		Name:     strings.Repeat("é", orders.MaxName/2),
		Quantity: 1_000_000_000, Discount: orders.MaxPrice,
		Line: "a-line-of-32-characters-exactly-",
	}
	c.ID = addCoupon(t, s, c)
	coupons, err := s.Coupons(t.Context())
	if err != nil || len(coupons) != 1 || coupons[0] != c {
		t.Fatalf("coupons %+v, %v", coupons, err)
	}
	visitors := []string{"a", "a ", "A", "á", "a\x00", " a", `🛋️'"\? %_` + strings.Repeat("v", 200), strings.Repeat("v", 255)}
	var group []orders.ClaimRequest
	for _, v := range visitors {
		group = append(group, orders.ClaimRequest{CouponID: c.ID, Visitor: v, Line: c.Line, Code: orders.NewCode()})
	}
	for range 2 { // created, then found
		for i, got := range s.Claim(t.Context(), group) {
			if got.Err != nil || got.Claim.Visitor != visitors[i] || got.Claim.Code != group[i].Code {
				t.Errorf("visitor %q: %+v", visitors[i], got)
			}
		}
	}
	if all := claimsOf(t, s, c.ID); len(all) != len(visitors) {
		t.Errorf("claims %+v", all)
	}
}

func pagesOfClaims(t *testing.T, db Database) {
	const visitors = 20
	s := db.Open(t, 2)
	id := addCoupon(t, s, orders.Coupon{Quantity: 30})
	addCoupon(t, s, orders.Coupon{Quantity: 30}) // of which nobody has one
	var group []orders.ClaimRequest
	for n := range visitors {
		group = append(group, claimant(n, id))
	}
	codes := map[string]string{}
	for _, got := range s.Claim(t.Context(), group) {
		codes[got.Claim.Visitor] = got.Claim.Code
	}
	all := claimsOf(t, s, id)
	if len(all) != visitors {
		t.Fatalf("%d claims", len(all))
	}
	for i, c := range all {
		if i > 0 && c.Visitor <= all[i-1].Visitor {
			t.Errorf("visitor %s after %s", c.Visitor, all[i-1].Visitor)
		}
		if c != (orders.Claim{CouponID: id, Visitor: c.Visitor, Code: codes[c.Visitor], Remaining: 10}) {
			t.Errorf("claim %+v", c)
		}
	}
	if none, err := s.Claims(t.Context(), id+1, "", 10); err != nil || len(none) != 0 {
		t.Errorf("claims of the other: %+v, %v", none, err)
	}
}

// badClaimStandsAlone has codes in a group that no row can be written with: that of
// somebody else.
func badClaimStandsAlone(t *testing.T, db Database) {
	const visitors = 50
	s := db.Open(t, 2)
	id := addCoupon(t, s, orders.Coupon{Quantity: visitors - 5})
	other := addCoupon(t, s, orders.Coupon{Quantity: 1})
	taken := s.Claim(t.Context(), []orders.ClaimRequest{claimant(0, other)})[0].Claim.Code
	var group []orders.ClaimRequest
	for n := range visitors {
		group = append(group, claimant(n, id))
	}
	group[17].Code, group[49].Code = taken, taken
	var got int64
	for i, c := range s.Claim(t.Context(), group) {
		switch {
		case i == 17:
			if !errors.Is(c.Err, orders.ErrDatabase) {
				t.Errorf("the bad one: %+v", c)
			}
		case i < 46: // in its order, and the bad one takes nothing
			got++
			if c.Err != nil || !c.Created || c.Claim.Remaining != visitors-5-got {
				t.Errorf("claim %d: %+v", i, c)
			}
		case !errors.Is(c.Err, orders.ErrSoldOut):
			t.Errorf("claim %d: %+v", i, c)
		}
	}
	if n, all := issued(t, s, id), claimsOf(t, s, id); n != visitors-5 || len(all) != visitors-5 {
		t.Errorf("%d issued, %d claims", n, len(all))
	}
}

func claimWithEndedContext(t *testing.T, db Database) {
	s := db.Open(t, 2)
	id := addCoupon(t, s, orders.Coupon{Quantity: 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, got := range s.Claim(ctx, []orders.ClaimRequest{claimant(1, id), claimant(2, id)}) {
		if !errors.Is(got.Err, orders.ErrDatabase) || !errors.Is(got.Err, context.Canceled) {
			t.Errorf("claim: %+v", got)
		}
	}
	if n := issued(t, s, id); n != 0 {
		t.Errorf("%d issued", n)
	}
}

func claimStatementsDoNotGrow(t *testing.T, db Database) {
	const visitors, coupons = 100, 20
	s := db.Open(t, 1)
	var ids []int64
	for range coupons {
		ids = append(ids, addCoupon(t, s, orders.Coupon{Quantity: 2 * visitors}))
	}
	out := addCoupon(t, s, orders.Coupon{Quantity: 1})
	count := func(want error, group ...orders.ClaimRequest) int64 {
		before := db.Statements()
		for i, got := range s.Claim(t.Context(), group) {
			if !errors.Is(got.Err, want) {
				t.Errorf("claim %d of %d: %+v", i, len(group), got)
			}
		}
		return db.Statements() - before
	}
	one := count(nil, claimant(visitors, out))
	var many, late []orders.ClaimRequest
	for n := range visitors {
		many = append(many, claimant(n, ids[n%coupons]))
		late = append(late, claimant(n, out))
	}
	if n := count(nil, many...); n != one {
		t.Errorf("%d statements for one claim, %d for %d of %d coupons", one, n, visitors, coupons)
	}
	oneLate := count(orders.ErrSoldOut, late[0])
	if n := count(orders.ErrSoldOut, late...); n != oneLate || n >= one {
		t.Errorf("%d statements for one who is too late, %d for %d; %d for a claim", oneLate, n, visitors, one)
	}
}

// groupsForMixedCoupons has every group list the same coupons in another order, which
// deadlocks whoever locks them as listed.
func groupsForMixedCoupons(t *testing.T, db Database) {
	const groups, coupons, size, pieces = 40, 8, 16, 30
	s := two(t, db)
	var ids []int64
	for range coupons {
		ids = append(ids, addCoupon(t, s[0], orders.Coupon{Quantity: pieces}))
	}
	created := make([]map[int64]int64, groups)
	together(groups, func(i int) {
		created[i] = map[int64]int64{}
		var group []orders.ClaimRequest
		for k := range size {
			at := i + k
			if i%2 == 0 {
				at = i + size - k
			}
			group = append(group, claimant((i/2)*size+k, ids[at%coupons])) // half of them twice
		}
		for k, got := range s[i%2].Claim(t.Context(), group) {
			switch {
			case got.Created:
				created[i][group[k].CouponID]++
			case got.Err != nil && !errors.Is(got.Err, orders.ErrSoldOut):
				t.Errorf("group %d: %+v", i, got)
			}
		}
	})
	if n := db.Repeated(); n > groups/4 {
		t.Errorf("%d transactions were repeated", n)
	}
	for _, id := range ids {
		var sum int64
		for _, c := range created {
			sum += c[id]
		}
		if n, all := issued(t, s[0], id), claimsOf(t, s[0], id); n != sum || int64(len(all)) != sum || n > pieces {
			t.Errorf("coupon %d: %d issued, %d claims, %d created, of %d", id, n, len(all), sum, pieces)
		}
	}
}
