package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
	"sluice/orders"
	"sluice/queue"
)

func TestLineFigures(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		f.admitted()
		f.enter()
		time.Sleep(time.Second)
		f.admin("GET", "/admin/api/lines/default", "").want(200).golden("admin_line")
		f.admin("GET", "/admin/api/lines", "").want(200).golden("admin_lines")
	})
	t.Run("role queue", func(t *testing.T) {
		inBubble(t, setup{}, func(t *testing.T, f *fixture) {
			var line struct{ Orders *struct{} }
			if f.admin("GET", "/admin/api/lines/default", "").want(200).into(&line); line.Orders != nil {
				t.Error("figures of a pool that is not there")
			}
		})
	})
}

func TestRestartEmptiesTheLine(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.enter()
		f.admin("POST", "/admin/api/lines/default/restart", `{"x":1}`, jsonType).problem(400, "invalid_request")
		waitingIs(t, f, 1)
		f.admin("POST", "/admin/api/lines/nosuch/restart", `{}`, jsonType).problem(404, "line_not_found")
		var line struct{ Waiting, Epoch int64 }
		f.admin("POST", "/admin/api/lines/default/restart", "{}", jsonType).want(200).into(&line)
		if line.Waiting != 0 || line.Epoch == 0 {
			t.Errorf("%+v", line)
		}
	})
}

func TestAddProductAndSummary(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		f.admin("POST", "/admin/api/products", `{"name":"Mug","brand":"Sluice","price":1200,"stock":5,"image_url":"/m.svg","line":"default"}`, jsonType).
			want(201).golden("admin_product")
		for _, body := range []string{`{}`, `{"name":""}`, `{"name":"x","price":-1}`, `{"name":"x","stock":-1}`, `{"name":1}`,
			`{"name":"x","line":"nosuch"}`, `{"name":"x","image_url":"javascript:x"}`, `{"name":"x","colour":"red"}`} {
			f.admin("POST", "/admin/api/products", body, jsonType).problem(400, "invalid_request")
		}
		_, token := f.admitted()
		f.public("POST", "/orders", cart(1, 2), jsonType, bearerToken(token)).want(201)
		f.admin("GET", "/admin/api/orders/summary", "").want(200).golden("admin_summary")
	})
}

func TestTestDelay(t *testing.T) {
	delayed := withOrders()
	delayed.TestDelay = time.Second
	inBubble(t, setup{orders: delayed}, func(t *testing.T, f *fixture) {
		f.admin("PATCH", "/admin/api/orders", `{"test_delay_ms":20}`, jsonType).want(200).golden("admin_orders")
		for body, detail := range map[string]string{
			`{"test_delay_ms":-1}`: "between 0 and 1m0s", `{"test_delay_ms":60001}`: "between 0 and 1m0s",
			`{"test_delay_ms":9223372036854775807}`: "between 0 and 1m0s",
			`{"test_delay_ms":18446744073710}`:      "between 0 and 1m0s", // 0.4 ms, if it overflowed
			`{"test_delay_ms":"1"}`:                 "a whole number", `{"x":1}`: "not known",
		} {
			if a := f.admin("PATCH", "/admin/api/orders", body, jsonType).problem(400, "invalid_request"); !strings.Contains(a.body, detail) {
				t.Errorf("%s: %s does not say %q", body, a.body, detail)
			}
		}
		if d, _ := f.orders.TestDelay(); d != 20*time.Millisecond {
			t.Errorf("delay %s", d)
		}
		f.admin("PATCH", "/admin/api/orders", `{"test_delay_ms":null}`, jsonType).want(200)
	})
	t.Run("not set at start", func(t *testing.T) {
		inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
			a := f.admin("PATCH", "/admin/api/orders", `{"test_delay_ms":20}`, jsonType).problem(400, "invalid_request")
			if !strings.Contains(a.body, "at start") {
				t.Errorf("no reason: %s", a.body)
			}
		})
	})
}

// Every route of the operator that tells or does something, with what it needs.
var guarded = []struct{ method, path, body string }{
	{"GET", "/admin/api/lines", ""},
	{"GET", "/admin/api/lines/default", ""},
	{"GET", "/admin/api/orders/summary", ""},
	{"GET", "/metrics", ""},
	{"GET", "/admin/api/lines/default/audit", ""},
	{"GET", "/admin/api/lines/default/history", ""},
	{"GET", "/admin/api/journal", ""},
	{"GET", "/admin/api/me", ""},
	{"PATCH", "/admin/api/lines/default", `{"paused":true}`},
	{"PUT", "/admin/api/lines/default", `{}`},
	{"POST", "/admin/api/lines/default/restart", `{}`},
	{"DELETE", "/admin/api/lines/default/visitors/x", ""},
	{"PATCH", "/admin/api/orders", `{"test_delay_ms":1}`},
	{"POST", "/admin/api/products", `{"name":"x"}`},
	{"POST", "/admin/api/coupons", `{"name":"x","quantity":1}`},
}

func TestOperatorGuards(t *testing.T) {
	open := setup{orders: withOrders(), config: func(c *Config) { c.AdminHosts = []string{"ops.test", "ops2.test:81"} }}
	inBubble(t, open, func(t *testing.T, f *fixture) {
		for _, r := range guarded {
			change := r.method != "GET"
			for _, host := range []string{"evil.test", "evil.test:9090", "127.0.0.1:9091", "127.0.0.1", "ops2.test", "ops2.test:82"} {
				a := ask(t, f.server.admin, r.method, r.path, r.body, jsonType, "Host: "+host)
				a.problem(403, "origin_refused")
			}
			for _, host := range []string{adminHost, "localhost:9090", "[::1]:9090", "ops.test", "OPS.test:1234", "ops2.test:81"} {
				if a := ask(t, f.server.admin, r.method, r.path, r.body, jsonType, "Host: "+host); a.status == 403 {
					t.Errorf("%s %s refuses Host %s", r.method, r.path, host)
				}
			}
			if !change {
				continue
			}
			for _, h := range []headers{{"Origin: http://evil.test"}, {"Origin: null"}, {"Origin: http://localhost:9091"}, {"Sec-Fetch-Site: cross-site"}} {
				f.admin(r.method, r.path, r.body, append(h, jsonType)...).problem(403, "origin_refused")
			}
			for _, h := range []headers{nil, {"Content-Type: text/plain"}, {"Content-Type: multipart/form-data; boundary=x"}} {
				f.admin(r.method, r.path, r.body, h...).problem(415, "unsupported_media_type")
			}
			if a := f.admin(r.method, r.path, r.body, jsonType, "Origin: http://"+adminHost); a.status == 403 || a.status == 415 {
				t.Errorf("%s %s refuses its own page: %s", r.method, r.path, a.body)
			}
		}
	})
}

func TestOperatorToken(t *testing.T) {
	const secret = "an operator's token"
	with := setup{orders: withOrders(), config: func(c *Config) { c.Operators = []Operator{{"operator", secret}} }}
	inBubble(t, with, func(t *testing.T, f *fixture) {
		for _, r := range guarded {
			// Judged before what was sent: no content type, no body.
			f.admin(r.method, r.path, "").problem(401, "token_missing")
			f.admin(r.method, r.path, "", bearerToken("wrong")).problem(401, "token_invalid")
			f.admin(r.method, r.path, "", "Authorization: Basic "+secret).problem(401, "token_missing")
			if a := f.admin(r.method, r.path, r.body, bearerToken(secret), jsonType); a.status == 401 || a.status == 403 {
				t.Errorf("%s %s: %s", r.method, r.path, a.body)
			}
		}
		for _, path := range []string{"/admin", "/healthz", "/readyz", "/assets/admin.js"} {
			ask(t, f.server.admin, "GET", path, "", "Host: anything.test").want(200)
		}
		ask(t, f.server.admin, "GET", "/metrics", "", "Host: prometheus.test", bearerToken(secret)).want(200)
		if strings.Contains(f.log.String(), secret) {
			t.Error("the token is in the log")
		}
	})
}

func TestAllowedHosts(t *testing.T) {
	for _, tc := range []struct {
		listen, host string
		want         bool
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", true}, {"localhost:9090", "127.0.0.1:9090", true}, {"[::1]:9090", "localhost:9090", true},
		{"0.0.0.0:9090", "localhost:9090", true}, {":9090", "127.0.0.1:9090", true}, {":9090", "0.0.0.0:9090", false},
		{":9090", "10.0.0.1:9090", false}, {"10.0.0.1:9090", "10.0.0.1:9090", true}, {"10.0.0.1:9090", "localhost:9090", false},
		{"127.0.0.1:9090", "localhost:80", false}, {"127.0.0.1:9090", "localhost", false}, {"127.0.0.1:9090", "", false},
	} {
		if got := newAllowedHosts(tc.listen, nil).allows(tc.host); got != tc.want {
			t.Errorf("listening on %s, Host %s: %v", tc.listen, tc.host, got)
		}
	}
}

func TestRoles(t *testing.T) {
	queueRoutes := []string{"GET /", "GET /wait", "GET /assets/base.css", "GET /queue/status", "POST /queue/enter"}
	orderRoutes := []string{"GET /products", "GET /products/1", "POST /orders", "GET /orders/x", "POST /orders/x/payment",
		"GET /coupons", "GET /coupons/1", "POST /coupons/1/claim"}
	adminQueue := []string{"GET /admin", "GET /admin/api/lines", "GET /admin/api/lines/default/audit", "PATCH /admin/api/lines/default"}
	adminOrders := []string{"GET /admin/api/orders/summary", "PATCH /admin/api/orders", "POST /admin/api/products", "POST /admin/api/coupons"}
	both := []string{"GET /healthz", "GET /readyz", "GET /metrics"}
	for role, want := range map[string]struct{ there, not, adminThere, adminNot []string }{
		RoleQueue:  {queueRoutes, orderRoutes, append(both, adminQueue...), adminOrders},
		RoleOrders: {orderRoutes, queueRoutes, append(both, adminOrders...), adminQueue},
		RoleAll:    {append(queueRoutes, orderRoutes...), nil, append(append(both, adminOrders...), adminQueue...), nil},
	} {
		t.Run(role, func(t *testing.T) {
			config := func(c *Config) {
				if c.Role = role; role == RoleOrders { // it serves no pages: how they were to look stops nothing
					c.Pages.Logo = "a file without a folder"
				}
			}
			inBubble(t, setup{orders: withOrders(), config: config}, func(t *testing.T, f *fixture) {
				check := func(serve func(string, string, string, ...string) answered, routes []string, there bool) {
					t.Helper()
					for _, route := range routes {
						method, path, _ := strings.Cut(route, " ")
						a := serve(method, path, "", jsonType)
						missing := a.status == 404 && strings.Contains(a.body, `"not_found"`)
						if missing == there {
							t.Errorf("%s: %d %s", route, a.status, a.body)
						}
					}
				}
				check(f.public, want.there, true)
				check(f.public, want.not, false)
				check(f.admin, want.adminThere, true)
				check(f.admin, want.adminNot, false)
				// The other listener's routes are nowhere here.
				check(f.public, []string{"GET /admin", "GET /admin/api/lines", "GET /metrics", "GET /healthz", "GET /readyz"}, false)
				check(f.admin, []string{"POST /queue/enter", "GET /queue/status", "POST /orders", "GET /products", "GET /wait"}, false)
			})
		})
	}
}

func TestNotThere(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		f.public("GET", "/queue/status/", "").problem(404, "not_found")
		f.public("GET", "/Queue/status", "").problem(404, "not_found")
		f.public("GET", "/assets/", "").problem(404, "not_found")
		f.public("GET", "/assets/..%2fpages.go", "").problem(404, "not_found")
		f.public("GET", "/assets/shop.html", "").problem(404, "not_found")
	})
}

func TestMethodNotAllowed(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		for _, tc := range []struct{ method, path, allow string }{
			{"GET", "/queue/enter", "POST"}, {"DELETE", "/queue/position", "GET, HEAD"}, {"OPTIONS", "/orders", "POST"},
			{"PUT", "/orders/x", "GET, HEAD"}, {"TRACE", "/", "GET, HEAD"}, {"POST", "/products", "GET, HEAD"},
			{"BREW", "/queue/enter", "POST"},
		} {
			allow := f.public(tc.method, tc.path, "").problem(405, "method_not_allowed").header.Get("Allow")
			for _, method := range strings.Split(tc.allow, ", ") {
				if !strings.Contains(allow, method) {
					t.Errorf("%s %s: Allow is %q", tc.method, tc.path, allow)
				}
			}
		}
		f.admin("PUT", "/admin/api/lines", "{}", jsonType).problem(405, "method_not_allowed")
		f.public("get", "/", "").problem(405, "method_not_allowed")
		f.public("BREW", "/nosuch", "").problem(404, "not_found")
		if a := f.public("HEAD", "/queue/status", "").want(200); a.body != "" {
			t.Errorf("HEAD has a body: %s", a.body)
		}
	})
}

// leavingLine is a line whose store stops answering at some point.
type leavingLine struct {
	queue.Line
	gone atomic.Bool
}

func (l *leavingLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	if l.gone.Load() {
		return queue.Snapshot{}, queue.ErrUnavailable
	}
	return l.Line.Snapshot(ctx)
}

func TestReadiness(t *testing.T) {
	deaf := func(l queue.Line) queue.Line { return deafLine{Line: l} }
	inBubble(t, setup{line: deaf}, func(t *testing.T, f *fixture) {
		f.admin("GET", "/readyz", "").want(503).golden("readyz_no_line")
		f.admin("GET", "/healthz", "").want(200).golden("healthz")
	})
	t.Run("a line that goes away", func(t *testing.T) {
		store := &leavingLine{}
		wrap := func(l queue.Line) queue.Line { store.Line = l; return store }
		inBubble(t, setup{line: wrap}, func(t *testing.T, f *fixture) {
			f.admin("GET", "/readyz", "").want(200).golden("readyz")
			store.gone.Store(true)
			time.Sleep(staleAfter + time.Second) // virtual
			f.admin("GET", "/readyz", "").want(200).golden("readyz_line_away")
		})
	})
	t.Run("draining", func(t *testing.T) {
		inBubble(t, setup{}, func(t *testing.T, f *fixture) {
			f.server.draining.Store(true)
			if a := f.admin("GET", "/readyz", "").want(503); !a.close {
				t.Error("the connection stays")
			}
			if a := f.public("GET", "/queue/status", "").want(200); !a.close {
				t.Error("the connection stays")
			}
		})
	})
}

func TestConfigReportsEveryMistake(t *testing.T) {
	err := Config{Role: "both", AccessLogEvery: -1, Lines: NewLines()}.Validate()
	for _, want := range []string{"role", "default", "tickets", "tokens", "order service", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is good")
	}
}

func TestEveryProblemIsReachable(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range problems {
		got, known := problemOf(fmt.Errorf("wrapped: %w", p.err))
		if !known || got.status != p.status || got.code != p.code {
			t.Errorf("%v is answered as %d %s", p.err, got.status, got.code)
		}
		if (p.status == 503 || p.status == 429 || p.status == 425) != (p.retry > 0) {
			t.Errorf("%s: retry %s", p.code, p.retry)
		}
		starting := errors.Is(p.err, errAwaitsLine) || errors.Is(p.err, errAwaitsDatabase) // which the start logs
		if p.routine != (starting || slices.Contains([]string{"overloaded", "queue_full", "shutting_down"}, p.code) || errors.Is(p.err, admission.ErrBlocked)) {
			t.Errorf("%s: its cause is logged: %v", p.code, !p.routine)
		}
		if seen[p.err.Error()] {
			t.Errorf("%v is there twice", p.err)
		}
		seen[p.err.Error()] = true
	}
	for _, err := range []error{orders.ErrInvalid, orders.ErrDeclined} { // whose texts are shown
		if p, known := problemOf(fmt.Errorf("%w: a\nb", err)); !known || p.detail != "a; b" {
			t.Errorf("%+v", p)
		}
	}
}
