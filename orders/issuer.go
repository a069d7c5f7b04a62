package orders

import "context"

// Issuer gives coupons out in front of the database, faster than that could, and turns
// away everybody else. The last word stays the [CouponStore]'s: an issuer has each claim
// written, sooner or later, and what is refused there was not given.
type Issuer interface {
	// Claim answers as [CouponStore.Claim] does for one request. c is what r asks for,
	// as it was at most a moment ago; r may have it. write has the database answer,
	// with the patience of any claim; an issuer that cannot tell calls it. One that
	// must be asked itself, and does not come to answer, says [ErrDatabase].
	Claim(ctx context.Context, c Coupon, r ClaimRequest, write Write) Claimed
	// Stats reads the issuer's counters.
	Stats() IssuerStats
}

// IssuerStats is what an issuer has done in this process since it was made.
type IssuerStats struct {
	Issued   int64 // given out by the issuer
	SoldOut  int64 // turned away by the issuer
	Bypassed int64 // sent to the database, since the issuer could not tell
	Drained  int64 // given out, left unwritten, and written or found in the database later
	Refused  int64 // given out by the issuer and refused by the database
}

// Write has one claim written, in a group with others, and answers as
// [CouponStore.Claim] does; or with [ErrOverloaded] or [ErrStopping] if it got no
// worker.
type Write func(context.Context, ClaimRequest) Claimed

// IssueThrough has the coupons given out by an issuer. Call it before Run.
func (s *Service) IssueThrough(i Issuer) { s.issuer = i }

// IssuerStats reads the issuer's counters; without an issuer all are 0.
func (s *Service) IssuerStats() IssuerStats {
	if s.issuer == nil {
		return IssuerStats{}
	}
	return s.issuer.Stats()
}

// issue gives a coupon out: in the database, or through the issuer, if there is one. Both
// are asked for coupons of the catalogue alone, and not for what their line forbids:
// otherwise one visitor could take as many places in the pool as there are numbers.
func (s *Service) issue(ctx context.Context, r ClaimRequest, write Write) Claimed {
	c, err := s.Coupon(r.CouponID)
	if err != nil { // perhaps another process has just added it
		if err = s.catalog.renew(ctx); err == nil {
			c, err = s.Coupon(r.CouponID)
		}
	}
	switch {
	case err != nil:
		return Claimed{Err: err}
	case c.Line != "" && c.Line != r.Line:
		return Claimed{Err: ErrOtherLine}
	case s.issuer == nil:
		return write(ctx, r)
	}
	return s.issuer.Claim(ctx, c, r, write)
}
