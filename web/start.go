package web

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
)

// What a process may have to wait for before it serves.
const (
	NeedRedis    = "redis"
	NeedLine     = "line" // one in the process
	NeedDatabase = "database"
)

// Errors of a server that has not seen its stores yet: of the routes of either half,
// whichever store is missing.
var (
	errAwaitsLine     = errors.New("web: this process is starting, and the line is not served yet")
	errAwaitsDatabase = errors.New("web: this process is starting, and orders are not served yet")
)

// Start is what a process still needs before it can serve. Until then the server answers
// on both listeners: pages and health as ever, whatever needs a store with a 503. Safe
// for concurrent use; nil needs nothing.
type Start struct {
	mu      sync.Mutex // held while it changes
	missing atomic.Pointer[[]string]
}

// NewStart is a start that needs all of these.
func NewStart(needs ...string) *Start {
	s := &Start{}
	s.missing.Store(&needs)
	return s
}

// Met notes that a need is met. Once all are the server serves, so whatever its handlers
// use must be in place before the last.
func (s *Start) Met(need string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*s.missing.Load()), func(n string) bool { return n == need })
	s.missing.Store(&left)
}

// Missing are the needs that are not met, in the order in which they were named. The
// caller must not change the slice.
func (s *Start) Missing() []string {
	if s == nil {
		return nil
	}
	return *s.missing.Load()
}

// onceStarted keeps a handler from running before the process has what it needs. Who
// comes to one of several processes should not get here at all: it is not ready, and a
// balancer knows.
func (s *Server) onceStarted(h fiber.Handler, unready error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if len(s.cfg.Start.Missing()) > 0 {
			return unready
		}
		return h(c)
	}
}
