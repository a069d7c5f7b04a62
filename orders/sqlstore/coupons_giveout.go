package sqlstore

import (
	"cmp"

	"sluice/orders"
)

// couponRow is a coupon as it was read, and then as it becomes while it is given out.
type couponRow struct {
	ID       int64
	Quantity int64
	Issued   int64
	Discount int64
	Line     string
	NowMS    int64 // the database's clock when it was read
}

// holder is who may have one of a coupon.
type holder struct {
	coupon  int64
	visitor string
}

// compare is the order of the table's primary key.
func (h holder) compare(other holder) int {
	return cmp.Or(cmp.Compare(h.coupon, other.coupon), cmp.Compare(h.visitor, other.visitor))
}

// giveOut decides who of the group gets a coupon, in the order of the requests, and
// notes it in coupons and codes: what was issued, and the codes that visitors have. It
// answers each; fresh are the claims that are to be written. When it is done again, an
// earlier attempt may have committed without hearing so: whoever then finds the code
// that was made for them is the one it was created for.
func giveOut(group []orders.ClaimRequest, coupons map[int64]*couponRow, codes map[holder]string, again bool) (claimed []orders.Claimed, fresh []orders.ClaimRequest) {
	claimed = make([]orders.Claimed, len(group))
	for i, r := range group {
		c, h := coupons[r.CouponID], holder{r.CouponID, r.Visitor}
		if c == nil {
			claimed[i].Err = orders.ErrCouponNotFound
			continue
		}
		if c.Line != "" && c.Line != r.Line {
			claimed[i].Err = orders.ErrOtherLine
			continue
		}
		code, has := codes[h]
		if !has {
			if c.Issued >= c.Quantity {
				claimed[i].Err = orders.ErrSoldOut
				continue
			}
			c.Issued++
			code, codes[h] = r.Code, r.Code
			fresh = append(fresh, r)
		}
		claimed[i].Created = !has || again && code == r.Code
		claimed[i].Claim = orders.Claim{CouponID: c.ID, Visitor: r.Visitor, Code: code, Remaining: c.Quantity - c.Issued}
	}
	return claimed, fresh
}
