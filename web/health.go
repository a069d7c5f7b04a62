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
	Status  string   `json:"status"`
	Missing []string `json:"missing,omitempty"`
}

// readyz says whether traffic should be sent here, and what is missing if not.
func (s *Server) readyz(c *fiber.Ctx) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	if missing := s.missing(); len(missing) > 0 {
		return reply(c, fiber.StatusServiceUnavailable, health{Status: "not ready", Missing: missing})
	}
	return reply(c, fiber.StatusOK, health{Status: "ready"})
}

func (s *Server) missing() (missing []string) {
	if s.draining.Load() {
		missing = append(missing, "shutting down")
	}
	for _, l := range s.lines {
		if _, err := l.view(); err != nil {
			missing = append(missing, "line "+l.id)
		}
	}
	if s.cfg.Orders != nil {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		if err := s.cfg.Orders.Ready(ctx); err != nil {
			missing = append(missing, "orders")
		}
	}
	return missing
}
