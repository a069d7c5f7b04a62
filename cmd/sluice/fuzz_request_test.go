package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
)

// shot is what is sent at once on one connection.
type shot struct {
	op       *operation // nil: bent so far that only the rules for all answers hold
	admin    bool
	raw      []byte
	requests int    // how many answers must come; 0 for what is not well-formed HTTP
	method   string // of all of them
	token    string // what an order is made with
	body     string
}

// request is a well-formed request that can be bent.
type request struct {
	op      *operation
	admin   bool
	method  string
	path    string // as on the wire
	query   string
	host    string
	header  [][2]string
	body    string
	chunked bool
	version string
	token   string
}

// maker makes the shots of one run. The n-th shot of a seed is always the same but for
// the tickets, tokens and ids in it, which the service gave.
type maker struct {
	contract *contract
	seed     uint64
	loot     *loot
	hosts    map[bool]string // by whether it is the operator's
	weights  []*operation    // each as often as it is to be asked
}

// often is how often operations are asked for; the others once.
var often = map[string]int{
	"enter": 6, "position": 8, "placeOrder": 8, "payOrder": 4, "claimCoupon": 4, "readOrder": 3, "leave": 1, "changeLine": 3,
	"createLine": 2, "metrics": 1,
}

// thrower is the state of making one shot.
type thrower struct {
	*rand.Rand
	*maker
	spoil float64 // share of values that are not of their schema
}

const repairEvery = 101 // shots

func (m *maker) shot(n uint64) shot {
	t := &thrower{Rand: rand.New(rand.NewPCG(m.seed, n)), maker: m}
	if n%repairEvery == 0 { // closed, paused and full lines would answer the same for ever
		return t.fire(t.repair(), 1)
	}
	r := t.valid(pick(t, m.weights))
	for bends := t.IntN(4) - 1; bends > 0; bends-- {
		pick(t, requestBends)(t, r)
	}
	switch t.IntN(20) {
	case 0, 1:
		return t.broken(r)
	case 2:
		return t.fire(r, 2+t.IntN(7))
	}
	return t.fire(r, 1)
}

func (t *thrower) repair() *request {
	r := t.valid(t.named("changeLine"))
	r.path = "/admin/api/lines/" + url.PathEscape(pick(t, fuzzLines))
	r.body = `{"paused":null,"message":null,"mode":null,"rate_override":null,"max_active":null,"max_length":null,` +
		`"sold_out":null,"weight":null,"poll_budget":null,"opens_at":null,"closes_at":null}`
	return r
}

func (m *maker) named(name string) *operation {
	return m.contract.operations[slices.IndexFunc(m.contract.operations, func(o *operation) bool { return o.name == name })]
}

// valid is a request as a client would send it.
func (t *thrower) valid(o *operation) *request {
	r := &request{op: o, admin: o.admin || o.both && t.IntN(2) == 0, method: o.method, version: "HTTP/1.1"}
	r.host = t.hosts[r.admin]
	line := "default"
	if t.IntN(4) == 0 {
		line = pick(t, fuzzLines)
	}
	if o.query && (line != "default" || t.IntN(2) == 0) {
		r.query = "line=" + line
	}
	deal := t.loot.deal(t)
	if strings.HasPrefix(o.path, "/queue/") {
		if ticket := t.loot.ticket(t, line); ticket != "" && (o.name != "enter" || t.IntN(20) > 0) {
			name := "sluice_ticket"
			if line != "default" {
				name += "_" + line
			}
			if t.IntN(3) == 0 {
				r.set("Cookie", name+"="+ticket)
			} else {
				r.set("X-Queue-Ticket", ticket)
			}
		}
	}
	if strings.HasPrefix(o.path, "/orders") || strings.HasSuffix(o.path, "/claim") {
		if r.token = deal.token; t.IntN(4) == 0 || deal.order == "" && strings.Contains(o.path, "{order_id}") {
			r.token = t.loot.one(t, "token")
		}
		if r.token != "" {
			r.set("Authorization", "Bearer "+r.token)
		}
	}
	r.path = t.fill(o, line, deal)
	if o.body != nil || r.admin && o.method != "GET" {
		r.set("Content-Type", "application/json")
	}
	if o.body != nil {
		r.body = t.value(o.body, "", 0)
		if t.rationed(o.name) {
			r.body = strings.TrimSuffix(r.body, "}") + `,"one too many":1}`
			r.body = strings.Replace(r.body, "{,", "{", 1)
		}
	}
	return r
}

// rationed reports whether a request must not succeed: what is made by the hundred
// thousand shows nothing new, and grows for good or kills what others need.
func (t *thrower) rationed(name string) bool {
	switch name {
	case "addProduct":
		return t.loot.count("product") >= 40
	case "addCoupon":
		return t.loot.count("coupon") >= 40
	case "restartLine":
		return t.IntN(60) > 0
	}
	return false
}

// fuzzLines are the lines that requests name; some are there, some are created by the
// way.
var fuzzLines = []string{"default", "sale", "a", "0-9", strings.Repeat("z", 32)}

func (t *thrower) fill(o *operation, line string, d deal) string {
	path := o.path
	for name, value := range map[string]string{
		"{path}":      pick(t, []string{"shop.js", "wait.js", "style.css", "icon.svg", "products/mug.svg", "nothing.js"}),
		"{order_id}":  firstOf(d.order, t.loot.one(t, "order"), "0199-none"),
		"{coupon_id}": firstOf(t.loot.one(t, "coupon"), "1"),
		"{line}":      line,
		"{id}":        firstOf(t.loot.one(t, "product"), "1"),
	} {
		if name == "{id}" && strings.Contains(path, "visitors") {
			value = firstOf(t.loot.one(t, "subject"), "nobody")
		}
		path = strings.Replace(path, name, url.PathEscape(value), 1)
	}
	return path
}

func firstOf(some ...string) string {
	for _, s := range some {
		if s != "" {
			return s
		}
	}
	return ""
}

func pick[T any](t *thrower, some []T) T { return some[t.IntN(len(some))] }

func (r *request) set(name, value string) {
	r.unset(name)
	r.header = append(r.header, [2]string{name, value})
}

func (r *request) unset(name string) {
	r.header = slices.DeleteFunc(r.header, func(h [2]string) bool { return h[0] == name })
}

// bytes is the request on the wire.
func (r *request) bytes(t *thrower) []byte {
	var b strings.Builder
	target := r.path
	if r.query != "" {
		target += "?" + r.query
	}
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", r.method, target, r.version, r.host)
	for _, h := range r.header {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	switch {
	case r.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := r.body; rest != ""; {
			n := min(len(rest), 1+t.IntN(4000))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case r.body != "" || r.method != "GET" && r.method != "HEAD":
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
	default:
		b.WriteString("\r\n")
	}
	return []byte(b.String())
}

func (t *thrower) fire(r *request, times int) shot {
	raw := r.bytes(t)
	s := shot{op: r.op, admin: r.admin, method: r.method, requests: times, token: r.token, body: r.body}
	for range times {
		s.raw = append(s.raw, raw...)
	}
	return s
}

// broken is a request whose bytes were bent: whatever it means now, if anything.
func (t *thrower) broken(r *request) shot {
	raw := r.bytes(t)
	for range 1 + t.IntN(3) {
		raw = pick(t, byteBends)(t, raw)
	}
	return shot{admin: r.admin, method: r.method, raw: raw, token: r.token, body: r.body}
}

// value is JSON that fits the schema, or with the thrower's share of spoil does not.
func (t *thrower) value(s node, name string, depth int) string {
	if depth > 0 && t.Float64() < t.spoil {
		return pick(t, junkValues)
	}
	if values := s.values("enum"); len(values) > 0 {
		return quoteJSON(pick(t, values))
	}
	kind := s["type"]
	if kinds, several := kind.([]any); several {
		if kind = pick(t, kinds); t.IntN(3) == 0 {
			kind = kinds[0]
		}
	}
	switch kind {
	case "object":
		return t.object(s, depth)
	case "array":
		items := make([]string, 1+t.IntN(3)*t.IntN(2))
		for i := range items {
			items[i] = t.value(s.at("items"), name, depth+1)
		}
		return "[" + strings.Join(items, ",") + "]"
	case "integer":
		return t.integer(s, name)
	case "number":
		return pick(t, []string{"0", "1", "0.5", "200", "200", "9999.99", "10000", "1000000", "1e3"})
	case "boolean":
		return pick(t, []string{"true", "false"})
	case "null":
		return "null"
	}
	return t.text(name)
}

func (t *thrower) object(s node, depth int) string {
	properties := s.at("properties")
	required := s.values("required")
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || t.IntN(3) == 0 {
			fields = append(fields, fmt.Sprintf("%q:%s", name, t.value(properties.at(name), name, depth+1)))
		}
	}
	t.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return "{" + strings.Join(fields, ",") + "}"
}

func (t *thrower) integer(s node, name string) string {
	switch {
	case name == "product_id" && t.IntN(2) == 0:
		return firstOf(t.loot.one(t, "plenty"), "1")
	case name == "product_id" && t.IntN(8) > 0:
		return firstOf(t.loot.one(t, "product"), "1")
	case name == "quantity" && t.IntN(8) > 0:
		return fmt.Sprint(1 + t.IntN(3))
	}
	bounds := []string{"0", "1", "2", "1000"}
	for _, key := range []string{"minimum", "maximum"} {
		if v, ok := s[key].(int); ok {
			bounds = append(bounds, fmt.Sprint(v), fmt.Sprint(v-1), fmt.Sprint(v+1))
		}
	}
	return pick(t, bounds)
}

func (t *thrower) text(name string) string {
	switch name {
	case "opens_at", "closes_at":
		at := time.Now().Add(time.Duration(t.IntN(7200)-3600) * time.Second)
		return quoteJSON(pick(t, []string{at.Format(time.RFC3339), at.UTC().Format(time.RFC3339Nano), "2026-01-02", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z"}))
	case "line":
		return quoteJSON(pick(t, append([]string{"", "nowhere"}, fuzzLines...)))
	case "coupon_code":
		return quoteJSON(pick(t, []string{"", "none", t.loot.one(t, "code"), t.loot.one(t, "code")}))
	case "image_url":
		return quoteJSON(pick(t, []string{"", "/a.svg", "https://example.com/a.png", "javascript:1", "data:image/png;base64,", "/" + strings.Repeat("a", 1998+t.IntN(4))}))
	case "method":
		return quoteJSON(pick(t, []string{"card", "card", "", strings.Repeat("m", 63+t.IntN(3)), "ünïcode"}))
	case "name", "brand", "message":
		return quoteJSON(pick(t, []string{"Mug", "Kettle", "", "<script>", "a\u0000b", "\u2028", "日本語", strings.Repeat("n", 199+t.IntN(3)), strings.Repeat("m", 999+t.IntN(3))}))
	}
	return quoteJSON("text")
}

// forge bends a ticket or token.
func (t *thrower) forge(raw string) string {
	parts := strings.Split(raw, ".")
	if raw == "" || len(parts) != 3 {
		return pick(t, []string{"x", "..", "eyJhbGciOiJub25lIn0.e30.", strings.Repeat("a", 3000)})
	}
	encode := base64.RawURLEncoding.EncodeToString
	switch t.IntN(8) {
	case 0:
		return encode([]byte(`{"alg":"none","typ":"sluice-ticket+jwt"}`)) + "." + parts[1] + "."
	case 1:
		return encode([]byte(`{"alg":"HS256","kid":"../../etc/passwd"}`)) + "." + parts[1] + "." + parts[2]
	case 2:
		claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
		return parts[0] + "." + encode([]byte(strings.Replace(string(claims), `"epoch":`, `"epoch":9`, 1))) + "." + parts[2]
	case 3:
		return raw[:t.IntN(len(raw))]
	case 4:
		return raw + pick(t, []string{"=", ".", "A", " x"})
	case 5:
		return strings.ToUpper(raw)
	case 6:
		return parts[0] + "." + parts[1] + "." + parts[1]
	}
	at := t.IntN(len(raw))
	return raw[:at] + pick(t, []string{"A", "_", "-", "~", "."}) + raw[at+1:]
}
