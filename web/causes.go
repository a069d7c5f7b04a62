package web

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
)

// causeEvery is how often the cause of one code is logged at most: while a
// store is away, a crowd asks for it thousands of times a second.
const causeEvery = time.Second

// causes remembers what was logged. The zero value is ready.
type causes struct {
	mu     sync.Mutex
	byCode map[string]cause // guarded by mu
}

type cause struct {
	logged  time.Time
	leftOut int // since then
}

// due reports whether a cause is to be logged now, and how many of its code
// were left out since the last that was.
func (cs *causes) due(code string, now time.Time) (leftOut int, due bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byCode == nil {
		cs.byCode = make(map[string]cause)
	}
	last, seen := cs.byCode[code]
	if seen && now.Sub(last.logged) < causeEvery {
		last.leftOut++
		cs.byCode[code] = last
		return 0, false
	}
	cs.byCode[code] = cause{logged: now}
	return last.leftOut, true
}

// logCause logs why a request failed.
func (s *Server) logCause(c *fiber.Ctx, level slog.Level, message string, err error, more ...slog.Attr) {
	attrs := append([]slog.Attr{
		slog.String("error", withoutSecrets(err.Error())),
		slog.String("method", strings.Clone(c.Method())),
		slog.String("route", strings.Clone(c.Route().Path)),
		slog.String("request_id", string(c.Response().Header.Peek(headerRequestID))),
	}, more...)
	if id := s.span(c).TraceID(); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if p := (*panicked)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	s.log.LogAttrs(context.Background(), level, message, attrs...)
}

// secrets are what a driver's error might quote: the user and password of an
// address, and tickets and tokens.
var secrets = regexp.MustCompile(`[^\s:]*:\S*@|eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// withoutSecrets is for the texts of errors that come from elsewhere.
func withoutSecrets(text string) string { return secrets.ReplaceAllString(text, "***") }
