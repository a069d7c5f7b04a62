package web

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// remote is the address that a request came from: a visitor's, or the last proxy's.
func remote(c *fiber.Ctx) netip.Addr {
	if tcp, ok := c.Context().RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// trusts reports whether what a request from addr says of its visitor is believed.
func (s *Server) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(s.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// client is the visitor's own address: the one that sent the request, or, where that is
// a trusted proxy, the last of X-Forwarded-For that is none. What stands before it a
// visitor may have made up.
func (s *Server) client(c *fiber.Ctx) netip.Addr {
	addr := remote(c)
	if !s.trusts(addr) {
		return addr
	}
	// Some proxies add a line of their own below the visitor's: the lines are one list.
	lines := c.Request().Header.PeekAll(fiber.HeaderXForwardedFor)
	hops := strings.Split(string(bytes.Join(lines, []byte(","))), ",")
	for _, hop := range slices.Backward(hops) {
		said, err := parseHop(strings.TrimSpace(hop))
		if err != nil {
			return addr
		}
		if addr = said.Unmap(); !s.trusts(addr) {
			return addr
		}
	}
	return addr
}

// parseHop reads an address with or without the port that some proxies add.
func parseHop(hop string) (netip.Addr, error) {
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr(), nil
	}
	return netip.ParseAddr(hop)
}
