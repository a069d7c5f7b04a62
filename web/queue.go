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

// enter gives the visitor a place, or finds the one they have.
func (s *Server) enter(c *fiber.Ctx) error {
	if err := s.welcome(c); err != nil {
		return err
	}
	l, subject, err := s.asked(c)
	if err != nil {
		return err
	}
	if err := decodeNothing(c); err != nil {
		return err
	}
	standing, signed, err := s.takePlace(c, l, subject)
	if err != nil {
		return err
	}
	if standing.Created {
		c.Status(fiber.StatusCreated)
	}
	return s.standingAnswer(c, l, standing, signed)
}

// asked is which line a request is about, and who asks: empty where visitors are
// anonymous.
func (s *Server) asked(c *fiber.Ctx) (l *line, subject string, err error) {
	if l, err = s.line(c); err != nil {
		return nil, "", err
	}
	s.span(c).Text("sluice.line", l.id)
	subject, err = s.visitor(c, l)
	return l, subject, err
}

// takePlace puts the visitor in line, or finds the place they have; the signed ticket
// goes into the cookie. A ticket that is no longer good is as if there were none:
// whoever asks to enter wants a place.
func (s *Server) takePlace(c *fiber.Ctx, l *line, subject string) (standing queue.Standing, signed string, err error) {
	var held *queue.Ticket
	if t, err := s.ticket(c, l, subject, l.watch.Now()); err == nil {
		if err := s.limits.poll(t.ID); err != nil {
			return queue.Standing{}, "", err
		}
		subject, held = t.Subject, &t
	} else if subject == "" {
		subject = queue.NewID()
	}
	ctx := queueContext()
	defer ctx.end()
	store := s.span(c).Begin("line.enter")
	standing, err = s.place(ctx, c, l, subject, held)
	store.End()
	if err != nil {
		return standing, "", s.visitorError(l, "entering", err)
	}
	if signed, err = s.cfg.Tickets.Sign(standing.Ticket, l.watch.Now()); err != nil {
		return standing, "", err
	}
	s.setTicket(c, l, signed)
	return standing, signed, nil
}

// position tells where the holder of a ticket stands.
func (s *Server) position(c *fiber.Ctx) error {
	l, subject, err := s.asked(c)
	if err != nil {
		return err
	}
	standing, signed, err := s.lookUp(c, l, subject)
	if err != nil {
		return err
	}
	return s.standingAnswer(c, l, standing, signed)
}

// lookUp finds where the holder of a ticket stands. When another ticket of the same
// visitor holds the place, or the ticket is old, they are given a signed one; else it
// is empty.
func (s *Server) lookUp(c *fiber.Ctx, l *line, subject string) (standing queue.Standing, signed string, err error) {
	now := l.watch.Now()
	t, err := s.ticket(c, l, subject, now)
	if err != nil {
		return standing, "", err
	}
	if err := s.limits.poll(t.ID); err != nil {
		return standing, "", err
	}
	ctx := queueContext()
	defer ctx.end()
	store := s.span(c).Begin("line.standing")
	standing, err = l.line.Standing(ctx, t)
	store.End()
	if err != nil {
		return standing, "", s.visitorError(l, "looking up a place", err)
	}
	if standing.State.Live() && (standing.Ticket.ID != t.ID || s.isOld(t, now)) {
		if signed, err = s.cfg.Tickets.Sign(standing.Ticket, now); err != nil {
			return standing, "", err
		}
		s.setTicket(c, l, signed)
		c.Set(headerTicket, signed)
	}
	return standing, signed, nil
}

// isOld reports whether a ticket has lived for half of its time. Whoever keeps
// polling is given a new one then, so that no wait is longer than a ticket.
func (s *Server) isOld(t queue.Ticket, now time.Time) bool {
	return t.ExpiresAt.Sub(now) < s.cfg.Tickets.TTL()/2
}

// leave gives a place up.
func (s *Server) leave(c *fiber.Ctx) error {
	if err := s.welcome(c); err != nil {
		return err
	}
	l, subject, err := s.asked(c)
	if err != nil {
		return err
	}
	if err := s.giveUp(c, l, subject); err != nil {
		return err
	}
	c.Set(headerState, string(queue.Left))
	c.Set(fiber.HeaderCacheControl, "no-store")
	return noContent(c)
}

// giveUp takes the visitor out of the line, and their ticket out of the cookie. A
// genuine ticket always leaves: one that has expired may still have its place, and one
// of an earlier epoch has nothing to give up.
func (s *Server) giveUp(c *fiber.Ctx, l *line, subject string) error {
	t, err := s.ticket(c, l, subject, l.watch.Now())
	if err != nil && !errors.Is(err, queue.ErrTicketExpired) {
		return err
	}
	if err := s.limits.poll(t.ID); err != nil {
		return err
	}
	ctx := queueContext()
	defer ctx.end()
	store := s.span(c).Begin("line.leave")
	err = l.line.Leave(ctx, t)
	store.End()
	if err != nil {
		return s.visitorError(l, "leaving", err)
	}
	setCookie(c, l.cookie, "", 0)
	return nil
}

// view is the line's live view; one that is too old counts as none, unless the store is
// known to be away.
func (l *line) view() (queue.View, error) {
	view, ok := l.watch.View()
	if ok && l.away() {
		return view, nil
	}
	if age := l.watch.Age(); !ok || age >= staleAfter {
		return view, fmt.Errorf("web: line %q was last read %s ago: %w", l.id, age, queue.ErrUnavailable)
	}
	return view, nil
}

// States of a line beside those of its schedule.
const (
	stateOpen   = string(queue.PhaseOpen)
	statePaused = "paused"
)

// state is what the line does now. Its schedule comes first: a pause holds
// nobody up who would not get in anyway.
func (l *line) state(view queue.View) string {
	if phase := view.Settings.Phase(l.watch.Now()); phase != queue.PhaseOpen {
		return string(phase)
	}
	if view.Settings.Paused {
		return statePaused
	}
	return stateOpen
}

// round keeps two decimals: a measured rate has no more to say.
func round(f float64) float64 { return math.Round(f*100) / 100 }

// ratio keeps four decimals of what is between 0 and 1.
func ratio(f float64) float64 { return math.Round(f*10_000) / 10_000 }

// optional is nil for an empty string: null on the wire.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// optionalTime is null on the wire for a time that is not set.
func optionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(t.UTC().Format(wireTime))
}

// queueContext bounds a call of the line. Fiber's own context would not end
// when the client leaves, so there is nothing to derive it from.
func queueContext() *deadline { return &deadline{at: time.Now().Add(queueTimeout)} }

// queueError says what was being done; a deadline that passed means that the
// store did not answer, whoever noticed it first.
func queueError(doing string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, queue.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	}
	return fmt.Errorf("web: %s: %w", doing, err)
}
