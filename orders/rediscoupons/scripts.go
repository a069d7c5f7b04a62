package rediscoupons

import (
	"context"
	_ "embed" // for the scripts
	"fmt"

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

// asking is a claim on its way to Redis.
type asking struct {
	coupon  orders.Coupon
	request orders.ClaimRequest
	got     issued
}

// issue asks Redis for a claim. It may run twice: the second time it finds what the first
// has noted.
func (i *Issuer) issue(ctx context.Context, c orders.Coupon, r orders.ClaimRequest) (issued, error) {
	a := &asking{coupon: c, request: r}
	err := i.reach.try(ctx, func(ctx context.Context) error { return i.issuing.Do(ctx, a) })
	if err != nil {
		return issued{}, err
	}
	return a.got, nil
}

func (i *Issuer) issueAll(ctx context.Context, some []*asking) error {
	keys, args := []string{claims}, make([]any, 0, 6*len(some))
	for _, a := range some {
		keys = append(keys, codes(a.coupon.ID))
		args = append(args, a.request.Visitor, a.request.Code, a.coupon.Quantity, a.coupon.Issued, a.coupon.ID, a.request.Line)
	}
	replies, err := issueScript.Run(ctx, i.client, keys, args...).Slice()
	if err == nil && len(replies) != len(some) {
		err = fmt.Errorf("%d replies for %d claims", len(replies), len(some))
	}
	for k := 0; err == nil && k < len(some); k++ {
		err = some[k].got.read(replies[k])
	}
	if err != nil {
		return fmt.Errorf("rediscoupons: giving coupons out: %w", err)
	}
	return nil
}

func (g *issued) read(reply any) error {
	if values, isList := reply.([]any); isList && len(values) == 4 {
		state, isState := values[0].(string)
		known, isNumber := values[1].(int64)
		code, isCode := values[2].(string)
		entry, isEntry := values[3].(string)
		if isState && isNumber && isCode && isEntry {
			*g = issued{state, known, code, entry}
			return nil
		}
	}
	return fmt.Errorf("unexpected reply %v", reply)
}

// settlement is what the database has answered for a claim.
type settlement struct {
	orders.ClaimRequest
	given bool   // by Redis
	entry string // in the stream; empty if it is not known
	has   string // the code in the database; empty if it refused
}

// settle tells Redis; it may run twice.
func (i *Issuer) settle(ctx context.Context, some []settlement) error {
	keys, args := []string{claims}, []any{int(keep.Seconds())}
	for _, s := range some {
		keys = append(keys, codes(s.CouponID))
		args = append(args, s.Visitor, s.has, s.entry, s.Code)
	}
	if err := settleScript.Run(ctx, i.client, keys, args...).Err(); err != nil {
		return fmt.Errorf("rediscoupons: noting what the database has: %w", err)
	}
	return nil
}
