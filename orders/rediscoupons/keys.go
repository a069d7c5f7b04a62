package rediscoupons

import (
	"strconv"
	"time"
)

// All keys have the hash tag {coupon}: a script gives out and logs in one step, so both
// are in one slot of a cluster.
//
//	sluice:{coupon}:<id>    HASH    visitor → the code they have, with a "?" in front
//	                                until the database is known to have it; and the
//	                                empty field, there once the claims that the database
//	                                had were read. Lives [keep] after its last change:
//	                                whoever asks later has it read anew.
//	sluice:{coupon}:claims  STREAM  coupon, visitor, line, code: what was given out and
//	                                the database has not answered for. Never expires; as
//	                                long as there are coupons, at most.
const (
	tag    = "sluice:{coupon}:"
	claims = tag + "claims"
)

// keep outlives the rush for a coupon: reading its claims anew takes seconds for a million.
// Turning somebody away does not renew it: that would be a write for each loser.
const keep = 24 * time.Hour

func codes(coupon int64) string { return tag + strconv.FormatInt(coupon, 10) }
