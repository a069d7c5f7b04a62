package web

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/orders"
	"sluice/queue"
)

func (s *Server) routeAdminLines(r *router) {
	r.get("/admin/api/lines", s.operator(s.listLines))
	r.get("/admin/api/lines/:line", s.operator(s.readLine))
	r.patch("/admin/api/lines/:line", s.change(s.patchLine))
	r.post("/admin/api/lines/:line/restart", s.change(s.restartLine))
	r.delete("/admin/api/lines/:line/visitors/:id", s.change(s.removeVisitor))
}

func (s *Server) routeAdminOrders(r *router) {
	r.patch("/admin/api/orders", s.change(s.patchOrders))
	r.get("/admin/api/orders/summary", s.operator(s.ordersSummary))
	r.post("/admin/api/products", s.change(s.addProduct))
}

// lineJSON is every live figure of a line, as this instance sees it.
type lineJSON struct {
	Line              string    `json:"line"`
	Epoch             int64     `json:"epoch"`
	State             string    `json:"state"`
	Mode              string    `json:"mode"`
	Paused            bool      `json:"paused"`
	Message           string    `json:"message"`
	RateOverride      *float64  `json:"rate_override"`
	MaxActive         int64     `json:"max_active"`
	MaxLength         int64     `json:"max_length"`
	SoldOut           bool      `json:"sold_out"`
	Revision          int64     `json:"revision"`
	Waiting           int64     `json:"waiting"`
	Away              int64     `json:"away"`
	Admitted          int64     `json:"admitted"`
	Inside            int64     `json:"inside"`
	Spent             int64     `json:"spent"`
	Expired           int64     `json:"expired"`
	DroppedPermits    float64   `json:"dropped_permits"`
	Rate              float64   `json:"rate"`
	LimitedBy         *string   `json:"limited_by"`
	AdmittedPerSecond float64   `json:"admitted_per_second"`
	Orders            *poolJSON `json:"orders"` // null where this process takes no orders
	ServerTime        string    `json:"server_time"`
}

type poolJSON struct {
	Workers     int         `json:"workers"`
	Busy        int         `json:"busy"`
	Backlog     int         `json:"backlog"`
	Completed   int64       `json:"completed"`
	Refused     int64       `json:"refused"`
	WorkMS      latencyJSON `json:"work_ms"`
	WaitMS      latencyJSON `json:"wait_ms"`
	TestDelayMS int64       `json:"test_delay_ms"`
}

type latencyJSON struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func (s *Server) lineFigures(l *line) (lineJSON, error) {
	v, err := l.view()
	if err != nil {
		return lineJSON{}, err
	}
	return lineJSON{
		Line: l.id, Epoch: v.Epoch, State: l.state(v), Mode: string(v.Settings.Mode),
		Paused: v.Settings.Paused, Message: v.Settings.Message, RateOverride: v.Settings.RateOverride,
		MaxActive: v.Settings.MaxActive, MaxLength: v.Settings.MaxLength, SoldOut: v.Settings.SoldOut,
		Revision: v.Settings.Revision,
		Waiting:  v.Waiting, Away: v.Away, Admitted: v.Admitted, Inside: v.Inside, Spent: v.Spent, Expired: v.Expired,
		DroppedPermits: round(v.Dropped), Rate: round(v.Rate), LimitedBy: optional(string(v.LimitedBy)),
		AdmittedPerSecond: round(v.Movement.PerSecond),
		Orders:            s.poolFigures(),
		ServerTime:        l.watch.Now().UTC().Format(wireTime),
	}, nil
}

func (s *Server) poolFigures() *poolJSON {
	if s.cfg.Orders == nil {
		return nil
	}
	stats := s.cfg.Orders.PoolStats()
	delay, _ := s.cfg.Orders.TestDelay()
	return &poolJSON{
		Workers: stats.Workers, Busy: stats.Busy, Backlog: stats.Backlog,
		Completed: stats.Completed, Refused: stats.Refused,
		WorkMS: latency(stats.Work), WaitMS: latency(stats.Wait),
		TestDelayMS: delay.Milliseconds(),
	}
}

func latency(l orders.Latency) latencyJSON {
	ms := func(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }
	return latencyJSON{P50: ms(l.P50), P95: ms(l.P95), P99: ms(l.P99)}
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
	return s.replyLine(c, l)
}

func (s *Server) replyLine(c *fiber.Ctx, l *line) error {
	figures, err := s.lineFigures(l)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, figures)
}

type patchRequest struct {
	Paused       change[bool]       `json:"paused"`
	Message      change[string]     `json:"message"`
	Mode         change[queue.Mode] `json:"mode"`
	RateOverride change[float64]    `json:"rate_override"`
	MaxActive    change[int64]      `json:"max_active"`
	MaxLength    change[int64]      `json:"max_length"`
	SoldOut      change[bool]       `json:"sold_out"`
}

func (r patchRequest) patch() queue.Patch {
	p := queue.Patch{
		Paused:    r.Paused.or(false),
		Message:   r.Message.or(""),
		Mode:      r.Mode.or(queue.ModeNormal),
		MaxActive: r.MaxActive.or(0),
		MaxLength: r.MaxLength.or(0),
		SoldOut:   r.SoldOut.or(false),
	}
	if r.RateOverride.set {
		p.RateOverride = &r.RateOverride.value
	}
	return p
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
	patch := req.patch()
	if err := patch.Validate(); err != nil {
		return explain(errInvalidRequest, "%s", oneLine(err.Error()))
	}
	if patch != (queue.Patch{}) {
		ctx, cancel := queueContext()
		defer cancel()
		if _, err := l.line.Configure(ctx, patch); err != nil {
			return queueError("changing a line", err)
		}
		if err := s.settled(ctx, l); err != nil {
			return err
		}
	}
	return s.replyLine(c, l)
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
	ctx, cancel := queueContext()
	defer cancel()
	if _, err := l.line.Restart(ctx); err != nil {
		return queueError("restarting a line", err)
	}
	if err := s.settled(ctx, l); err != nil {
		return err
	}
	return s.replyLine(c, l)
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
	ctx, cancel := queueContext()
	defer cancel()
	held, err := l.line.Remove(ctx, subject)
	if err != nil {
		return queueError("removing a visitor", err)
	}
	if !held {
		return explain(errNotFound, "This visitor holds no place in the line.")
	}
	return noContent(c)
}

// settled makes this instance see what was just changed, and remember it over
// its own restart. A disk that fails is logged and does not undo the change.
func (s *Server) settled(ctx context.Context, l *line) error {
	if err := l.watch.Refresh(ctx); err != nil {
		return queueError("reading a line after its change", err)
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
		if err := s.cfg.Orders.SetTestDelay(delay); err != nil {
			return fmt.Errorf("web: setting the test delay: %w", err)
		}
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
	byState := map[string]int64{string(orders.Pending): 0, string(orders.Cancelled): 0}
	for state, n := range sum.ByState {
		byState[string(state)] = n
	}
	return reply(c, fiber.StatusOK, struct {
		Orders    int64            `json:"orders"`
		ItemsSold int64            `json:"items_sold"`
		Revenue   int64            `json:"revenue"`
		ByState   map[string]int64 `json:"by_state"`
	}{sum.Orders, sum.ItemsSold, sum.Revenue, byState})
}
