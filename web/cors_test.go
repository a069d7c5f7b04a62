package web

import (
	"slices"
	"strings"
	"testing"
)

const (
	partner = "https://www.partner.test"
	local   = "http://localhost:3000"
)

func sharing() setup {
	return setup{orders: withOrders(), config: func(c *Config) { c.Origins = []string{partner, local} }}
}

// shared are requests that pages of other sites may make, with an answer of every kind.
var shared = []struct {
	method, target string
	headers        headers
}{
	{"POST", "/queue/enter", nil},
	{"POST", "/queue/leave", nil},
	{"GET", "/queue/position", nil},
	{"GET", "/queue/position?line=nosuch", nil},
	{"GET", "/queue/status", nil},
	{"GET", "/products", nil},
	{"GET", "/products/1", nil},
	{"GET", "/coupons", nil},
	{"GET", "/orders/x", nil},
	{"POST", "/orders", headers{jsonType}},
	{"POST", "/orders", nil},
	{"POST", "/coupons/1/claim", nil},
	{"POST", "/orders/x/payment", headers{jsonType}},
}

func corsHeaders(a answered) (names []string) {
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			names = append(names, name)
		}
	}
	return names
}

func TestListedOriginsMayCall(t *testing.T) {
	inBubble(t, sharing(), func(t *testing.T, f *fixture) {
		for _, r := range shared {
			for _, origin := range []string{partner, local} {
				a := f.public(r.method, r.target, "", append(slices.Clone(r.headers), "Origin: "+origin, "Sec-Fetch-Site: cross-site")...)
				if a.header.Get("Access-Control-Allow-Origin") != origin || a.header.Get("Access-Control-Allow-Credentials") != "true" ||
					!strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "Retry-After") || strings.Contains(a.body, "origin_refused") {
					t.Errorf("%s from %s: %d %v %s", a.asked, origin, a.status, a.header, a.body)
				}
			}
			// A cache must know that another origin gets another answer, also when none is told.
			for _, h := range []headers{{"Origin: " + partner}, {"Origin: https://evil.test"}, nil} {
				if a := f.public(r.method, r.target, "", append(h, r.headers...)...); !strings.Contains(a.header.Get("Vary"), "Origin") {
					t.Errorf("%s %v: Vary is %q", a.asked, h, a.header.Get("Vary"))
				}
			}
		}
		ticket := f.public("POST", "/queue/enter", "", "Origin: "+partner, "Sec-Fetch-Site: cross-site").want(201).standing().Ticket
		a := f.public("GET", "/queue/position", "", "Origin: "+partner, ticketHeader(ticket)).want(200)
		if got := a.header.Get("Vary"); got != "Cookie, X-Queue-Ticket, Origin" {
			t.Errorf("Vary is %q", got)
		}
		f.public("POST", "/queue/leave", "", "Origin: "+partner, "Sec-Fetch-Site: cross-site", ticketHeader(ticket)).want(204)
	})
}

func TestPreflight(t *testing.T) {
	inBubble(t, sharing(), func(t *testing.T, f *fixture) {
		for _, r := range shared {
			a := f.public("OPTIONS", r.target, "", "Origin: "+partner, "Access-Control-Request-Method: "+r.method,
				"Access-Control-Request-Headers: content-type,x-queue-ticket").want(204)
			allowed := a.header.Get("Access-Control-Allow-Headers")
			if a.header.Get("Access-Control-Allow-Origin") != partner || a.header.Get("Access-Control-Allow-Credentials") != "true" ||
				!strings.Contains(a.header.Get("Access-Control-Allow-Methods"), r.method) || a.header.Get("Access-Control-Max-Age") == "" ||
				!strings.Contains(a.header.Get("Vary"), "Origin") || a.header.Get("Allow") != "" || a.body != "" {
				t.Errorf("%s: %v %s", a.asked, a.header, a.body)
			}
			for _, name := range []string{"Content-Type", "Authorization", "X-Queue-Ticket", "X-Queue-Proof"} {
				if !strings.Contains(allowed, name) {
					t.Errorf("%s: %s is not in %q", a.asked, name, allowed)
				}
			}
		}
		f.public("OPTIONS", "/nosuch", "", "Origin: "+partner, "Access-Control-Request-Method: GET").problem(404, "not_found")
		// No preflight: nothing but what any unknown method gets.
		a := f.public("OPTIONS", "/queue/enter", "", "Origin: "+partner).problem(405, "method_not_allowed")
		if found := corsHeaders(a); found != nil {
			t.Errorf("%v", found)
		}
	})
}

var unlisted = []string{
	"https://evil.test", "null", "https://www.partner.test.evil.test", "https://evil.test/https://www.partner.test", "http://www.partner.test",
	"https://www.partner.test:8443", "https://WWW.partner.test", "https://www.partner.test/", "https://partner.test", "*", "https://www.partner.test https://evil.test",
	"http://localhost:3001", "http://localhost",
}

func TestOtherOriginsMayNotCall(t *testing.T) {
	inBubble(t, sharing(), func(t *testing.T, f *fixture) {
		for _, origin := range unlisted {
			for _, r := range shared {
				a := f.public(r.method, r.target, "", append(slices.Clone(r.headers), "Origin: "+origin)...)
				if found := corsHeaders(a); found != nil {
					t.Errorf("%s from %s: %v", a.asked, origin, found)
				}
				p := f.public("OPTIONS", r.target, "", "Origin: "+origin, "Access-Control-Request-Method: "+r.method).problem(405, "method_not_allowed")
				if found := corsHeaders(p); found != nil {
					t.Errorf("preflight of %s from %s: %v", a.asked, origin, found)
				}
			}
			for _, path := range []string{"/queue/enter", "/queue/leave"} {
				f.public("POST", path, "", "Origin: "+origin).problem(403, "origin_refused")
			}
		}
		waitingIs(t, f, 0)
	})
}

// A listed origin may call the public API; the operator's listener knows none, nor do
// pages, nor a service where none is listed.
func TestNothingElseIsShared(t *testing.T) {
	inBubble(t, sharing(), func(t *testing.T, f *fixture) {
		for _, path := range []string{"/", "/wait", "/assets/shop.js"} {
			if found := corsHeaders(f.public("GET", path, "", "Origin: "+partner).want(200)); found != nil {
				t.Errorf("%s: %v", path, found)
			}
		}
		for _, r := range guarded {
			for _, a := range []answered{
				f.admin(r.method, r.path, r.body, "Origin: "+partner, jsonType),
				f.admin("OPTIONS", r.path, "", "Origin: "+partner, "Access-Control-Request-Method: "+r.method).problem(405, "method_not_allowed"),
			} {
				if found := corsHeaders(a); found != nil || r.method != "GET" && a.status != 403 && a.status != 405 {
					t.Errorf("%s: %d %v", a.asked, a.status, found)
				}
			}
		}
	})
	t.Run("none listed", func(t *testing.T) {
		inBubble(t, setup{}, func(t *testing.T, f *fixture) {
			a := f.public("GET", "/queue/status", "", "Origin: "+partner).want(200)
			p := f.public("OPTIONS", "/queue/enter", "", "Origin: "+partner, "Access-Control-Request-Method: POST").problem(405, "method_not_allowed")
			if corsHeaders(a) != nil || corsHeaders(p) != nil || a.header.Get("Vary") != "" {
				t.Errorf("%v %v", a.header, p.header)
			}
			f.public("POST", "/queue/enter", "", "Origin: ").want(201)
		})
	})
}
