package web

import (
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/web/history"
)

// newHistory makes what keeps the last quarter of an hour for the operator's page.
func (s *Server) newHistory() *history.Recorder {
	return history.New(history.Config{
		Now: func() time.Time { return s.now(DefaultLine) },
		Lines: func() []history.Line {
			all := s.lines.all()
			lines := make([]history.Line, len(all))
			for i, l := range all {
				lines[i] = history.Line{ID: l.id, View: l.watch.View, Age: l.watch.Age}
			}
			return lines
		},
		Overview: s.cfg.Overview,
		Codes:    problemCodes,
		Problems: s.metrics.public.read,
	})
}

// lineHistory tells how a line has been, second by second, or what is new of it since.
func (s *Server) lineHistory(c *fiber.Ctx) error {
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	after := int64(0)
	if text := c.Query("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return explain(errInvalidRequest, "after must be a time in Unix milliseconds.")
		}
	}
	return reply(c, fiber.StatusOK, s.history.Since(l.id, after))
}
