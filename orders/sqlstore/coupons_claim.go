package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"sluice/orders"
)

// Claim writes a group of claims in one transaction, whose statements are the same for
// one and for hundreds:
//
//  1. lock the coupons in id order, which holds up everybody else who would give them out;
//  2. look up who has one already. It comes after the lock, so nothing is missed, also
//     not what an earlier attempt committed without hearing so;
//  3. insert the claims, sorted by primary key: the lock orders the groups of one coupon,
//     and the sorting those that write beside each other;
//  4. raise what the coupons have issued.
func (s *Store) Claim(ctx context.Context, group []orders.ClaimRequest) []orders.Claimed {
	pause := time.Duration(s.delay.Load())
	ctx, cancel := context.WithTimeout(ctx, placeTimeout+pause)
	defer cancel()
	write := func(group []orders.ClaimRequest) ([]orders.Claimed, error) { return s.claim(ctx, pause, group) }
	failed := func(err error) orders.Claimed { return orders.Claimed{Err: s.outward("claim a coupon", err)} }
	return together(s, group, write, failed)
}

func (s *Store) claim(ctx context.Context, pause time.Duration, group []orders.ClaimRequest) (claimed []orders.Claimed, err error) {
	if pause == 0 { // the slow database of an experiment is slow for everybody
		if claimed := s.tooLate(ctx, group); claimed != nil {
			return claimed, nil
		}
	}
	again := false
	err = s.settle(ctx, pause, func(tx *gorm.DB) error {
		coupons, err := s.readCoupons(tx, group, s.dialect.forUpdate)
		if err != nil {
			return err
		}
		codes, err := readCodes(tx, group)
		if err != nil {
			return err
		}
		var fresh []orders.ClaimRequest
		claimed, fresh = giveOut(group, coupons, codes, again)
		again = true
		return s.writeClaims(tx, fresh, coupons)
	})
	return claimed, err
}

// tooLate answers a group of whose coupons nothing is left, or nil. Most who come for a
// coupon come too late, so it has to be cheap: two plain reads, no lock, nothing written.
// They suffice since a coupon that has been given out stays so: a cancelled order gives
// back the code, not the claim. And the claims are read after the coupons, so all of
// those that were counted are seen.
//
// A reading that fails is left to the transaction, which is repeated where that helps.
func (s *Store) tooLate(ctx context.Context, group []orders.ClaimRequest) []orders.Claimed {
	db := s.workers.WithContext(ctx)
	coupons, err := s.readCoupons(db, group, "")
	if err != nil {
		return nil
	}
	for _, c := range coupons {
		if c.Issued < c.Quantity {
			return nil
		}
	}
	codes, err := readCodes(db, group)
	if err != nil {
		return nil
	}
	claimed, _ := giveOut(group, coupons, codes, false)
	return claimed
}

func (s *Store) readCoupons(db *gorm.DB, group []orders.ClaimRequest, locking string) (map[int64]*couponRow, error) {
	ids := make([]int64, len(group))
	for i, r := range group {
		ids[i] = r.CouponID
	}
	rows, err := read(db, "SELECT id, quantity, issued, discount, line, "+s.dialect.nowMS+
		" FROM coupons WHERE id IN ("+numbers(distinct(ids))+") ORDER BY id"+locking, nil,
		func(c *couponRow) []any {
			return []any{&c.ID, &c.Quantity, &c.Issued, &c.Discount, &c.Line, &c.NowMS}
		})
	if err != nil {
		return nil, err
	}
	coupons := make(map[int64]*couponRow, len(rows))
	for i := range rows {
		coupons[rows[i].ID] = &rows[i]
	}
	return coupons, nil
}

// readCodes looks up what those who ask have already. It asks coupon by coupon, in one
// statement: SQLite does not take a list of pairs as MySQL does.
func readCodes(db *gorm.DB, group []orders.ClaimRequest) (map[holder]string, error) {
	wanted := make([]holder, len(group))
	for i, r := range group {
		wanted[i] = holder{r.CouponID, r.Visitor}
	}
	slices.SortFunc(wanted, holder.compare)
	wanted = slices.Compact(wanted)
	var where strings.Builder
	visitors := make([]any, len(wanted))
	for i, h := range wanted {
		switch {
		case i == 0:
			fmt.Fprintf(&where, "coupon_id = %d AND visitor IN (?", h.coupon)
		case h.coupon != wanted[i-1].coupon:
			fmt.Fprintf(&where, ") OR coupon_id = %d AND visitor IN (?", h.coupon)
		default:
			where.WriteString(",?")
		}
		visitors[i] = h.visitor
	}
	rows, err := read(db, "SELECT coupon_id, visitor, code FROM coupon_claims WHERE "+where.String()+")", visitors,
		func(c *orders.Claim) []any { return []any{&c.CouponID, &c.Visitor, &c.Code} })
	if err != nil {
		return nil, err
	}
	codes := make(map[holder]string, len(rows))
	for _, c := range rows {
		codes[holder{c.CouponID, c.Visitor}] = c.Code
	}
	return codes, nil
}

func (s *Store) writeClaims(tx *gorm.DB, fresh []orders.ClaimRequest, coupons map[int64]*couponRow) error {
	slices.SortFunc(fresh, func(a, b orders.ClaimRequest) int {
		return holder{a.CouponID, a.Visitor}.compare(holder{b.CouponID, b.Visitor})
	})
	b := newBulk("INSERT INTO coupon_claims (coupon_id, visitor, code, discount, line, claimed_at) VALUES ")
	var issued []amount
	for _, r := range fresh {
		c := coupons[r.CouponID]
		b.number(c.ID)
		b.text(r.Visitor)
		b.text(r.Code)
		b.number(c.Discount)
		b.text(c.Line)
		b.number(c.NowMS)
		b.endRow()
		if last := len(issued) - 1; last >= 0 && issued[last].ID == c.ID {
			issued[last].Quantity++
		} else {
			issued = append(issued, amount{c.ID, 1})
		}
	}
	return s.write(tx, b.statement(), adding("coupons", "issued", +1, issued))
}
