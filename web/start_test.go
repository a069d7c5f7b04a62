package web

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/orders"
)

// Until a process has what it needs no handler touches its stores: there is no line
// here, and the store of the orders is one that panics when it is asked. Each route answers
// either without them or with what is missing.
func TestStart(t *testing.T) {
	t.Parallel()
	needs := NewStart(NeedRedis, NeedDatabase)
	service := must(orders.NewService(noStore{}, orders.DefaultOptions(), slog.New(slog.DiscardHandler)))(t)
	f := newFixture(t, setup{config: func(c *Config) {
		c.Role, c.Start, c.Lines, c.Orders = RoleAll, needs, NewLines(), service
	}})
	anytime := []string{"/", "/wait", "/assets/*", "/admin", "/healthz", "/metrics"}
	sweep := func() {
		t.Helper()
		for _, route := range f.server.public.GetRoutes(true) {
			if route.Path != "/wait/plain" { // TestPlainBeforeTheStart: it says so as a page
				judgeEarly(t, f.public, route.Method, route.Path, anytime)
			}
		}
		for _, route := range f.server.admin.GetRoutes(true) {
			judgeEarly(t, f.admin, route.Method, route.Path, anytime)
		}
	}
	ready := func(missing string) {
		t.Helper()
		if got := f.admin("GET", "/readyz", "").want(503).body; !strings.Contains(got, `"missing":[`+missing+`]`) {
			t.Errorf("readiness: %s, want %s", got, missing)
		}
	}
	ready(`"redis","database"`)
	sweep()
	needs.Met(NeedRedis)
	ready(`"database"`)
	sweep()
	if log := f.log.String(); strings.Contains(log, "not available") || strings.Contains(log, "panic") {
		t.Errorf("log:\n%s", log)
	}
	needs.Met(NeedDatabase)
	if missing := needs.Missing(); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	f.public("GET", "/queue/status", "").problem(404, "line_not_found") // the handler runs, on a server without lines
}

// noStore has not been reached.
type noStore struct{ orders.Store }

func (noStore) SetTestDelay(time.Duration) {}

func judgeEarly(t *testing.T, ask func(method, target, body string, h ...string) answered, method, path string, anytime []string) {
	t.Helper()
	for _, open := range anytime {
		if path == open {
			ask(method, strings.ReplaceAll(path, "*", "wait.js"), "").want(200)
			return
		}
	}
	if path == "/.well-known/jwks.json" { // no key is public here
		ask(method, path, "").want(404)
		return
	}
	if path != "/readyz" {
		at := strings.NewReplacer(":line", "default", ":id", "1", ":order_id", "o", ":coupon_id", "1").Replace(path)
		a := ask(method, at, "")
		if method == "HEAD" {
			a.want(503)
			return
		}
		code := "database_unavailable"
		if strings.HasPrefix(path, "/queue") || strings.HasPrefix(path, "/admin/api/lines") || path == "/admin/api/me" || path == "/admin/api/journal" {
			code = "queue_unavailable"
		}
		a.problem(503, code)
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s does not say when to come again", a.asked)
		}
	}
}
