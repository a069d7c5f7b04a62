package web

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"sluice/admission"
	"sluice/orders"
)

// claimCoupon gives the token's visitor a coupon, or finds the one that they have.
// A claim is something new: a token whose time is over makes none.
func (s *Server) claimCoupon(c *fiber.Ctx) error {
	buyer, followUp, err := s.buyer(c)
	if err != nil {
		return err
	}
	if followUp {
		return admission.ErrTokenExpired
	}
	if err := decodeNothing(c); err != nil {
		return err
	}
	id, err := couponID(c)
	if err != nil {
		return err
	}
	// No deadline here, for the reasons of placeOrder.
	claim, created, err := s.cfg.Orders.Claim(context.Background(), buyer, id)
	if err != nil {
		return fmt.Errorf("web: claiming a coupon: %w", err)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return reply(c, made(created), struct {
		CouponID  int64  `json:"coupon_id"`
		Code      string `json:"code"`
		Remaining int64  `json:"remaining"`
	}{claim.CouponID, claim.Code, claim.Remaining})
}

func couponID(c *fiber.Ctx) (int64, error) {
	id, err := strconv.ParseInt(c.Params("coupon_id"), 10, 64)
	if err != nil {
		return 0, orders.ErrCouponNotFound
	}
	return id, nil
}

type couponJSON struct {
	CouponID  int64   `json:"coupon_id"`
	Name      string  `json:"name"`
	Quantity  int64   `json:"quantity"`
	Remaining int64   `json:"remaining"`
	Discount  int64   `json:"discount"`
	Line      *string `json:"line"` // null: visitors of every line may have it
}

func coupon(c orders.Coupon) couponJSON {
	return couponJSON{c.ID, c.Name, c.Quantity, c.Quantity - c.Issued, c.Discount, optional(c.Line)}
}

// coupons lists what can be claimed, at most a second old.
func (s *Server) coupons(c *fiber.Ctx) error {
	list, err := s.cfg.Orders.Coupons()
	if err != nil {
		return fmt.Errorf("web: listing coupons: %w", err)
	}
	out := struct {
		Coupons []couponJSON `json:"coupons"`
	}{make([]couponJSON, len(list))}
	for i, found := range list {
		out.Coupons[i] = coupon(found)
	}
	c.Set(fiber.HeaderCacheControl, publicCache)
	return reply(c, fiber.StatusOK, out)
}

func (s *Server) coupon(c *fiber.Ctx) error {
	id, err := couponID(c)
	if err != nil {
		return err
	}
	found, err := s.cfg.Orders.Coupon(id)
	if err != nil {
		return fmt.Errorf("web: finding a coupon: %w", err)
	}
	c.Set(fiber.HeaderCacheControl, publicCache)
	return reply(c, fiber.StatusOK, coupon(found))
}

type couponRequest struct {
	Name     string `json:"name"`
	Quantity int64  `json:"quantity"`
	Discount int64  `json:"discount"`
	Line     string `json:"line"`
}

func (s *Server) addCoupon(c *fiber.Ctx) error {
	var req couponRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	if err := s.knownLine(req.Line); err != nil {
		return err
	}
	id, err := s.cfg.Orders.AddCoupon(context.Background(), orders.Coupon{
		Name: req.Name, Quantity: req.Quantity, Discount: req.Discount, Line: req.Line,
	})
	if err != nil {
		return fmt.Errorf("web: adding a coupon: %w", err)
	}
	s.note(c, req.Line, "add_coupon", "%d: %q, discount %d, quantity %d", id, clip(req.Name, maxQuoted), req.Discount, req.Quantity)
	return reply(c, fiber.StatusCreated, struct {
		CouponID int64 `json:"coupon_id"`
	}{id})
}
