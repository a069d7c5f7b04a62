package rediscoupons

import (
	"strconv"
	"time"
)

// All keys have the hash tag {coupon}: a script gives out and logs in one step, so both
// are in one slot of a cluster. Reading the stream in pages needs Redis 6.2 or later.
//
//	sluice:{coupon}:<id>    HASH    visitor → the code they have, and "?" in front of it
//	                                if only Redis has given it so far, "!" if the
//	                                database is being asked for it; and the empty field,
//	                                there once all claims that the database had were
//	                                read. Lives [keep] after the last claim that was
//	                                written: who asks later has it read anew.
//	sluice:{coupon}:claims  STREAM  coupon, visitor, line, code, mark (as above) of what
//	                                the database has not answered for. Never expires.
const (
	tag    = "sluice:{coupon}:"
	claims = tag + "claims"
)

// keep outlives the rush for a coupon: reading its claims anew takes seconds for a million.
// Turning somebody away does not renew it: that would be a write for each loser.
const keep = 24 * time.Hour

func codes(coupon int64) string { return tag + strconv.FormatInt(coupon, 10) }
