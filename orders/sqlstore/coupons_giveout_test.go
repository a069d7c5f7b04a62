package sqlstore

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"sluice/orders"
)

// TestGiveOut checks a group against its own rules and against the same requests one
// by one, in groups of one, as halving may make of any.
func TestGiveOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		coupons := map[int64]*couponRow{}
		codes := map[holder]string{}
		for id := range int64(3) {
			c := &couponRow{ID: id, Quantity: rapid.Int64Range(1, 6).Draw(t, "quantity")}
			c.Line = rapid.SampledFrom([]string{"", "", "vip"}).Draw(t, "line")
			for range rapid.Int64Range(0, c.Quantity).Draw(t, "issued") {
				codes[holder{id, fmt.Sprint("visitor ", c.Issued)}] = fmt.Sprint("code before ", c.Issued)
				c.Issued++
			}
			coupons[id] = c
		}
		group := make([]orders.ClaimRequest, rapid.IntRange(1, 20).Draw(t, "requests"))
		for i := range group {
			group[i] = orders.ClaimRequest{
				CouponID: rapid.Int64Range(0, 3).Draw(t, "coupon"),
				Visitor:  fmt.Sprint("visitor ", rapid.IntRange(0, 9).Draw(t, "visitor")),
				Line:     rapid.SampledFrom([]string{"vip", "default"}).Draw(t, "visitor's line"),
				Code:     fmt.Sprint("code ", i),
			}
		}

		singly, given, left := map[int64]*couponRow{}, maps.Clone(codes), map[int64]int64{}
		for id, c := range coupons {
			row := *c
			singly[id], left[id] = &row, c.Quantity-c.Issued
		}
		has := maps.Clone(codes)
		claimed, fresh := giveOut(group, coupons, codes, false)
		for i, r := range group {
			got, c, h := claimed[i], coupons[r.CouponID], holder{r.CouponID, r.Visitor}
			one, write := giveOut(group[i:i+1], singly, given, false)
			if one[0] != got || len(write) == 1 != got.Created {
				t.Fatalf("request %d: %+v, alone %+v", i, got, one[0])
			}
			code, had := has[h]
			switch {
			case c == nil:
				if !errors.Is(got.Err, orders.ErrCouponNotFound) {
					t.Fatalf("request %d of no coupon: %+v", i, got)
				}
				continue
			case c.Line != "" && c.Line != r.Line:
				if !errors.Is(got.Err, orders.ErrOtherLine) {
					t.Fatalf("request %d of another line: %+v", i, got)
				}
				continue
			case !had && left[c.ID] == 0:
				if !errors.Is(got.Err, orders.ErrSoldOut) {
					t.Fatalf("request %d of nothing left: %+v", i, got)
				}
				continue
			case !had:
				code, has[h] = r.Code, r.Code
				left[c.ID]--
				if len(fresh) == 0 || fresh[0] != r {
					t.Fatalf("request %d is not to be written: %+v", i, fresh)
				}
				fresh = fresh[1:]
			}
			want := orders.Claimed{Claim: orders.Claim{CouponID: c.ID, Visitor: r.Visitor, Code: code, Remaining: left[c.ID]}, Created: !had}
			if got != want {
				t.Fatalf("request %d: %+v, want %+v", i, got, want)
			}
		}
		if len(fresh) > 0 {
			t.Fatalf("to be written without being given: %+v", fresh)
		}
		for id, c := range coupons {
			if c.Quantity-c.Issued != left[id] {
				t.Fatalf("coupon %d: %d issued of %d, %d left", id, c.Issued, c.Quantity, left[id])
			}
		}
	})
}
