package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Pages of other sites may call what the public listener serves beside its own
// pages, if their origin is listed. Every answer then says that it depends on the
// origin; to an origin that is not listed nothing else is said, and the browser
// keeps the answer from the page. The operator's listener lists none.

const (
	corsAllowHeaders = "Content-Type, Authorization, X-Queue-Ticket, X-Queue-Proof, X-Request-Id"
	corsExpose       = "Retry-After, Sluice-State, X-Queue-Ticket, X-Request-Id, WWW-Authenticate"
	// corsMaxAge is how long a browser remembers a preflight, s; it is the most that
	// Chromium does.
	corsMaxAge = "7200"
)

// lists reports whether the origin is one of those of the configuration, compared as
// it stands: browsers write an origin in one way only, and "null" cannot be listed.
func (s *Server) lists(origin string) bool {
	return origin != "" && slices.Contains(s.cfg.Origins, origin)
}

// share lets the page of a listed origin read an answer.
func (s *Server) share(c *fiber.Ctx) {
	if len(s.cfg.Origins) == 0 {
		return
	}
	c.Vary(fiber.HeaderOrigin)
	if origin := c.Get(fiber.HeaderOrigin); s.lists(origin) {
		c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		c.Set(fiber.HeaderAccessControlAllowCredentials, "true")
		c.Set(fiber.HeaderAccessControlExposeHeaders, corsExpose)
	}
}

// preflight answers a browser that asks whether a page of another site may call a
// route; to be called where a route does not take the method OPTIONS. It reports
// false for any other request, and for origins that are not listed.
func (s *Server) preflight(c *fiber.Ctx) bool {
	if c.Method() != fiber.MethodOptions || !s.lists(c.Get(fiber.HeaderOrigin)) || c.Get(fiber.HeaderAccessControlRequestMethod) == "" {
		return false
	}
	s.share(c)
	// The router has just found out which methods this path takes.
	c.Set(fiber.HeaderAccessControlAllowMethods, c.GetRespHeader(fiber.HeaderAllow))
	c.Set(fiber.HeaderAccessControlAllowHeaders, corsAllowHeaders)
	c.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
	c.Response().Header.Del(fiber.HeaderAllow)
	c.Status(fiber.StatusNoContent)
	return true
}

// welcome refuses what a browser marks as coming from elsewhere: another site must not
// be able to put its visitors into our line or take them out of it. Listed origins may.
func (s *Server) welcome(c *fiber.Ctx) error {
	if s.lists(c.Get(fiber.HeaderOrigin)) {
		return nil
	}
	return sameSite(c)
}

// sameSite refuses what a browser marks as coming from a page of another origin.
func sameSite(c *fiber.Ctx) error {
	if foreign(c) || !sameOrigin(c) {
		return errOriginRefused
	}
	return nil
}

// foreign reports whether a browser says that a page of another origin caused the
// request; another port of the same host is one. A request that a person caused by
// hand, or that no browser sent, is not foreign.
func foreign(c *fiber.Ctx) bool {
	switch site := c.Get("Sec-Fetch-Site"); strings.ToLower(site) {
	case "", "same-origin", "none":
		return false
	}
	return true
}

// sameOrigin reports whether the Origin is absent or names our Host. The scheme
// is left out: behind a proxy that ends TLS we do not know our own.
func sameOrigin(c *fiber.Ctx) bool {
	origin := c.Get(fiber.HeaderOrigin)
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	plain := func(host string) string { return strings.TrimSuffix(strings.ToLower(host), port) }
	return plain(u.Host) == plain(host(c))
}
