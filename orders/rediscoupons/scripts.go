package rediscoupons

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
)

//go:embed lua/issue.lua
var issueSource string

//go:embed lua/settle.lua
var settleSource string

var (
	issueScript  = redis.NewScript(issueSource)
	settleScript = redis.NewScript(settleSource)
)

// The states that issue.lua answers.
const (
	stateCommitted = "committed"
	stateGiven     = "given"
	stateIssued    = "issued"
	stateSoldOut   = "sold_out"
	stateAsked     = "asked"
	stateUnknown   = "unknown"
)

// markGiven is what the code of a claim is marked with that Redis alone has given.
const markGiven = "?"

// issued is what Redis says of a claim.
type issued struct {
	state string
	known int64 // how many are given or asked for; after a loss perhaps more than there are
	code  string
	entry string // in the stream, if it was noted now
}

// issue asks Redis for a claim. It may run twice: the second time it finds what the first
// has noted.
func (i *Issuer) issue(ctx context.Context, c orders.Coupon, r orders.ClaimRequest) (got issued, err error) {
	err = i.reach.try(ctx, func(ctx context.Context) error {
		reply, err := issueScript.Run(ctx, i.client, []string{codes(c.ID), claims},
			r.Visitor, r.Code, c.Quantity, c.Issued, c.ID, r.Line).Slice()
		if err != nil {
			return fmt.Errorf("rediscoupons: giving a coupon out: %w", err)
		}
		return got.read(reply)
	})
	return got, err
}

func (g *issued) read(reply []any) error {
	if len(reply) == 4 {
		state, isState := reply[0].(string)
		known, isNumber := reply[1].(int64)
		code, isCode := reply[2].(string)
		entry, isEntry := reply[3].(string)
		if isState && isNumber && isCode && isEntry {
			*g = issued{state, known, code, entry}
			return nil
		}
	}
	return fmt.Errorf("rediscoupons: giving a coupon out: unexpected reply %v", reply)
}

// settlement is what the database has answered for a claim.
type settlement struct {
	orders.ClaimRequest
	given bool   // by Redis
	entry string // in the stream; empty if it is not known
	has   string // the code in the database; empty if it refused
}

// mostSettled bounds how long one call of the script keeps Redis busy.
const mostSettled = 500

func (i *Issuer) settle(ctx context.Context, all []settlement) error {
	for some := range slices.Chunk(all, mostSettled) {
		keys, args := []string{claims}, []any{int(keep.Seconds())}
		for _, s := range some {
			keys = append(keys, codes(s.CouponID))
			args = append(args, s.Visitor, s.has, s.entry, s.Code)
		}
		if err := settleScript.Run(ctx, i.client, keys, args...).Err(); err != nil {
			return fmt.Errorf("rediscoupons: noting what the database has: %w", err)
		}
	}
	return nil
}
