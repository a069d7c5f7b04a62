package orders

import (
	"context"
	"errors"
)

var (
	// ErrCouponNotFound means that a coupon does not exist.
	ErrCouponNotFound = errors.New("orders: no such coupon")
	// ErrCouponInvalid means that no coupon has the code of an order.
	ErrCouponInvalid = errors.New("orders: no coupon has this code")
	// ErrCouponSpent means that the code has been used for another order.
	ErrCouponSpent = errors.New("orders: the coupon has been used")
)

// Coupon is something of which the first so many visitors get one each.
type Coupon struct {
	ID   int64
	Name string
	// Quantity is how many there are in all, Issued how many have been given.
	Quantity, Issued int64
	// Discount is what an order with it costs less, in the smallest currency unit,
	// as far as its items cost that much.
	Discount int64
	// Line, when set, is the only line whose visitors may claim and use it.
	Line string
}

// ClaimRequest is a coupon that somebody asks for.
type ClaimRequest struct {
	CouponID int64
	Visitor  string
	Line     string
	// Code is what the visitor gets if they have none yet. Whoever knows it can use
	// it, once: [NewCode] makes one that nobody guesses.
	Code string
}

// Claim is a coupon that a visitor has.
type Claim struct {
	CouponID int64
	Visitor  string
	Code     string
	// Remaining is how many were left when it was claimed, or asked for again.
	Remaining int64
}

// Claimed is what came of one [ClaimRequest].
type Claimed struct {
	Claim Claim
	// Created is false for what the visitor had before.
	Created bool
	// Err is why there is no claim.
	Err error
}

// CouponStore is the part of a [Store] that keeps coupons. It alone decides who has
// one, whatever stands in front of it: one per visitor, never more than there are.
type CouponStore interface {
	// Claim writes a group of claims in one transaction and answers each, in the
	// order of the requests, in which the coupons are given out. A visitor who has
	// the coupon gets the code that they have. One that is refused or cannot be
	// written fails none of the others.
	//
	// Errors: [ErrCouponNotFound], [ErrOtherLine], [ErrSoldOut]; [ErrDatabase] may
	// stand for a commit whose answer was lost: the same again finds the claim.
	Claim(ctx context.Context, group []ClaimRequest) []Claimed
	// Coupons lists every coupon in id order.
	Coupons(ctx context.Context) ([]Coupon, error)
	// AddCoupon stores a new coupon and returns its id.
	AddCoupon(ctx context.Context, c Coupon) (int64, error)
	// Claims lists up to limit claims of a coupon by visitor, those after the named
	// one: pages for whoever needs them all.
	Claims(ctx context.Context, couponID int64, after string, limit int) ([]Claim, error)
}
