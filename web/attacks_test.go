package web

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"sluice/admission"
	"sluice/queue"
)

// Who attacks knows everything but the secret: how keys are derived, what a ticket and
// a token look like, the public keys. forged is a JWT made by hand: genuine, for the test
// that shows it, and then changed in one thing.
type forged struct {
	alg    string
	header map[string]any
	claims map[string]any
	sign   func(signed string) []byte
	// text, if set, is what is sent of it.
	text func(header, claims, signature string) string
}

func derive(t testing.TB, label string) []byte {
	t.Helper()
	return must(hkdf.Key(sha256.New, testSecret[0], nil, "sluice "+label, 32))(t)
}

func idOf(key []byte) string {
	sum := sha256.Sum256(key)
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

func sharedBy(key []byte) func(string) []byte {
	return func(signed string) []byte {
		b, _ := jwt.SigningMethodHS256.Sign(signed, key)
		return b
	}
}

func edwards(key ed25519.PrivateKey) func(string) []byte {
	return func(signed string) []byte { return ed25519.Sign(key, []byte(signed)) }
}

// keysOf are the signing keys and ids of the test's secret.
type keysOf struct {
	shared, ticket     []byte
	private            ed25519.PrivateKey
	public             ed25519.PublicKey
	sharedID, publicID string
}

func secretKeys(t testing.TB) keysOf {
	k := keysOf{shared: derive(t, "admission"), ticket: derive(t, "ticket"), private: ed25519.NewKeyFromSeed(derive(t, "admission ed25519"))}
	k.public, _ = k.private.Public().(ed25519.PublicKey)
	k.sharedID, k.publicID = idOf(k.shared), idOf(k.public)
	return k
}

func (k keysOf) token(now time.Time) *forged {
	at := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) / 1000 }
	return &forged{
		alg: "HS256", header: map[string]any{"typ": "sluice-admission+jwt", "kid": k.sharedID},
		claims: map[string]any{"iss": "sluice", "aud": "orders:default", "sub": queue.NewID(), "jti": queue.NewID(), "epoch": 0,
			"iat": at(-2 * time.Second), "nbf": at(-time.Second), "exp": at(time.Minute)},
		sign: sharedBy(k.shared),
	}
}

func (k keysOf) ticketOf(now time.Time) *forged {
	return &forged{
		alg: "HS256", header: map[string]any{"typ": "sluice-ticket+jwt", "kid": idOf(k.ticket)},
		claims: map[string]any{"iss": "sluice", "line": "default", "epoch": 0, "sub": "eve", "jti": queue.NewID(),
			"place": now.UnixMicro(), "iat": now.Unix(), "exp": now.Unix() + 600},
		sign: sharedBy(k.ticket),
	}
}

func (f *forged) raw(t testing.TB) string {
	t.Helper()
	encode := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))(t)) }
	f.header["alg"] = f.alg
	header, claims := encode(f.header), encode(f.claims)
	signature := base64.RawURLEncoding.EncodeToString(f.sign(header + "." + claims))
	if f.text != nil {
		return f.text(header, claims, signature)
	}
	return header + "." + claims + "." + signature
}

// attack is one row: what is changed, and what comes of it. A status of 201 is what is
// no attack at all: the rows around it are refused for what they change.
type attack struct {
	name   string
	change func(k keysOf, f *forged)
	status int
	code   string
}

// theSame are the attacks on whatever is signed: the row of a token and of a ticket.
func theSame(invalid string) []attack {
	claims := func(to string) func(keysOf, *forged) {
		return func(_ keysOf, f *forged) {
			f.text = func(h, _, s string) string {
				return h + "." + base64.RawURLEncoding.EncodeToString([]byte(to)) + "." + s
			}
		}
	}
	text := func(change func(h, c, s string) string) func(keysOf, *forged) {
		return func(_ keysOf, f *forged) { f.text = change }
	}
	own := func(name string, value any) func(keysOf, *forged) {
		return func(_ keysOf, f *forged) {
			_, private, _ := ed25519.GenerateKey(nil)
			f.alg, f.sign, f.header[name], f.header["kid"] = "EdDSA", edwards(private), value, "eve"
		}
	}
	return []attack{
		{"no algorithm, no signature", func(_ keysOf, f *forged) { f.alg, f.sign = "none", func(string) []byte { return nil } }, 401, invalid},
		{"no algorithm in capitals", func(_ keysOf, f *forged) { f.alg, f.sign = "None", func(string) []byte { return nil } }, 401, invalid},
		{"no algorithm, the old signature", func(_ keysOf, f *forged) { f.alg = "none" }, 401, invalid},
		{"HS512 in the header", func(_ keysOf, f *forged) { f.alg = "HS512" }, 401, invalid},
		{"EdDSA in the header", func(_ keysOf, f *forged) { f.alg = "EdDSA" }, 401, invalid},
		{"HS256 by the public key", func(k keysOf, f *forged) { f.header["kid"], f.sign = k.publicID, sharedBy(k.public) }, 401, invalid},
		{"HS256 by the public key, own id", func(k keysOf, f *forged) { f.sign = sharedBy(k.public) }, 401, invalid},
		{"EdDSA with the id of the HS256 key", func(k keysOf, f *forged) { f.alg, f.sign = "EdDSA", edwards(k.private) }, 401, invalid},
		{"HS256 with the id of the EdDSA key", func(k keysOf, f *forged) { f.header["kid"] = k.publicID }, 401, invalid},
		{"signed with the secret itself", func(_ keysOf, f *forged) { f.sign = sharedBy(testSecret[0]) }, 401, invalid},
		{"an empty key", func(_ keysOf, f *forged) { f.sign = sharedBy(nil) }, 401, invalid},
		{"an unknown key id", func(_ keysOf, f *forged) { f.header["kid"] = "../../dev/null" }, 401, invalid},
		{"a key id that is a list", func(k keysOf, f *forged) { f.header["kid"] = []string{k.sharedID} }, 401, invalid},
		{"no key id", func(_ keysOf, f *forged) { delete(f.header, "kid") }, 401, invalid},
		{"no type", func(_ keysOf, f *forged) { delete(f.header, "typ") }, 401, invalid},
		{"the type JWT", func(_ keysOf, f *forged) { f.header["typ"] = "JWT" }, 401, invalid},
		{"jwk", own("jwk", map[string]string{"kty": "OKP"}), 401, invalid},
		{"jku", own("jku", "https://evil.test/jwks.json"), 401, invalid},
		{"x5u", own("x5u", "https://evil.test/cert.pem"), 401, invalid},
		{"x5c", own("x5c", []string{"MIIB"}), 401, invalid},
		{"crit that nobody signed", text(func(_, c, s string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","crit":["exp"]}`)) + "." + c + "." + s
		}), 401, invalid},
		{"claims that are not encoded", text(func(_, _, s string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","b64":false}`)) + `.{"sub":"eve"}.` + s
		}), 401, invalid},
		{"other claims, the old signature", claims(`{"iss":"sluice","sub":"eve"}`), 401, invalid},
		{"claims that are a list", claims(`[]`), 401, invalid},
		{"claims nested without end", claims(strings.Repeat("[", 1000)), 401, invalid},
		{"another signature", func(_ keysOf, f *forged) { f.sign = func(string) []byte { return make([]byte, 32) } }, 401, invalid},
		{"a signature cut short", text(func(h, c, s string) string { return h + "." + c + "." + s[:len(s)-2] }), 401, invalid},
		{"the last bit of the signature", text(func(h, c, s string) string { return h + "." + c + "." + s[:len(s)-1] + nextLetter(s[len(s)-1]) }), 401, invalid},
		{"no signature", text(func(h, c, _ string) string { return h + "." + c + "." }), 401, invalid},
		{"two parts", text(func(h, c, _ string) string { return h + "." + c }), 401, invalid},
		{"four parts", text(func(h, c, s string) string { return h + "." + c + "." + s + "." + s }), 401, invalid},
		{"padding", text(func(h, c, s string) string { return h + "." + c + "." + s + "=" }), 401, invalid},
		{"letters that are no ASCII", text(func(h, c, s string) string { return h + ".é" + c + "." + s }), 401, invalid},
		{"letters that look the same", text(func(h, c, s string) string { return strings.Replace(h, "e", "е", 1) + "." + c + "." + s }), 401, invalid},
		{"huge", text(func(h, c, s string) string { return h + "." + c + strings.Repeat("A", 12_000) + "." + s }), 401, invalid},
		{"no issuer", func(_ keysOf, f *forged) { delete(f.claims, "iss") }, 401, invalid},
		{"another issuer", func(_ keysOf, f *forged) { f.claims["iss"] = "https://evil.test" }, 401, invalid},
		{"a list of issuers", func(_ keysOf, f *forged) { f.claims["iss"] = []string{"sluice"} }, 401, invalid},
		{"no subject", func(_ keysOf, f *forged) { delete(f.claims, "sub") }, 401, invalid},
		{"no id", func(_ keysOf, f *forged) { delete(f.claims, "jti") }, 401, invalid},
		{"a negative epoch", func(_ keysOf, f *forged) { f.claims["epoch"] = -1 }, 401, invalid},
		{"no expiry", func(_ keysOf, f *forged) { delete(f.claims, "exp") }, 401, invalid},
		{"an expiry as text", func(_ keysOf, f *forged) { f.claims["exp"] = "never" }, 401, invalid},
	}
}

// nextLetter differs from a letter of base64 in the lowest bit alone, which a signature
// of 32 bytes leaves unused.
func nextLetter(b byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, b)^1])
}

// The attacks on tokens, over HTTP, on a server that accepts both algorithms. What is
// refused has sold nothing, given nothing out, and spent nothing.
func TestAttacksWithTokens(t *testing.T) {
	accepts := func(c *Config) { c.Tokens = must(admission.NewTokens(testSecret, queue.EdDSA, queue.HS256))(t) }
	inBubble(t, setup{orders: withOrders(), config: accepts}, func(t *testing.T, f *fixture) {
		k, now := secretKeys(t), f.watch.Now()
		seconds := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) / 1000 }
		rows := append(theSame("token_invalid"), []attack{
			{"HS256, and nothing changed", func(keysOf, *forged) {}, 201, ""},
			{"EdDSA, and nothing changed", func(k keysOf, f *forged) { f.alg, f.header["kid"], f.sign = "EdDSA", k.publicID, edwards(k.private) }, 201, ""},
			{"the key of tickets", func(k keysOf, f *forged) { f.header["kid"], f.sign = idOf(k.ticket), sharedBy(k.ticket) }, 401, "token_invalid"},
			{"the type of tickets", func(_ keysOf, f *forged) { f.header["typ"] = "sluice-ticket+jwt" }, 401, "token_invalid"},
			{"no audience", func(_ keysOf, f *forged) { delete(f.claims, "aud") }, 401, "token_invalid"},
			{"another audience", func(_ keysOf, f *forged) { f.claims["aud"] = "tickets:default" }, 401, "token_invalid"},
			{"a list of audiences", func(_ keysOf, f *forged) { f.claims["aud"] = []string{"orders:side", "orders:default"} }, 401, "token_invalid"},
			{"a line of another tenant", func(_ keysOf, f *forged) { f.claims["aud"] = "orders:default/../vip" }, 401, "token_invalid"},
			{"an expiry before its use", func(_ keysOf, f *forged) { f.claims["exp"] = f.claims["nbf"] }, 401, "token_invalid"},
			{"expired", func(_ keysOf, f *forged) { f.claims["exp"] = seconds(-time.Millisecond) }, 401, "token_expired"},
			{"early", func(_ keysOf, f *forged) { f.claims["nbf"] = seconds(51 * time.Millisecond) }, 425, "token_too_early"},
			{"an empty line's, for the product of a busy one", func(_ keysOf, f *forged) { f.claims["aud"] = "orders:side" }, 403, "token_other_line"},
			{"of a line that is not here", func(_ keysOf, f *forged) { f.claims["aud"] = "orders:nowhere" }, 503, "queue_unavailable"},
		}...)
		product, coupon := f.product(1000, DefaultLine), f.coupon(1000, DefaultLine)
		sold := int64(0)
		for _, row := range rows {
			forged := k.token(now)
			row.change(k, forged)
			header := "Authorization: Bearer " + forged.raw(t)
			place := f.public("POST", "/orders", cart(product, 1), jsonType, header)
			claim := f.public("POST", claimOf(coupon), "", header)
			if row.status == 201 {
				place.want(201)
				claim.want(201)
				sold++
				continue
			}
			for _, a := range []answered{place, claim} {
				if a.status != row.status {
					t.Errorf("%s: %s: status %d: %s", row.name, a.asked, a.status, a.body)
				} else {
					a.problem(row.status, row.code)
				}
			}
			if row.status == 401 {
				f.public("GET", "/orders/x", "", header).want(map[bool]int{true: 404, false: 401}[row.code == "token_expired"])
			}
		}
		f.sold(t, sold)
	})
}

// The attacks with tickets: what is refused gives no place, and takes nobody's.
func TestAttacksWithTickets(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		k, now := secretKeys(t), f.watch.Now()
		f.enter() // somebody waits, whose place nobody may take
		rows := append(theSame("ticket_invalid"), []attack{
			{"the key of tokens", func(k keysOf, f *forged) { f.header["kid"], f.sign = k.sharedID, sharedBy(k.shared) }, 401, "ticket_invalid"},
			{"the key of EdDSA tokens", func(k keysOf, f *forged) { f.alg, f.header["kid"], f.sign = "EdDSA", k.publicID, edwards(k.private) }, 401, "ticket_invalid"},
			{"the type of tokens", func(_ keysOf, f *forged) { f.header["typ"] = "sluice-admission+jwt" }, 401, "ticket_invalid"},
			{"another line", func(_ keysOf, f *forged) { f.claims["line"] = "side" }, 401, "ticket_invalid"},
			{"no place", func(_ keysOf, f *forged) { delete(f.claims, "place") }, 401, "ticket_invalid"},
			{"a negative place", func(_ keysOf, f *forged) { f.claims["place"] = -1 }, 401, "ticket_invalid"},
			{"expired", func(_ keysOf, f *forged) { f.claims["exp"] = now.Unix() }, 401, "ticket_expired"},
		}...)
		for _, row := range rows {
			forged := k.ticketOf(now)
			row.change(k, forged)
			h := ticketHeader(forged.raw(t))
			a := f.public("GET", "/queue/position", "", h)
			if a.status != row.status {
				t.Errorf("%s: status %d: %s", row.name, a.status, a.body)
				continue
			}
			a.problem(row.status, row.code)
			if row.code == "ticket_invalid" {
				f.public("POST", "/queue/leave", "", h).problem(401, "ticket_invalid")
			}
		}
		waitingIs(t, f, 1)
		// And nothing changed at all: a place that the line forgot comes back.
		f.public("GET", "/queue/position", "", ticketHeader(k.ticketOf(now).raw(t))).want(200)
		waitingIs(t, f, 2)
	})
}

// Headers that are there twice, or in two places, do not let one check see another
// thing than the next.
func TestAttacksWithTwoOfThem(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		product := f.product(10, "")
		ticket, token := f.admitted()
		order := func(h ...string) answered {
			return f.public("POST", "/orders", cart(product, 1), append(h, jsonType)...)
		}
		order(bearerToken("x"), bearerToken(token)).problem(401, "token_invalid")
		order(bearerToken(token+", Bearer x")).problem(401, "token_invalid")
		order("Cookie: token="+token, "X-Queue-Ticket: "+token).problem(401, "token_missing")
		f.public("POST", "/orders?access_token="+token, cart(product, 1), jsonType).problem(401, "token_missing")
		f.sold(t, 0)
		// The header wins over the cookie, also a bad one over a good one.
		f.public("GET", "/queue/position", "", ticketHeader("x"), "Cookie: sluice_ticket="+ticket).problem(401, "ticket_invalid")
		f.public("GET", "/queue/position", "", "Cookie: sluice_ticket_side="+ticket).problem(401, "ticket_missing")
		order(bearerToken(token)).want(201)
		f.sold(t, 1)
	})
}

// A ticket whose turn is over, however it ended, is told so and never gets a place
// again; entering with it is the tail.
func TestAttacksWithTicketsThatEnded(t *testing.T) {
	const ttl = 10 * time.Second
	for state, end := range map[queue.State]func(f *fixture) string{
		queue.Spent: func(f *fixture) string {
			ticket, token := f.admitted()
			f.public("POST", "/orders", cart(f.product(1, ""), 1), jsonType, bearerToken(token)).want(201)
			claims := must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(f.t)
			if err := f.line.Spend(context.Background(), []queue.Completion{{Subject: claims.Subject, TicketID: claims.ID}}); err != nil {
				f.t.Fatal(err)
			}
			return ticket
		},
		queue.Expired: func(f *fixture) string {
			ticket, _ := f.admitted()
			time.Sleep(ttl)
			return ticket
		},
		queue.Left: func(f *fixture) string {
			ticket := f.enter()
			f.public("POST", "/queue/leave", "", ticketHeader(ticket)).want(204)
			return ticket
		},
		queue.Removed: func(f *fixture) string {
			ticket := f.enter()
			claims := must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(f.t)
			f.admin("DELETE", "/admin/api/lines/default/visitors/"+claims.Subject, "", jsonType).want(204)
			return ticket
		},
	} {
		t.Run(string(state), func(t *testing.T) {
			inBubble(t, setup{orders: withOrders(), queue: func(o *queue.Options) { o.AdmissionTTL = ttl }}, func(t *testing.T, f *fixture) {
				ticket := end(f)
				f.enter() // somebody else, who must not be passed
				for range 3 {
					a := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing()
					if a.State != string(state) || a.Token != "" || a.Position != 0 {
						t.Errorf("%+v", a)
					}
					f.admit()
					time.Sleep(2 * ttl)
				}
				f.enter()
				if a := f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(201).standing(); a.Position != a.Waiting {
					t.Errorf("entering again is at %d of %d", a.Position, a.Waiting)
				}
				f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
			})
		})
	}
}

// Epochs: what was given out for an earlier sale is dead, by name; a later one was
// signed by an instance that knows more, and is believed.
func TestAttacksWithEpochs(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		product, coupon := f.product(10, ""), f.coupon(10, "")
		ticket, token := f.admitted()
		f.admin("POST", "/admin/api/lines/default/restart", "{}", jsonType).want(200)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(401, "ticket_expired")
		f.public("POST", "/orders", cart(product, 1), jsonType, bearerToken(token)).problem(401, "token_expired")
		f.public("POST", claimOf(coupon), "", bearerToken(token)).problem(401, "token_expired")
		if a := f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(201).standing(); a.Position != 1 {
			t.Errorf("with yesterday's ticket: %+v", a)
		}
		k, now := secretKeys(t), f.watch.Now()
		later := k.token(now)
		later.claims["epoch"] = now.Add(time.Hour).UnixMilli()
		f.public("POST", "/orders", cart(product, 1), jsonType, "Authorization: Bearer "+later.raw(t)).want(201)
		f.sold(t, 1)
	})
}

// Claims that are there twice: whatever a parser makes of it, the signature is ours or
// it is refused.
func TestAttacksWithDuplicateClaims(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		product := f.product(10, DefaultLine)
		_, token := f.admitted()
		parts := strings.Split(token, ".")
		payload := string(must(base64.RawURLEncoding.DecodeString(parts[1]))(t))
		for _, twice := range []string{
			strings.Replace(payload, `{`, `{"sub":"eve",`, 1),
			strings.Replace(payload, `}`, `,"jti":"another"}`, 1),
			strings.Replace(payload, `{`, `{"aud":"orders:default",`, 1),
			payload + " ",
		} {
			raw := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(twice)) + "." + parts[2]
			f.public("POST", "/orders", cart(product, 1), jsonType, bearerToken(raw)).problem(401, "token_invalid")
		}
		header := string(must(base64.RawURLEncoding.DecodeString(parts[0]))(t))
		for _, twice := range []string{
			strings.Replace(header, `{`, `{"alg":"none",`, 1), strings.Replace(header, `}`, `,"alg":"none"}`, 1),
			fmt.Sprintf(`{"alg":"HS256","ALG":"none","typ":"sluice-admission+jwt","kid":%q}`, secretKeys(t).sharedID),
		} {
			raw := base64.RawURLEncoding.EncodeToString([]byte(twice)) + "." + parts[1] + "." + parts[2]
			f.public("POST", "/orders", cart(product, 1), jsonType, bearerToken(raw)).problem(401, "token_invalid")
		}
		f.sold(t, 0)
	})
}
