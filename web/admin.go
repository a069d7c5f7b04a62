package web

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/orders"
	"sluice/queue"
)

// createTimeout bounds the making of a line.
const createTimeout = 5 * time.Second

func (s *Server) routeAdminLines(r *router) {
	r.get("/admin/api/lines", s.operator(s.listLines))
	r.get("/admin/api/lines/:line", s.operator(s.readLine))
	r.put("/admin/api/lines/:line", s.change(s.putLine))
	r.patch("/admin/api/lines/:line", s.change(s.patchLine))
	r.get("/admin/api/lines/:line/history", s.operator(s.lineHistory))
	r.get("/admin/api/lines/:line/audit", s.operator(s.auditLine))
	r.post("/admin/api/lines/:line/restart", s.change(s.restartLine))
	r.delete("/admin/api/lines/:line/visitors/:id", s.change(s.removeVisitor))
}

func (s *Server) routeAdminOrders(r *router) {
	r.patch("/admin/api/orders", s.change(s.patchOrders))
	r.get("/admin/api/orders/summary", s.operator(s.ordersSummary))
	r.post("/admin/api/products", s.change(s.addProduct))
	r.post("/admin/api/coupons", s.change(s.addCoupon))
}

func (s *Server) listLines(c *fiber.Ctx) error {
	var out struct {
		Lines []lineJSON `json:"lines"`
	}
	for _, l := range s.lines.all() {
		figures, err := s.lineFigures(l)
		if err != nil {
			return err
		}
		out.Lines = append(out.Lines, figures)
	}
	return reply(c, fiber.StatusOK, out)
}

func (s *Server) readLine(c *fiber.Ctx) error {
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	return s.replyLine(c, fiber.StatusOK, l)
}

func (s *Server) replyLine(c *fiber.Ctx, status int, l *line) error {
	figures, err := s.lineFigures(l)
	if err != nil {
		return err
	}
	return reply(c, status, figures)
}

// patchLine changes what an operator may change while the line runs. All
// instances obey within a second; this one at once.
func (s *Server) patchLine(c *fiber.Ctx) error {
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	var req patchRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	return s.changeLine(c, l, req)
}

func (s *Server) changeLine(c *fiber.Ctx, l *line, req patchRequest) error {
	ctx := queueContext()
	defer ctx.end()
	patch, err := patchFor(ctx, l, req)
	if err != nil {
		return err
	}
	if patch != (queue.Patch{}) {
		before, _ := l.watch.View()
		after, err := l.line.Configure(ctx, patch)
		if err != nil {
			return queueError("changing a line", err)
		}
		s.noteSettings(c, l.id, req, before.Settings, after)
		if err := s.settled(ctx, l); err != nil {
			return err
		}
	}
	return s.replyLine(c, fiber.StatusOK, l)
}

// putLine creates a line, or changes the one that is there.
func (s *Server) putLine(c *fiber.Ctx) error {
	id := strings.Clone(c.Params("line"))
	if s.cfg.Create == nil {
		return errNotFound
	}
	if !queue.ValidID(id) {
		return explain(errInvalidRequest, "A line's name is 1 to 32 of a-z, 0-9 and -.")
	}
	var req patchRequest
	if len(bytes.TrimSpace(c.Request().Body())) > 0 {
		if err := decode(c, &req); err != nil {
			return err
		}
	}
	if l := s.lines.get(id); l != nil { // which needs no store to be changed
		return s.changeLine(c, l, req)
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	patch, err := patchFor(ctx, nil, req)
	if err != nil {
		return err
	}
	created, err := s.cfg.Create(ctx, id, patch)
	if err != nil {
		return queueError("creating a line", err)
	}
	l, err := s.lineByID(id)
	if err != nil {
		return fmt.Errorf("web: the line %s was created and is not there", id)
	}
	view, _ := l.watch.View()
	// What the settings were before is not known here: another process may have made the line.
	values := strings.Join(req.values(view.Settings), "; ")
	if created {
		s.note(c, id, "create_line", "%s", values)
		return s.replyLine(c, fiber.StatusCreated, l)
	}
	if values != "" {
		s.note(c, id, "settings", "%s", values)
	}
	return s.replyLine(c, fiber.StatusOK, l)
}

// restartLine begins a new epoch: the line is empty, and tickets and tokens that
// were given out before are dead.
func (s *Server) restartLine(c *fiber.Ctx) error {
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	if err := decodeNothing(c); err != nil {
		return err
	}
	ctx := queueContext()
	defer ctx.end()
	before, _ := l.watch.View()
	epoch, err := l.line.Restart(ctx)
	if err != nil {
		return queueError("restarting a line", err)
	}
	s.note(c, l.id, "restart", "epoch: %d → %d, %d were waiting", before.Epoch, epoch, before.Waiting)
	if err := s.settled(ctx, l); err != nil {
		return err
	}
	return s.replyLine(c, fiber.StatusOK, l)
}

func (s *Server) removeVisitor(c *fiber.Ctx) error {
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	subject, err := url.PathUnescape(strings.Clone(c.Params("id")))
	if err != nil {
		return errNotFound
	}
	ctx := queueContext()
	defer ctx.end()
	held, err := l.line.Remove(ctx, subject)
	if err != nil {
		return queueError("removing a visitor", err)
	}
	if !held {
		return explain(errNotFound, "This visitor holds no place in the line.")
	}
	s.note(c, l.id, "remove_visitor", "%s", subject)
	return noContent(c)
}

// settled makes this instance see what was just changed, and remember it over
// its own restart. A disk that fails is logged and does not undo the change.
func (s *Server) settled(ctx context.Context, l *line) error {
	if !l.away() { // else there is nothing to read, and the view has the change already
		if err := l.watch.Refresh(ctx); err != nil {
			return queueError("reading a line after its change", err)
		}
	}
	if err := l.keep(); err != nil {
		s.log.Error("a change is in force but will not outlive this process", "line", l.id, "error", err)
	}
	return nil
}

// patchOrders changes the delay of an experiment, where the process was started
// for one.
func (s *Server) patchOrders(c *fiber.Ctx) error {
	var req struct {
		TestDelayMS change[int64] `json:"test_delay_ms"`
	}
	if err := decode(c, &req); err != nil {
		return err
	}
	if ms := req.TestDelayMS.or(0); ms != nil {
		// Bounded first, so that it cannot overflow; the service allows less.
		delay := time.Duration(min(max(*ms, -1), time.Hour.Milliseconds())) * time.Millisecond
		before, _ := s.cfg.Orders.TestDelay()
		if err := s.cfg.Orders.SetTestDelay(delay); err != nil {
			return fmt.Errorf("web: setting the test delay: %w", err)
		}
		s.note(c, "", "test_delay", "test_delay_ms: %d → %d, of this process", before.Milliseconds(), delay.Milliseconds())
	}
	delay, _ := s.cfg.Orders.TestDelay()
	return reply(c, fiber.StatusOK, struct {
		TestDelayMS int64 `json:"test_delay_ms"`
	}{delay.Milliseconds()})
}

func (s *Server) ordersSummary(c *fiber.Ctx) error {
	sum, err := s.cfg.Orders.Summary(context.Background())
	if err != nil {
		return fmt.Errorf("web: adding up the orders: %w", err)
	}
	byState := make(map[string]int64)
	for _, state := range []orders.State{orders.Pending, orders.PaymentUnknown, orders.Paid, orders.Declined, orders.Cancelled} {
		byState[string(state)] = sum.ByState[state]
	}
	return reply(c, fiber.StatusOK, struct {
		Orders    int64            `json:"orders"`
		ItemsSold int64            `json:"items_sold"`
		Revenue   int64            `json:"revenue"`
		ByState   map[string]int64 `json:"by_state"`
	}{sum.Orders, sum.ItemsSold, sum.Revenue, byState})
}
