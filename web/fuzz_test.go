package web

import (
	"bytes"
	stdjson "encoding/json"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// asked is a request as a handler sees it, from an address, with headers.
func asked(t testing.TB, from string, body []byte, h ...string) *fiber.Ctx {
	t.Helper()
	app := fiber.New()
	ctx := newRequestCtx()
	ctx.Init(&ctx.Request, &net.TCPAddr{IP: net.ParseIP(from), Port: 1}, nil)
	ctx.Request.SetBody(body)
	for i := 0; i+1 < len(h); i += 2 {
		ctx.Request.Header.Set(h[i], h[i+1])
	}
	c := app.AcquireCtx(ctx)
	t.Cleanup(func() { app.ReleaseCtx(c) })
	return c
}

// refusedAs checks that an error becomes a problem of the documented form.
func refusedAs(t *testing.T, err error, status int) {
	t.Helper()
	p, known := problemOf(err)
	if !known || p.status != status {
		t.Fatalf("%v is %+v, %v", err, p, known)
	}
	problemIsWellFormed(t, p)
}

func problemIsWellFormed(t *testing.T, p problem) {
	t.Helper()
	c := asked(t, "127.0.0.1", nil)
	writeProblem(c, p)
	var said struct {
		Detail, Code string
		Status       int
		Retry        int64 `json:"retry_after_ms"`
	}
	body := c.Response().Body()
	if err := stdjson.Unmarshal(body, &said); err != nil || !utf8.Valid(body) || said.Code != p.code || said.Status != p.status ||
		said.Detail != strings.ToValidUTF8(p.detail, "\ufffd") || (said.Retry > 0) != (p.retry > 0) {
		t.Fatalf("%+v is written as %s: %v", p, body, err)
	}
}

// FuzzProblem: whatever a detail says, the problem is JSON that says it.
func FuzzProblem(f *testing.F) {
	f.Add("plain", int64(0))
	f.Add("quote \" and \\ and \x00 \u2028 \xff </script>", int64(1))
	f.Add("", int64(time.Hour))
	f.Fuzz(func(t *testing.T, detail string, retry int64) {
		problemIsWellFormed(t, problem{status: 503, code: "overloaded", detail: detail, retry: time.Duration(retry)})
	})
}

// FuzzOrderBody: what is taken for an order is what encoding/json reads there too; the
// rest is refused with a problem.
func FuzzOrderBody(f *testing.F) {
	for _, s := range bodies {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"items":[{"product_id":1,"quantity":1}],"coupon_code":"x"}`))
	f.Add([]byte(`{"items":[{"product_id":1,"quantity":1,"quantity":2}]}`))
	f.Add([]byte(`{"items":[{"product_id":1e2,"quantity":1.0}]}`))
	f.Add([]byte(`{"items":[{"PRODUCT_ID":1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { agrees[orderRequest](t, body) })
}

// FuzzProductBody, likewise.
func FuzzProductBody(f *testing.F) {
	for _, s := range bodies {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"name":"Mug","brand":"Sluice","price":1000,"stock":100,"image_url":"/a","line":"a"}`))
	f.Fuzz(func(t *testing.T, body []byte) { agrees[productRequest](t, body) })
}

// FuzzCouponBody, likewise.
func FuzzCouponBody(f *testing.F) {
	for _, s := range bodies {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"name":"First","quantity":100,"discount":5}`))
	f.Fuzz(func(t *testing.T, body []byte) { agrees[couponRequest](t, body) })
}

// bodies are what a body should not be.
var bodies = []string{
	``, ` `, `{}`, `null`, `[]`, `{"a":1}`, `{}{}`, `{} x`, "\xef\xbb\xbf{}", `{"name":"\ud800"}`, `{"name":"` + "\xff" + `"}`, `{"name":"\u0000"}`,
	`{"price":9223372036854775808}`, `{"price":-0}`, `{"price":01}`, `{"price":"1"}`, `{"quantity":1e400}`, `{"name":null,"price":null,"items":null}`,
	strings.Repeat(`{"a":`, 2000), `{"items":` + strings.Repeat("[", 20_000), `{"name":"a","name":"b"}`, `{"items":[null]}`,
}

func agrees[T any](t *testing.T, body []byte) {
	t.Helper()
	var got, want T
	if err := decode(asked(t, "127.0.0.1", body), &got); err != nil {
		refusedAs(t, err, 400)
		return
	}
	plain := stdjson.NewDecoder(bytes.NewReader(body))
	plain.DisallowUnknownFields()
	if err := plain.Decode(&want); err != nil || !stdjson.Valid(body) {
		t.Fatalf("%q is taken for %+v, and is no such JSON: %v", body, got, err)
	}
	a, errA := stdjson.Marshal(got)
	b, errB := stdjson.Marshal(want)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Fatalf("%q is taken for %s, and says %s", body, a, b)
	}
}

// FuzzLineChange: a change that is taken keeps the rules, says the same when it is
// applied twice, and leaves alone what it does not name.
func FuzzLineChange(f *testing.F) {
	for _, s := range bodies {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"paused":true,"message":"Back in five minutes.","mode":"passthrough","rate_override":120,"max_active":500}`))
	f.Add([]byte(`{"paused":null,"message":null,"mode":null,"rate_override":null,"weight":null,"poll_budget":null,"opens_at":null}`))
	f.Add([]byte(`{"opens_at":"2026-01-02T03:04:05.678Z","closes_at":"2026-01-02T03:04:05.679+00:00"}`))
	f.Add([]byte(`{"opens_at":"2026-01-02T03:04:05Z","closes_at":"2026-01-02T03:04:05Z"}`))
	for _, s := range []string{`"rate_override":1e-320`, `"rate_override":-1`, `"poll_budget":0`, `"weight":1001`, `"message":"\ud83d"`, `"mode":"block"`, `"mode":"off"`, `"max_length":-1`} {
		f.Add([]byte("{" + s + "}"))
	}
	rate := 7.5
	before := queue.DefaultOptions().Initial.Apply(queue.Patch{Message: new("hello"), RateOverride: new(&rate)})
	f.Fuzz(func(t *testing.T, body []byte) {
		var req patchRequest
		if err := decode(asked(t, "127.0.0.1", body), &req); err != nil {
			refusedAs(t, err, 400)
			return
		}
		patch, err := patchFor(t.Context(), nil, req)
		if err != nil {
			refusedAs(t, err, 400)
			return
		}
		once := queue.DefaultOptions().Initial.Apply(patch)
		if err := once.Validate(); err != nil {
			t.Fatalf("%q is taken and breaks a rule: %v", body, err)
		}
		one, two := mustJSON(t, once), mustJSON(t, once.Apply(patch))
		if one != two {
			t.Fatalf("%q makes %s, and then %s", body, one, two)
		}
		after := before.Apply(patch)
		if !req.Message.set && after.Message != "hello" || !req.RateOverride.set && after.RateOverride != &rate {
			t.Fatalf("%q changes what it does not name: %+v", body, after)
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	return string(must(stdjson.Marshal(v))(t))
}

// FuzzForwardedFor: nobody but a trusted proxy is believed; and what a visitor puts in
// front of what the proxies say makes nobody else of them.
func FuzzForwardedFor(f *testing.F) {
	f.Add("10.0.0.1", "203.0.113.9", "1.1.1.1")
	f.Add("10.0.0.1", "203.0.113.9, 10.0.0.2", "::1, ")
	f.Add("192.0.2.1", "203.0.113.9", "")
	f.Add("10.0.0.1", "fe80::1%eth0, ::ffff:203.0.113.9", ",")
	f.Add("10.0.0.1", "nonsense, 10.0.0.3", "10.0.0.4")
	s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	f.Fuzz(func(t *testing.T, from, said, made string) {
		peer, err := netip.ParseAddr(from)
		if err != nil || peer.Zone() != "" || strings.ContainsAny(said+made, "\r\n") {
			t.Skip()
		}
		peer = peer.Unmap()
		got := s.client(asked(t, from, nil, fiber.HeaderXForwardedFor, said))
		if !s.trusts(peer) && got != peer {
			t.Fatalf("%s says %q and is taken for %s", from, said, got)
		}
		if s.trusts(got) {
			return // only proxies, as far as it was understood: what stands before may count
		}
		if with := s.client(asked(t, from, nil, fiber.HeaderXForwardedFor, made+","+said)); with != got {
			t.Fatalf("%q is %s, and with %q in front %s", said, got, made, with)
		}
	})
}

// FuzzOrigin: who is let pass as of the same site names our host.
func FuzzOrigin(f *testing.F) {
	f.Add("http://shop.example", "shop.example")
	f.Add("https://SHOP.example:443", "shop.example")
	f.Add("http://shop.example.evil.example", "shop.example")
	f.Add("http://shop.example@evil.example", "shop.example")
	f.Add("http://evil.example#shop.example", "shop.example")
	f.Add("null", "null")
	f.Add("http://[::1]:80", "[::1]")
	f.Add("//shop.example", "shop.example")
	f.Fuzz(func(t *testing.T, origin, host string) {
		c := asked(t, "127.0.0.1", nil, fiber.HeaderOrigin, origin)
		c.Request().Header.SetHost(host)
		if sameSite(c) != nil || c.Get(fiber.HeaderOrigin) == "" {
			return
		}
		u, err := url.Parse(c.Get(fiber.HeaderOrigin))
		name := func(h string) string { return strings.ToLower((&url.URL{Host: h}).Hostname()) }
		sent := string(c.Request().Host())
		if err != nil || u.Host == "" || name(u.Host) != name(sent) {
			t.Fatalf("the origin %q passes for the host %q", origin, sent)
		}
	})
}

// FuzzOperatorHost: a Host passes only if it was named, whatever its case or port.
func FuzzOperatorHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1:9090", "localhost:9090", "[::1]:9090", "ops.example", "OPS.example:1", "ops.example.evil.example", "ops.example:", "evil", "", "127.0.0.1:9091", "[ops.example]:1"} {
		f.Add(s)
	}
	hosts := newAllowedHosts("127.0.0.1:9090", []string{"ops.example"})
	f.Fuzz(func(t *testing.T, host string) {
		if !hosts.allows(host) {
			return
		}
		switch lower := strings.ToLower(host); lower {
		case "127.0.0.1:9090", "localhost:9090", "[::1]:9090", "ops.example":
		default:
			if name, _, err := net.SplitHostPort(lower); err != nil || name != "ops.example" {
				t.Fatalf("the Host %q passes", host)
			}
		}
	})
}

var saneID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// FuzzRequestHeaders: a request id that goes into logs is sane, a bearer token is one
// word at least, a cookie of a line is found as it was set.
func FuzzRequestHeaders(f *testing.F) {
	f.Add("abc-1", "Bearer token", "sluice_ticket=eyJ")
	f.Add("a b", "bearer  x ", "a=b; sluice_ticket=\"x\"; sluice_ticket=y")
	f.Add(strings.Repeat("r", 65), "Basic YTpi", "; =;")
	f.Add("\x1b[2J", "Bearer", "sluice_ticket")
	f.Fuzz(func(t *testing.T, id, authorization, cookies string) {
		if made := string(requestID([]byte(id), new([idLength]byte))); !saneID.MatchString(made) || saneID.MatchString(id) && made != id {
			t.Fatalf("the request id %q became %q", id, made)
		}
		c := asked(t, "127.0.0.1", nil, fiber.HeaderAuthorization, authorization, fiber.HeaderCookie, cookies)
		token, err := bearer(c)
		if err != nil {
			refusedAs(t, err, 401)
		} else if token == "" || token != strings.TrimSpace(token) || !strings.Contains(authorization, token) {
			t.Fatalf("%q has the token %q", authorization, token)
		}
		if got := c.Cookies(ticketCookie); got != "" && !strings.Contains(cookies, got) {
			t.Fatalf("%q has the ticket %q", cookies, got)
		}
		_ = wantJSON(c)
	})
}
