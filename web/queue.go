package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// publicCache lets anybody keep an answer that is the same for all for a second.
const publicCache = "public, max-age=1"

func (s *Server) routeQueue(r *router) {
	r.post("/queue/enter", s.enter)
	r.get("/queue/position", s.position)
	r.post("/queue/leave", s.leave)
	r.get("/queue/status", s.status)
}

// enter gives the visitor a place, or finds the one they have. A ticket that is
// no longer good is as if there were none: whoever asks to enter wants a place.
func (s *Server) enter(c *fiber.Ctx) error {
	if err := sameSite(c); err != nil {
		return err
	}
	l, err := s.line(c)
	if err != nil {
		return err
	}
	if err := decodeNothing(c); err != nil {
		return err
	}
	subject, held := "", (*queue.Ticket)(nil)
	if t, err := s.ticket(c, l); err == nil {
		subject, held = t.Subject, &t
	} else {
		subject = queue.NewID()
	}
	ctx, cancel := queueContext()
	defer cancel()
	standing, err := l.line.Enter(ctx, subject, held)
	if err != nil {
		return queueError("entering", err)
	}
	signed, err := s.cfg.Tickets.Sign(standing.Ticket, l.watch.Now())
	if err != nil {
		return err
	}
	s.setTicket(c, l, signed)
	if standing.Created {
		c.Status(fiber.StatusCreated)
	}
	return s.standingAnswer(c, l, standing, signed)
}

// position tells where the holder of a ticket stands. When another ticket of
// the same visitor holds the place, they are given that one.
func (s *Server) position(c *fiber.Ctx) error {
	l, err := s.line(c)
	if err != nil {
		return err
	}
	t, err := s.ticket(c, l)
	if err != nil {
		return err
	}
	ctx, cancel := queueContext()
	defer cancel()
	standing, err := l.line.Standing(ctx, t)
	if err != nil {
		return queueError("looking up a place", err)
	}
	signed := ""
	if standing.State.Live() && (standing.Ticket.ID != t.ID || s.isOld(t, l.watch.Now())) {
		if signed, err = s.cfg.Tickets.Sign(standing.Ticket, l.watch.Now()); err != nil {
			return err
		}
		s.setTicket(c, l, signed)
		c.Set(headerTicket, signed)
	}
	return s.standingAnswer(c, l, standing, signed)
}

// isOld reports whether a ticket has lived for half of its time. Whoever keeps
// polling is given a new one then, so that no wait is longer than a ticket.
func (s *Server) isOld(t queue.Ticket, now time.Time) bool {
	return t.ExpiresAt.Sub(now) < s.cfg.Tickets.TTL()/2
}

// leave gives a place up. A genuine ticket always leaves: one that has expired
// may still have its place, and one of an earlier epoch has nothing to give up.
func (s *Server) leave(c *fiber.Ctx) error {
	if err := sameSite(c); err != nil {
		return err
	}
	l, err := s.line(c)
	if err != nil {
		return err
	}
	t, err := s.ticket(c, l)
	if err != nil && !errors.Is(err, queue.ErrTicketExpired) {
		return err
	}
	ctx, cancel := queueContext()
	defer cancel()
	if err := l.line.Leave(ctx, t); err != nil {
		return queueError("leaving", err)
	}
	setCookie(c, l.cookie, "", 0)
	c.Set(headerState, string(queue.Left))
	c.Set(fiber.HeaderCacheControl, "no-store")
	return noContent(c)
}

// lineStatus is what everybody may know of a line.
type lineStatus struct {
	Line              string  `json:"line"`
	State             string  `json:"state"`
	Mode              string  `json:"mode"`
	Waiting           int64   `json:"waiting"`
	AdmittedPerSecond float64 `json:"admitted_per_second"`
	LimitedBy         *string `json:"limited_by"`
	EstimatedWaitMS   *int64  `json:"estimated_wait_ms"` // of a newcomer
	Message           string  `json:"message"`
}

func (s *Server) status(c *fiber.Ctx) error {
	l, err := s.line(c)
	if err != nil {
		return err
	}
	view, err := l.view()
	if err != nil {
		return err
	}
	status := lineStatus{
		Line:              l.id,
		State:             openState(view.Settings),
		Mode:              string(view.Settings.Mode),
		Waiting:           view.Waiting,
		AdmittedPerSecond: round(view.Movement.PerSecond),
		LimitedBy:         optional(string(view.LimitedBy)),
		Message:           view.Settings.Message,
	}
	if e, ok := view.Estimate(view.Waiting + 1); ok {
		status.EstimatedWaitMS = new(e.Expected.Milliseconds())
	} else if view.Settings.Mode == queue.ModePassthrough && !view.Settings.Paused {
		status.EstimatedWaitMS = new(int64)
	}
	c.Set(fiber.HeaderCacheControl, publicCache)
	return reply(c, fiber.StatusOK, status)
}

// view is the line's live view; one that is too old counts as none.
func (l *line) view() (queue.View, error) {
	view, ok := l.watch.View()
	if age := l.watch.Age(); !ok || age >= staleAfter {
		return view, fmt.Errorf("web: line %q was last read %s ago: %w", l.id, age, queue.ErrUnavailable)
	}
	return view, nil
}

func openState(s queue.Settings) string {
	if s.Paused {
		return "paused"
	}
	return "open"
}

// round keeps two decimals: a measured rate has no more to say.
func round(f float64) float64 { return math.Round(f*100) / 100 }

// optional is nil for an empty string: null on the wire.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// queueContext bounds a call of the line. Fiber's own context would not end
// when the client leaves, so there is nothing to derive it from.
func queueContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), queueTimeout)
}

// queueError says what was being done; a deadline that passed means that the
// store did not answer, whoever noticed it first.
func queueError(doing string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, queue.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return fmt.Errorf("web: %s: %w", doing, err)
}
