package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/admission"
	"sluice/orders"
)

func (s *Server) routeOrders(r *router) {
	r.post("/orders", s.placeOrder)
	r.get("/orders/:order_id", s.readOrder)
	r.post("/orders/:order_id/payment", s.payOrder)
	r.post("/coupons/:coupon_id/claim", s.claimCoupon)
	r.get("/coupons", s.coupons)
	r.get("/coupons/:coupon_id", s.coupon)
	r.get("/products", s.products)
	r.get("/products/:id", s.product)
}

// bearer is the token that the request presents, if any.
func bearer(c *fiber.Ctx) (string, error) {
	scheme, token, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return "", errTokenMissing
	}
	return token, nil
}

// buyer tells who orders. followUp is true for a genuine token that may order or
// claim nothing new any more, because its time or its epoch is over, but may still
// read, repeat and pay the order it made.
func (s *Server) buyer(c *fiber.Ctx) (b orders.Buyer, followUp bool, err error) {
	raw, err := bearer(c)
	if err != nil {
		return orders.Buyer{}, false, err
	}
	claims, err := s.cfg.Tokens.Verify(raw, s.now, s.epoch)
	now := s.now(claims.Line)
	b = orders.Buyer{TokenID: claims.TicketID, Visitor: claims.Subject, Line: claims.Line}
	if err == nil { // else anybody may have made the name up
		s.span(c).Text("sluice.line", b.Line)
	}
	switch {
	case errors.Is(err, admission.ErrTokenTooEarly):
		return b, false, retryAfter(err, max(time.Millisecond, claims.NotBefore.Sub(now)))
	case errors.Is(err, admission.ErrTokenExpired):
		if now.After(claims.ExpiresAt.Add(s.cfg.FollowupTTL)) {
			return b, false, err
		}
		return b, true, s.sameVisitor(c, b.Visitor)
	case err != nil:
		return b, false, err
	}
	return b, false, s.sameVisitor(c, b.Visitor)
}

// now is the store's time by a line's own clock. Of a line that this process has not
// found yet there is none: then the default line's has to do.
func (s *Server) now(line string) time.Time {
	l := s.lines.get(line)
	if l == nil {
		l = s.lines.get(DefaultLine)
	}
	return l.watch.Now()
}

// epoch is the current epoch of a line as far as this process knows. Before the
// first reading it is 0, which refuses nobody: tokens that are out keep working
// while the line's store is away.
func (s *Server) epoch(line string) (int64, bool) {
	l := s.lines.get(line)
	if l == nil {
		return 0, false
	}
	view, _ := l.watch.View()
	return view.Epoch, true
}

type orderRequest struct {
	Items []struct {
		ProductID int64 `json:"product_id"`
		Quantity  int64 `json:"quantity"`
	} `json:"items"`
	CouponCode string `json:"coupon_code"`
}

// placeOrder makes an order with a token, or finds the one the token made. The
// token is judged first, then the body, then what it asks for.
func (s *Server) placeOrder(c *fiber.Ctx) error {
	buyer, followUp, err := s.buyer(c)
	if err != nil {
		return err
	}
	if err := wantJSON(c); err != nil {
		return err
	}
	var req orderRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	request := orders.Request{Buyer: buyer, Cart: make([]orders.CartItem, len(req.Items)), Coupon: req.CouponCode}
	for i, item := range req.Items {
		request.Cart[i] = orders.CartItem{ProductID: item.ProductID, Quantity: item.Quantity}
	}
	if followUp {
		return s.repeatOrder(c, request)
	}
	// No deadline here: the pool bounds the wait for a worker, and what a worker
	// has taken is always awaited, so that nobody is told less than was done. The
	// service bounds everything else that it does in the database.
	ctx, times := context.Background(), orders.Times{}
	span := s.span(c)
	if span != nil {
		ctx = orders.Timed(ctx, &times)
	}
	order, created, err := s.cfg.Orders.Place(ctx, request)
	waited := times.Begun
	if waited.IsZero() { // refused while it waited
		waited = time.Now()
	}
	span.Past("orders.wait", times.Arrived, waited)
	span.Past("orders.write", times.Begun, times.Done)
	if err != nil {
		return fmt.Errorf("web: placing an order: %w", err)
	}
	return replyOrder(c, made(created), order)
}

// made is the status of something that was made now, or found.
func made(now bool) int {
	if now {
		return fiber.StatusCreated
	}
	return fiber.StatusOK
}

// repeatOrder answers for a token whose time is over: the order it made, if the
// body means the same.
func (s *Server) repeatOrder(c *fiber.Ctx, r orders.Request) error {
	order, err := s.cfg.Orders.Repeat(context.Background(), r)
	if errors.Is(err, orders.ErrOrderNotFound) {
		return admission.ErrTokenExpired
	}
	if err != nil {
		return fmt.Errorf("web: repeating an order: %w", err)
	}
	return replyOrder(c, fiber.StatusOK, order)
}

func (s *Server) readOrder(c *fiber.Ctx) error {
	buyer, _, err := s.buyer(c)
	if err != nil {
		return err
	}
	id := strings.Clone(c.Params("order_id"))
	order, err := s.cfg.Orders.Order(context.Background(), buyer, id)
	if err != nil {
		return fmt.Errorf("web: reading an order: %w", err)
	}
	return replyOrder(c, fiber.StatusOK, order)
}

type orderJSON struct {
	OrderID   string     `json:"order_id"`
	State     string     `json:"state"`
	Items     []itemJSON `json:"items"`
	Discount  int64      `json:"discount"`
	Total     int64      `json:"total"`
	CreatedAt string     `json:"created_at"`
	PaidAt    string     `json:"paid_at,omitempty"` // once it is paid
}

type itemJSON struct {
	ProductID int64  `json:"product_id"`
	Name      string `json:"name"`
	ImageURL  string `json:"image_url"`
	Quantity  int64  `json:"quantity"`
	UnitPrice int64  `json:"unit_price"`
}

func replyOrder(c *fiber.Ctx, status int, o orders.Order) error {
	items := make([]itemJSON, len(o.Items))
	for i, item := range o.Items {
		items[i] = itemJSON{item.ProductID, item.Name, item.ImageURL, item.Quantity, item.UnitPrice}
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return reply(c, status, orderJSON{
		OrderID: o.ID, State: string(o.State), Items: items, Discount: o.Discount, Total: o.Total,
		CreatedAt: o.CreatedAt.UTC().Format(wireTime), PaidAt: whenPaid(o.PaidAt),
	})
}

// whenPaid is empty for what is not paid.
func whenPaid(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(wireTime)
}
