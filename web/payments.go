package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"

	"sluice/orders"
)

// payOrder has an order paid with the token that made it, also after the token's
// time is over.
func (s *Server) payOrder(c *fiber.Ctx) error {
	buyer, _, err := s.buyer(c)
	if err != nil {
		return err
	}
	if err := wantJSON(c); err != nil {
		return err
	}
	var req struct {
		Method string `json:"method"`
	}
	if err := decode(c, &req); err != nil {
		return err
	}
	id := strings.Clone(c.Params("order_id"))
	// No deadline here: the service bounds how long the provider is waited for, and
	// what was asked of it is settled whoever is still there to hear it.
	payment, err := s.cfg.Orders.Pay(context.Background(), buyer, id, req.Method)
	if err != nil {
		return fmt.Errorf("web: paying an order: %w", err)
	}
	status := fiber.StatusOK
	if payment.State != orders.Paid {
		status = fiber.StatusAccepted
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return reply(c, status, struct {
		OrderID string `json:"order_id"`
		State   string `json:"state"`
		PaidAt  string `json:"paid_at,omitempty"`
	}{payment.OrderID, string(payment.State), whenPaid(payment.PaidAt)})
}
