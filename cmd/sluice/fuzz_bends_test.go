package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// requestBends bend a request that stays well-formed HTTP.
var requestBends = []func(*thrower, *request){
	bendBody, bendBody, bendBody, bendValues, bendValues, bendCredential, bendCredential,
	bendHeader, bendHeader, bendHeader, bendFraming, bendQuery, bendParameter, bendPath, bendMethod, bendSize,
}

// header values that a client, a proxy or an attacker might send.
var headerBends = map[string][]string{
	"Content-Type": {"", "text/plain", "application/json; charset=utf-8", "application/json; charset=latin1", "application/json;;", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=x", "multipart/form-data", "application/problem+json", "*/*", "application/json, text/html"},
	"Content-Encoding":  {"gzip", "deflate", "br", "identity", "identity, gzip", "zstd"},
	"Origin":            {"null", "https://evil.example", "http://127.0.0.1", "http://[::1", "file://", "%", "http://127.0.0.1:99999999999"},
	"Sec-Fetch-Site":    {"cross-site", "same-origin", "none", "CROSS-SITE"},
	"X-Forwarded-For":   {"1.2.3.4", "::1, 10.0.0.1", ",,,,", "999.1.1.1", strings.Repeat("1.1.1.1,", 1000), "127.0.0.1:80", "fe80::1%eth0"},
	"X-Forwarded-Proto": {"https", "HTTPS, http", "gopher"},
	"X-Forwarded-Host":  {"evil.example"},
	"Forwarded":         {"for=1.2.3.4;host=evil", "for=\"[::1]:80\"", ";;;"},
	"X-Real-Ip":         {"1.2.3.4"},
	"X-User-Id":         {"somebody", "", strings.Repeat("u", 500), "a\tb"},
	"X-Request-Id":      {"abc", strings.Repeat("r", 64), strings.Repeat("r", 65), "<script>", "a b"},
	"Cookie": {"sluice_ticket=", "sluice_ticket=x; sluice_ticket=y", "; ; =", "a", strings.Repeat("c=d; ", 500), "sluice_ticket=\"quoted\"",
		"sluice_ticket_" + strings.Repeat("z", 32) + "=eyJ"},
	"Authorization": {"", "Bearer", "Bearer ", "bearer x", "Basic YTpi", "Bearer a b", "Bearer " + strings.Repeat("t", 2049), "Bearer \xff\xfe"},
	"If-None-Match": {"*", `"x"`, `W/"x"`, strings.Repeat(`"x",`, 400), `"`}, "If-Modified-Since": {"Mon, 01 Jan 2035 00:00:00 GMT", "never"},
	"Range":    {"bytes=0-1", "bytes=5-", "bytes=-1", "bytes=9-1", "bytes=0-0,1-1,2-2", "lines=1"},
	"If-Range": {`"x"`}, "Accept": {"text/html", "application/xml", ";q=2", "*/*;q=0"}, "Accept-Encoding": {"gzip", "br;q=1, *;q=0", "identity;q=0"},
	"Accept-Language": {"ko", "xx-YY;q=nan"}, "X-HTTP-Method-Override": {"DELETE"}, "Connection": {"close", "keep-alive", "upgrade", "close, close"},
	"Upgrade": {"websocket", "h2c"}, "Te": {"trailers"}, "Trailer": {"X-Late"}, "Expect": {"100-continue", "200-ok"}, "Max-Forwards": {"0"},
	"Access-Control-Request-Method": {"POST"}, "Proxy": {"http://evil.example"}, "Via": {"1.1 x"}, "X-Original-Url": {"/admin"}, "Dnt": {"1"},
}

var headerNames = sortedKeys(headerBends)

func bendHeader(t *thrower, r *request) {
	if t.IntN(12) == 0 {
		r.host = pick(t, []string{"", "localhost", "evil.example", "127.0.0.1", "[::1]:80", "a:b:c", r.host + ".", strings.ToUpper(r.host), strings.Repeat("h", 300)})
		return
	}
	name := pick(t, headerNames)
	value := pick(t, headerBends[name])
	if name == "Expect" && value != "100-continue" {
		r.op = nil // a status of its own
	}
	r.set(name, value)
	if t.IntN(10) == 0 {
		r.header = append(r.header, [2]string{name, pick(t, headerBends[name])})
	}
}

func bendCredential(t *thrower, r *request) {
	tickets, tokens := t.loot.ticket(t, pick(t, fuzzLines)), t.loot.one(t, "token")
	switch t.IntN(5) {
	case 0:
		r.unset("Authorization")
		r.unset("X-Queue-Ticket")
		r.unset("Cookie")
		r.token = ""
	case 1:
		r.token = t.forge(r.token)
		r.set("Authorization", "Bearer "+r.token)
	case 2:
		r.set("X-Queue-Ticket", t.forge(tickets))
	case 3: // the one for the other
		r.token = tickets
		r.set("Authorization", "Bearer "+tickets)
		r.set("X-Queue-Ticket", tokens)
	case 4:
		r.set("X-Queue-Ticket", tickets)
		r.set("Cookie", "sluice_ticket="+t.forge(tickets))
	}
}

var junkValues = []string{
	"null", "true", "-1", "0", "1.5", "1e400", "-0", "9223372036854775807", "9223372036854775808", "9007199254740993", "1e2", "01", `""`, `"1"`, "[]", "{}",
	`"\ud800"`, `"\u0000"`, "\"\xff\"", "[1]", `{"a":1}`, "NaN", "Infinity", "1E+2", "0.0000001", "''", `"` + strings.Repeat("x", 5000) + `"`, "--1", "1_000", "0x10",
}

// bendValues makes the body anew with values that do not fit.
func bendValues(t *thrower, r *request) {
	if r.op == nil || r.op.body == nil || t.rationed(r.op.name) {
		return
	}
	t.spoil = 0.3
	r.body = t.value(r.op.body, "", 0)
	t.spoil = 0
}

// bendBody bends the text of the body. None of it makes a request that was spoilt on
// purpose a good one.
func bendBody(t *thrower, r *request) {
	b := r.body
	switch t.IntN(13) {
	case 0:
		b = ""
	case 1:
		b += pick(t, []string{"x", "{}", "\x00", "}", ",", "\n\n"})
	case 2:
		b = b[:t.IntN(len(b)+1)]
	case 3:
		b = strings.Replace(b, "{", `{"unknown":1,`, 1)
	case 4: // twice the same name
		if i := strings.IndexByte(b, ':'); i > 0 && strings.HasPrefix(b, `{"`) {
			b = "{" + b[1:i] + ":null," + b[1:]
		}
	case 5:
		b = strings.Repeat("[", 1+t.IntN(20_000))
	case 6:
		b = strings.Repeat(`{"a":`, 1+t.IntN(9_000)) + "1"
	case 7:
		b = "\xef\xbb\xbf" + b
	case 8:
		b = pick(t, []string{"null", "[]", "1", `"{}"`, "a=b", "<xml/>", "\xff\xfe{\x00}\x00", "/* */{}", "{'a':1}"})
	case 9:
		b = strings.ToUpper(b)
	case 10:
		b = strings.ReplaceAll(b, `"`, `\u0022`)
	case 11:
		if n := len(b); n > 0 {
			at := t.IntN(n)
			b = b[:at] + string(rune(t.IntN(256))) + b[at+1:]
		}
	case 12:
		items := make([]string, 98+t.IntN(5))
		for i := range items {
			items[i] = fmt.Sprintf(`{"product_id":%d,"quantity":1}`, i+1)
		}
		b = `{"items":[` + strings.Join(items, ",") + `]}`
	}
	r.body = b
}

func bendFraming(t *thrower, r *request) {
	switch t.IntN(3) {
	case 0:
		r.chunked = true
	case 1:
		r.version = "HTTP/1.0"
	case 2:
		r.chunked = true
		r.set("Expect", "100-continue")
	}
}

func bendQuery(t *thrower, r *request) {
	r.query = pick(t, []string{"line=", "line=nowhere", "line=DEFAULT", "line=default&line=sale", "line=%", "line=%zz", "line=%00", "line=../default", "line=" + strings.Repeat("l", 33),
		"line[]=default", ";", "&&&", "=", "a=b", "line=def%61ult", "line=日本", strings.Repeat("q=1&", 500), "#", "??"})
	if strings.Contains(r.query, "日") || strings.ContainsAny(r.query, "#") {
		r.op = nil
	}
}

// bendParameter puts something else where the path has a parameter.
func bendParameter(t *thrower, r *request) {
	if r.op == nil || !strings.Contains(r.op.path, "{") {
		return
	}
	value := pick(t, []string{"-1", "0", "9223372036854775808", "1e3", "abc", "%00", "%2f", "%ff", "%E6%97%A5", "..", ".", "+1", "%20", "1%0d%0aX:y", strings.Repeat("9", 1000), "'", "{id}", "*", ":id"})
	parts := strings.Split(r.op.path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = value
		}
	}
	r.path = strings.Join(parts, "/")
	if strings.ContainsAny(value, ".") || value == "%2f" || r.op.both {
		r.op = nil // another path, or none, once it is put in its plain form
	}
}

func bendPath(t *thrower, r *request) {
	r.op = nil
	switch t.IntN(8) {
	case 0:
		r.path += "/"
	case 1:
		r.path = "/" + r.path
	case 2:
		r.path = strings.ToUpper(r.path)
	case 3:
		r.path = pick(t, []string{"/..", "/../../etc/passwd", "/assets/../admin", "/assets/%2e%2e/%2e%2e/etc/passwd", "/%2e%2e", "/admin/../queue/enter", "//admin//api//lines", "*", "/.git/config",
			"/admin/api/lines/default", "/healthz", "/metrics", "/queue/enter", "/favicon.ico", "/" + strings.Repeat("a/", 3000), "/%", "/%zz", "/\\", "/a b", "/\x01", "http://evil.example/", "http:///", "/a?b?c"})
	case 4:
		r.path = strings.Replace(r.path, "/", "/./", 1)
	case 5:
		at := t.IntN(len(r.path))
		r.path = r.path[:at] + fmt.Sprintf("%%%02x", r.path[at]) + r.path[at+1:]
	case 6:
		r.path += pick(t, []string{"%00", "%0a", ";x", "%20", "\t", ".json", "%c0%ae"})
	case 7:
		r.path = "http://" + r.host + r.path
	}
	if strings.ContainsAny(r.path, " \t\x01") {
		r.path = strings.NewReplacer(" ", "%20", "\t", "%09", "\x01", "%01").Replace(r.path)
	}
}

func bendMethod(t *thrower, r *request) {
	if r.method == "GET" && t.IntN(2) == 0 {
		r.method = "HEAD" // answered as GET is
		return
	}
	r.method, r.op = pick(t, []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "PROPFIND", "X", "QUERY", strings.Repeat("M", 100)}), nil
}

// bendSize goes to the bounds of a body and a header.
func bendSize(t *thrower, r *request) {
	if t.IntN(2) == 0 {
		r.body += strings.Repeat(" ", max(0, 64<<10-len(r.body)-1+t.IntN(3)))
		return
	}
	r.set("X-Padding", strings.Repeat("p", 15_000+t.IntN(2_500)))
}

// byteBends bend what goes over the wire.
var byteBends = []func(*thrower, []byte) []byte{
	func(t *thrower, b []byte) []byte { // other bytes
		b = bytes.Clone(b)
		for range 1 + t.IntN(8) {
			if len(b) > 0 {
				b[t.IntN(len(b))] = byte(t.IntN(256))
			}
		}
		return b
	},
	func(t *thrower, b []byte) []byte { return b[:t.IntN(len(b)+1)] },
	func(t *thrower, b []byte) []byte { // a piece twice
		from := t.IntN(len(b) + 1)
		to := from + t.IntN(len(b)-from+1)
		return bytes.Join([][]byte{b[:to], b[from:to], b[to:]}, nil)
	},
	func(t *thrower, b []byte) []byte { // a piece out
		from := t.IntN(len(b) + 1)
		return bytes.Join([][]byte{b[:from], b[from+t.IntN(len(b)-from+1):]}, nil)
	},
	func(t *thrower, b []byte) []byte { // a line more
		return bytes.Replace(b, []byte("\r\n"), []byte("\r\n"+pick(t, []string{
			"Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: 0x10", "Content-Length: 5, 6", "Content-Length: +5",
			"Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked", "Transfer-Encoding:\tchunked",
			" folded", ":", "No-Colon", "X\x00: y", "Host: other", "X-A: \x7f\x80", "Host : x", strings.Repeat("H: v\r\n", 2000), "X: " + strings.Repeat("y", 20_000),
		})+"\r\n"), 1)
	},
	func(_ *thrower, b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) },
	func(_ *thrower, b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\r")) },
	func(t *thrower, b []byte) []byte { // another request line
		_, rest, _ := bytes.Cut(b, []byte("\r\n"))
		return append([]byte(pick(t, []string{"", "GET", "GET /", "GET  /  HTTP/1.1", "GET / HTTP/9.9", "GET / HTTP/1.1 x", "PRI * HTTP/2.0", "\x16\x03\x01\x02\x00", "GET /\x00 HTTP/1.1",
			" GET / HTTP/1.1", "POST /orders HTTP/0.9", strings.Repeat("A", 20_000), "GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1"})+"\r\n"), rest...)
	},
	func(t *thrower, b []byte) []byte { // chunks that are none
		head, _, _ := bytes.Cut(b, []byte("\r\nContent-Length"))
		return append(bytes.Clone(head), []byte("\r\nTransfer-Encoding: chunked\r\n\r\n"+pick(t, []string{
			"zz\r\n", "-1\r\n", "ffffffffffffffff\r\nx", "5\r\nab", "1;ext=\"\r\nx\r\n0\r\n\r\n", "0\r\nX: y\r\n\r\n", "1\r\nxx\r\n0\r\n\r\n", "0x1\r\nx\r\n0\r\n\r\n", "10000000\r\n", "1\nx\n0\n\n",
		}))...)
	},
	func(t *thrower, b []byte) []byte {
		return append(b, pick(t, []string{"GET / HTTP/1.1\r\n\r\n", "\r\n\r\n", "\x00", "garbage"})...)
	},
}

func quoteJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a text or a number
	}
	return string(b)
}
