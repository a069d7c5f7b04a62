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
	if len(s.operators) == 0 {
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

// Operator is somebody who may use the operator's listener.
type Operator struct {
	// Name is by which the journal knows them.
	Name string
	// Token is what they present as Bearer.
	Token string
}

// operatorNobody is who changes something where no token is asked for.
const operatorNobody = "local"

// localOperator is where a request keeps the name of who sent it.
const localOperator = "operator"

// knownOperator is an operator, with the hash of their token: hashes have one length, so that a
// comparison tells nothing about the token's.
type knownOperator struct {
	name string
	hash [sha256.Size]byte
}

func knownOperators(all []Operator) []knownOperator {
	known := make([]knownOperator, len(all))
	for i, o := range all {
		known[i] = knownOperator{o.Name, sha256.Sum256([]byte(o.Token))}
	}
	return known
}

// authorize asks for an operator's token where there are any, and notes whose it is.
func (s *Server) authorize(c *fiber.Ctx) error {
	if len(s.operators) == 0 {
		return nil
	}
	sent, err := bearer(c)
	if err != nil {
		return err
	}
	hash, found := sha256.Sum256([]byte(sent)), -1
	for i, o := range s.operators { // all of them: how long it takes tells nothing of which
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], o.hash[:]), i, found)
	}
	if found < 0 {
		return admission.ErrTokenInvalid
	}
	c.Locals(localOperator, s.operators[found].name)
	return nil
}

// who is the operator that a request of theirs is from.
func who(c *fiber.Ctx) string {
	if name, ok := c.Locals(localOperator).(string); ok {
		return name
	}
	return operatorNobody
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
