package web

import (
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"sluice/queue"
)

const (
	headerTicket = "X-Queue-Ticket"
	headerState  = "Sluice-State"
	ticketCookie = "sluice_ticket"
)

// cookieName is the cookie that carries the tickets of a line.
func cookieName(id string) string {
	if id == DefaultLine {
		return ticketCookie
	}
	return ticketCookie + "_" + id
}

// line finds the line that the request names, or the default one.
func (s *Server) line(c *fiber.Ctx) (*line, error) {
	return s.lineByID(c.Query("line", DefaultLine))
}

func (s *Server) lineByID(id string) (*line, error) {
	if l := s.lines.get(id); l != nil {
		return l, nil
	}
	return nil, errLineNotFound
}

// ticket verifies the ticket that the request presents; the header wins over
// the cookie. It must be of the subject, where it is known who asks (else subject is
// empty). now is the line's. With [queue.ErrTicketExpired] the genuine ticket is returned too.
func (s *Server) ticket(c *fiber.Ctx, l *line, subject string, now time.Time) (queue.Ticket, error) {
	raw := utils.UnsafeString(c.Request().Header.PeekBytes(nameTicket)) // as Fiber's Get, without reading the name anew
	if raw == "" {
		raw = c.Cookies(l.cookie)
	}
	if raw == "" {
		return queue.Ticket{}, errTicketMissing
	}
	t, err := s.cfg.Tickets.Verify(raw, l.id, now)
	if subject != "" && t.Subject != subject && (err == nil || errors.Is(err, queue.ErrTicketExpired)) {
		return queue.Ticket{}, explain(queue.ErrTicketInvalid, "The ticket is another visitor's.")
	}
	return t, err
}

// setTicket puts a signed ticket into the line's cookie.
func (s *Server) setTicket(c *fiber.Ctx, l *line, signed string) {
	setCookie(c, l.cookie, signed, s.cfg.Tickets.TTL())
}

func setCookie(c *fiber.Ctx, name, value string, age time.Duration) {
	cookie := &fiber.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Secure: behindTLS(c),
	}
	if age <= 0 {
		cookie.MaxAge = 0
		cookie.Expires = time.Unix(1, 0) // Fiber writes no Max-Age of 0
	}
	c.Cookie(cookie)
}

// behindTLS reports whether the visitor's connection is encrypted, here or at a
// proxy. Somebody who lies about it only loses their own cookie.
func behindTLS(c *fiber.Ctx) bool {
	return c.Context().IsTLS() || strings.EqualFold(c.Get(fiber.HeaderXForwardedProto), "https")
}

// host is the Host header as it was sent, with its port.
func host(c *fiber.Ctx) string { return string(c.Request().Host()) }
