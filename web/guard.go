package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"sluice/admission"
)

// The operator's listener usually stands on a loopback address without a
// password, next to a browser full of other people's pages. Such a page can send
// requests here (cross-site), or have its own name point here (DNS rebinding).
// Origin, Content-Type and Sec-Fetch-Site stop the first, the Host check the second.
// Reads are refused to other pages too: they could not see the answer, but have
// exports made for as long as they are open.

// operator guards what tells or does something on the operator's listener.
func (s *Server) operator(h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if !s.hosts.allows(host(c)) {
			return explain(errOriginRefused, "This Host is not one of the operator's listener; see admin.hosts.")
		}
		if foreign(c) {
			return errOriginRefused
		}
		if err := s.authorize(c); err != nil {
			return err
		}
		c.Set(fiber.HeaderCacheControl, "no-store")
		return h(c)
	}
}

// scrape guards the metrics. Where a token is set the Host does not matter:
// Prometheus comes by whatever name its configuration has for us, and a page
// that had its name point here knows no token.
func (s *Server) scrape(h fiber.Handler) fiber.Handler {
	if len(s.adminToken) == 0 {
		return s.operator(h)
	}
	return func(c *fiber.Ctx) error {
		if err := s.authorize(c); err != nil {
			return err
		}
		return h(c)
	}
}

// change guards what changes something: the page it comes from must be ours,
// and a body that says it is JSON cannot have been sent by a plain form.
func (s *Server) change(h fiber.Handler) fiber.Handler {
	guarded := s.operator(func(c *fiber.Ctx) error {
		if err := wantJSON(c); err != nil {
			return err
		}
		return h(c)
	})
	return func(c *fiber.Ctx) error {
		if err := sameSite(c); err != nil {
			return err
		}
		return guarded(c)
	}
}

// authorize asks for the operator's token where one is set.
func (s *Server) authorize(c *fiber.Ctx) error {
	if len(s.adminToken) == 0 {
		return nil
	}
	sent, err := bearer(c)
	if err != nil {
		return err
	}
	// Hashes have one length, so the comparison tells nothing about the token's.
	if subtle.ConstantTimeCompare(hashToken(sent), s.adminToken) != 1 {
		return admission.ErrTokenInvalid
	}
	return nil
}

func hashToken(token string) []byte {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// allowedHosts are the Host values under which the operator's listener answers.
type allowedHosts struct {
	mu    sync.RWMutex
	exact map[string]bool // "name:port", or "name" for any port
}

func newAllowedHosts(listen string, more []string) *allowedHosts {
	a := &allowedHosts{exact: make(map[string]bool)}
	for _, h := range more {
		a.exact[strings.ToLower(h)] = true
	}
	a.add(listen)
	return a
}

// add takes in an address that is listened on. The loopback names of its port
// come with it where they lead to it: no foreign page can be served under them.
func (a *allowedHosts) add(listen string) {
	name, port, err := net.SplitHostPort(listen)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ip := net.ParseIP(name)
	if unspecified := name == "" || ip != nil && ip.IsUnspecified(); !unspecified {
		a.exact[strings.ToLower(listen)] = true
		if name != "localhost" && !ip.IsLoopback() {
			return
		}
	}
	for _, loopback := range []string{"localhost", "127.0.0.1", "::1"} {
		a.exact[net.JoinHostPort(loopback, port)] = true
	}
}

func (a *allowedHosts) allows(host string) bool {
	host = strings.ToLower(host)
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.exact[host] {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	return err == nil && a.exact[name]
}
