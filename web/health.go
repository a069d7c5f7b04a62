package web

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"
)

// readyTimeout bounds what a probe waits for the database.
const readyTimeout = time.Second

// healthz says that the process answers, nothing more: restarting it would not
// bring a database back.
func (s *Server) healthz(c *fiber.Ctx) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	return reply(c, fiber.StatusOK, health{Status: "ok"})
}

type health struct {
	Status string `json:"status"`
	// Missing keeps the process from being ready, Away does not.
	Missing []string `json:"missing,omitempty"`
	Away    []string `json:"away,omitempty"`
}

// readyz says whether traffic should be sent here: from when the process has
// seen its stores until it shuts down. A store that goes away afterwards does
// not turn it off. Every process shares that store, so a balancer would take
// all of them out, and with them the half that still works: those who wait need
// no database, tokens that are out need no line, and everybody else is better
// served by our 503 that says when to come back than by a balancer's.
func (s *Server) readyz(c *fiber.Ctx) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	h := s.readiness()
	if len(h.Missing) > 0 {
		h.Status = "not ready"
		return reply(c, fiber.StatusServiceUnavailable, h)
	}
	return reply(c, fiber.StatusOK, h)
}

func (s *Server) readiness() health {
	h := health{Status: "ready"}
	if s.draining.Load() {
		h.Missing = append(h.Missing, "shutting down")
	}
	if missing := s.cfg.Start.Missing(); len(missing) > 0 {
		h.Missing = append(h.Missing, missing...)
		return h
	}
	for _, l := range s.lines.all() {
		if _, seen := l.watch.View(); !seen {
			h.Missing = append(h.Missing, "line "+l.id)
		} else if l.away() || l.watch.Age() >= staleAfter {
			h.Away = append(h.Away, "line "+l.id)
		}
	}
	if s.cfg.Orders != nil {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		if _, err := s.cfg.Orders.Products(); err != nil {
			h.Missing = append(h.Missing, "orders")
		} else if err := s.cfg.Orders.Ready(ctx); err != nil {
			h.Away = append(h.Away, "orders")
		}
	}
	return h
}
