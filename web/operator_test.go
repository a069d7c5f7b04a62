package web

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// What a page that the operator has open elsewhere can make a browser send here, and
// what its author can make the browser take for the operator's listener. {host} is the
// listener's own address.
var attacks = []struct{ name, headers string }{
	{"a form", "Host: {host}\nOrigin: https://evil.example\nContent-Type: application/x-www-form-urlencoded\nSec-Fetch-Site: cross-site"},
	{"a form of text", "Host: {host}\nOrigin: https://evil.example\nContent-Type: text/plain"},
	{"a form with files", "Host: {host}\nOrigin: https://evil.example\nContent-Type: multipart/form-data; boundary=x"},
	{"a form of an old browser", "Host: {host}\nContent-Type: application/x-www-form-urlencoded"},
	{"text of an old browser", "Host: {host}\nContent-Type: text/plain"},
	{"text that looks like JSON", "Host: {host}\nContent-Type: text/plain; application/json"},
	{"no content type", "Host: {host}"},
	{"two content types", "Host: {host}\nContent-Type: text/plain\nContent-Type: application/json\nOrigin: https://evil.example"},
	{"fetch without CORS", "Host: {host}\nOrigin: https://evil.example\nContent-Type: text/plain\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors"},
	{"fetch with CORS", "Host: {host}\nOrigin: https://evil.example\nContent-Type: application/json\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: cors"},
	{"a frame in a sandbox", "Host: {host}\nOrigin: null\nContent-Type: application/json"},
	{"another port of this machine", "Host: {host}\nOrigin: http://127.0.0.1:1\nContent-Type: application/json"},
	{"another port, without an Origin", "Host: {host}\nContent-Type: application/json\nSec-Fetch-Site: same-site"},
	{"another site, without an Origin", "Host: {host}\nContent-Type: application/json\nSec-Fetch-Site: cross-site"},
	{"a name that begins like ours", "Host: {host}\nOrigin: http://{host}.evil.example\nContent-Type: application/json"},
	{"a user that looks like ours", "Host: {host}\nOrigin: http://{host}@evil.example\nContent-Type: application/json"},
	{"two Origins", "Host: {host}\nOrigin: https://evil.example\nOrigin: http://{host}\nContent-Type: application/json"},
	{"a name of theirs that leads here", "Host: evil.example\nOrigin: http://evil.example\nContent-Type: application/json\nSec-Fetch-Site: same-origin"},
	{"the same with our port", "Host: evil.example:{port}\nOrigin: http://evil.example:{port}\nContent-Type: application/json\nSec-Fetch-Site: same-origin"},
	{"a name below localhost", "Host: evil.localhost:{port}\nOrigin: http://evil.localhost:{port}\nContent-Type: application/json"},
	{"a host that ends like ours", "Host: evil-127.0.0.1:{port}\nContent-Type: application/json"},
	{"a dot at the end", "Host: localhost.:{port}\nOrigin: http://localhost.:{port}\nContent-Type: application/json"},
	{"our name in other headers", "Host: evil.example\nX-Forwarded-Host: {host}\nX-Host: {host}\nForwarded: host={host}\nX-Original-Host: {host}\nContent-Type: application/json"},
	{"an empty Host", "Host:\nContent-Type: application/json"},
	{"another address of this machine", "Host: 127.0.0.2:{port}\nContent-Type: application/json"},
	{"this machine as a number", "Host: 2130706433:{port}\nContent-Type: application/json"},
	{"no port", "Host: 127.0.0.1\nContent-Type: application/json"},
}

// refusesReads reports whether reads are refused too: under a foreign name, or where the
// browser says who asks. Others are answered, and no page may see the answer.
func refusesReads(headers string) bool {
	return !strings.HasPrefix(headers, "Host: {host}") || strings.Contains(headers, "cross-site") || strings.Contains(headers, "same-site")
}

// Nothing that a browser can be made to send changes or tells anything, with and
// without a token that the browser does not know. What the operator's own page sends
// does.
func TestAttacksOnTheOperator(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{"no token": "", "a token": "the operator's token"} {
		f := newFixture(t, setup{orders: withOrders(), config: func(c *Config) {
			if token != "" {
				c.Operators = []Operator{{"alice", "another operator's token"}, {"bob", token}}
			}
		}})
		s := f.serve(Drain{Timeout: 20 * time.Second})
		_, port, _ := strings.Cut(s.admin, ":")
		fill := strings.NewReplacer("{host}", s.admin, "{port}", port, "\n", "\r\n").Replace
		send := func(request, headers, body string) answered {
			c := dial(t, s.admin)
			_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\n%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", request, fill(headers), len(body), body)
			method, _, _ := strings.Cut(request, " ")
			return readAnswer(t, bufio.NewReader(c), method)
		}
		for _, attack := range attacks {
			for _, r := range guarded {
				if r.path == "/metrics" && token != "" {
					continue // asks for the token and nothing else
				}
				if r.method == "GET" && !refusesReads(attack.headers) {
					continue
				}
				a := send(r.method+" "+r.path, attack.headers, r.body)
				if a.status != 403 && a.status != 415 && a.status != 400 && (token == "" || a.status != 401) {
					t.Errorf("%s, %s: %s %s: %d %s", name, attack.name, r.method, r.path, a.status, a.body)
				}
				if len(corsHeaders(a)) > 0 {
					t.Errorf("%s: %s %s may be read: %v", attack.name, r.method, r.path, a.header)
				}
			}
		}
		own := "Host: {host}\nOrigin: http://{host}\nContent-Type: application/json\nSec-Fetch-Site: same-origin"
		if token != "" {
			send("PATCH /admin/api/lines/default", own, `{"paused":true}`).problem(401, "token_missing")
			own += "\nAuthorization: Bearer " + token
		}
		if err := f.watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if view, _ := f.watch.View(); view.Settings.Paused || view.Settings.Revision != 0 || view.Epoch != 0 {
			t.Errorf("%s: the line was changed", name)
		}
		if a := send("PATCH /admin/api/lines/default", own, `{"paused":true}`); a.status != 200 {
			t.Errorf("%s: the operator's own page: %d %s", name, a.status, a.body)
		}
		for _, host := range []string{"localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"} {
			if a := send("GET /admin/api/lines", "Host: "+host+"\nAuthorization: Bearer "+token, ""); a.status != 200 {
				t.Errorf("%s: Host %s: %d", name, host, a.status)
			}
		}
	}
}

// A read changes nothing, whatever it carries; no header turns it into a change, and
// nothing speaks another protocol.
func TestOperatorReadsChangeNothing(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		for _, r := range guarded {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
				if method == "POST" && r.method == "POST" {
					continue
				}
				f.admin(method, r.path+"?_method="+r.method+"&paused=true", r.body, jsonType, "X-HTTP-Method-Override: "+r.method,
					"X-HTTP-Method: "+r.method, "X-Method-Override: "+r.method)
			}
			a := f.admin("GET", r.path, "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
			if a.status == 101 {
				t.Errorf("%s speaks another protocol", r.path)
			}
			f.admin("GET", r.path, "", "Connection: Upgrade", "Upgrade: websocket", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket")
		}
		if err := f.watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if view, _ := f.watch.View(); view.Settings.Revision != 0 || view.Epoch != 0 {
			t.Error("a read has changed the line")
		}
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.Position != 1 {
			t.Errorf("%+v", got)
		}
		if got := f.admin("GET", "/admin/api/orders/summary", "").want(200); !strings.Contains(got.body, `"orders":0`) {
			t.Error(got.body)
		}
	})
}

// However a path or a target is spelled, neither listener serves what is the other's.
func TestListenersAreApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{orders: withOrders()})
	s := f.serve(Drain{Timeout: 20 * time.Second})
	spellings := func(path, host string) []string {
		rest := strings.TrimPrefix(path, "/")
		return []string{
			path, "/" + path, "//" + host + path, "/./" + rest, "/assets/.." + path, "/assets/../.." + path, "/wait/.." + path, "/%2e%2e" + path,
			"/%2e" + path, "/%2f" + rest, "/%5c.." + path, "/..;" + path, path + "/", path + "/.", path + "%00", path + ";x", path + "?line=default", path + "#x",
			"http://" + host + path, "HTTP://" + host + path, "http://" + host + "/" + path, "http:" + path, "/" + strings.ToUpper(rest), "/queue/../" + rest,
			"/" + strings.ReplaceAll(rest, "/", "%2f"), "/" + strings.ReplaceAll(rest, "/", "\\"), "*", host,
		}
	}
	for _, side := range []struct {
		name, at, other string
		routes          []string
	}{
		{"public", s.public, s.admin, []string{"GET /admin", "GET /admin/api/lines", "PATCH /admin/api/lines/default", "POST /admin/api/lines/default/restart",
			"GET /admin/api/orders/summary", "GET /metrics", "GET /healthz", "GET /readyz"}},
		{"operator's", s.admin, s.public, []string{"POST /queue/enter", "GET /queue/status", "GET /products", "POST /orders", "GET /wait"}},
	} {
		for _, route := range side.routes {
			method, path, _ := strings.Cut(route, " ")
			for _, target := range spellings(path, side.other) {
				for _, host := range []string{side.at, side.other} {
					c := dial(t, side.at)
					_, _ = io.WriteString(c, method+" "+target+" HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
					a := readAnswer(t, bufio.NewReader(c), method)
					if a.status != 404 && a.status != 400 && a.status != 405 {
						t.Errorf("%s listener: %s %s under %s: %d %s", side.name, method, target, host, a.status, a.body)
					}
				}
			}
		}
	}
	waitingIs(t, f, 0)
}
