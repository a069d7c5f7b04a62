package web

import (
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

func TestRequestID(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for sent, kept := range map[string]bool{
			"abc-DEF_1.2": true, strings.Repeat("a", 64): true,
			"": false, strings.Repeat("a", 65): false, "a b": false, `a"b`: false, "ä": false, "a\tb": false, "{}": false,
		} {
			got := f.public("GET", "/queue/status", "", headerRequestID+": "+sent).header.Get(headerRequestID)
			if got == "" || (got == sent) != kept {
				t.Errorf("sent %q, got %q", sent, got)
			}
		}
	})
}

func TestAccessLogKeepsSecretsOut(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		ticket, token := f.admitted()
		f.public("GET", "/queue/position?line=default&secret=in-the-query", "", "Cookie: sluice_ticket="+ticket, ticketHeader(ticket))
		f.public("POST", "/orders", "{}", jsonType, bearerToken(token))
		log := f.log.String()
		for _, secret := range []string{ticket, token, "in-the-query", "eyJ"} {
			if strings.Contains(log, secret) {
				t.Errorf("%.20s is in the log", secret)
			}
		}
		if !strings.Contains(log, `"path":"/queue/position"`) || !strings.Contains(log, `"status":400`) {
			t.Errorf("the requests are not in the log: %s", log)
		}
	})
}

func TestAccessLogIsSampled(t *testing.T) {
	inBubble(t, setup{config: func(c *Config) { c.AccessLogEvery = 10 }}, func(t *testing.T, f *fixture) {
		f.server.public.Get("/broken", f.server.publicRouter().wrap("/broken", func(*fiber.Ctx) error { panic("a bug") }))
		for range 30 {
			f.public("GET", "/queue/status", "")
		}
		if got := strings.Count(f.log.String(), `"msg":"request"`); got != 3 {
			t.Errorf("%d of 30 logged", got)
		}
		f.public("GET", "/broken", "").problem(500, "internal_error")
		if got := strings.Count(f.log.String(), `"status":500`); got != 1 {
			t.Error("an error was sampled away")
		}
		// While a store is away every answer may be a 503.
		f.server.public.Get("/away", f.server.publicRouter().wrap("/away", func(*fiber.Ctx) error { return queue.ErrUnavailable }))
		for range 30 {
			f.public("GET", "/away", "").problem(503, "queue_unavailable")
		}
		if got := strings.Count(f.log.String(), `"status":503`); got != 3 {
			t.Errorf("%d of 30 logged", got)
		}
	})
}

func (s *Server) publicRouter() *router { return &router{server: s, app: s.public, name: "public"} }

func TestPanicIsAProblemAndIsLogged(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.server.public.Get("/broken", f.server.publicRouter().wrap("/broken", func(*fiber.Ctx) error { panic("a bug") }))
		a := f.public("GET", "/broken", "").problem(500, "internal_error")
		if strings.Contains(a.body, "bug") || strings.Contains(a.body, ".go") {
			t.Errorf("the client is told: %s", a.body)
		}
		if log := f.log.String(); !strings.Contains(log, "a bug") || !strings.Contains(log, "middleware_test.go") {
			t.Errorf("no stack in the log: %s", log)
		}
		f.public("GET", "/queue/status", "").want(200)
	})
}

func TestStringsOfARequestAreNotKept(t *testing.T) {
	// The same buffers serve one request after the other here, so whatever a
	// handler kept of an earlier one has changed by now.
	f := newFixture(t, setup{orders: withOrders()})
	id := f.product(10, "")
	f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
	entered := f.public("POST", "/queue/enter", "").want(201).standing()
	time.Sleep(time.Duration(entered.UsableInMS) * time.Millisecond)
	for range 50 {
		f.public("POST", "/queue/enter", "", ticketHeader(strings.Repeat("x", len(entered.Ticket))), "Cookie: sluice_ticket="+strings.Repeat("y", 300))
	}
	got := f.public("GET", "/queue/position", "", ticketHeader(entered.Ticket)).want(200).standing()
	if got.Token != entered.Token {
		t.Error("the visitor got lost")
	}
	f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(got.Token)).want(201)
}
