package web

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
	app := fiber.New()
	for name, c := range map[string]struct{ from, said, want string }{
		"a line below the visitor's":      {"10.1.2.3", "1.1.1.1\n198.51.100.1", "198.51.100.1"},
		"an empty line below it":          {"10.1.2.3", "1.1.1.1\n", "10.1.2.3"},
		"with a port":                     {"10.1.2.3", "198.51.100.1:4711", "198.51.100.1"},
		"IPv6 with a port":                {"10.1.2.3", "[2001:db8::7]:4711", "2001:db8::7"},
		"nobody in between":               {"203.0.113.9", "", "203.0.113.9"},
		"a visitor makes it up":           {"203.0.113.9", "198.51.100.1", "203.0.113.9"},
		"a proxy says it":                 {"10.1.2.3", "198.51.100.1", "198.51.100.1"},
		"behind what the visitor made up": {"10.1.2.3", "1.1.1.1, 198.51.100.1", "198.51.100.1"},
		"two proxies":                     {"10.1.2.3", "1.1.1.1, 198.51.100.1, 10.9.9.9", "198.51.100.1"},
		"IPv6":                            {"fd00::1", "2001:db8::7", "2001:db8::7"},
		"IPv4 as IPv6":                    {"10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1"},
		"a proxy says nothing":            {"10.1.2.3", "", "10.1.2.3"},
		"a proxy says nonsense":           {"10.1.2.3", "198.51.100.1, unknown", "10.1.2.3"},
		"none but proxies":                {"10.1.2.3", "10.4.4.4", "10.4.4.4"},
	} {
		ctx := &fasthttp.RequestCtx{}
		ctx.Init(&fasthttp.Request{}, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1234)), nil)
		for _, line := range strings.Split(c.said, "\n") {
			ctx.Request.Header.Add("X-Forwarded-For", line)
		}
		fc := app.AcquireCtx(ctx)
		if got := s.client(fc).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		app.ReleaseCtx(fc)
	}
}
