package web

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/valyala/fasthttp"

	"sluice/identity"
	"sluice/queue"
)

// named are the visitors whom a proxy names; the requests of the tests come from
// 0.0.0.0.
func named(c *Config) {
	c.Identity, c.TrustedProxies = IdentityHeader, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/32")}
}

func user(name string) string { return headerUserID + ": " + name }

// shop signs logins.
type shop struct {
	private ed25519.PrivateKey
	logins  *identity.Logins
}

func newShop(t testing.TB) shop {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "login.pem")
	raw := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(public))(t)})
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return shop{private, must(identity.New(identity.Options{Key: path}))(t)}
}

func (s shop) config(c *Config) { c.Identity, c.Logins = IdentityJWT, s.logins }

func (s shop) login(t testing.TB, subject string, until time.Time) string {
	t.Helper()
	claims := jwt.MapClaims{"sub": subject, "exp": until.Unix()}
	return "Authorization: Bearer " + must(jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims).SignedString(s.private))(t)
}

// One place for a visitor, whatever device they use, and no ticket of somebody else's.
func TestOneVisitorOnePlace(t *testing.T) {
	login := newShop(t)
	for name, mode := range map[string]struct {
		config func(*Config)
		as     func(testing.TB, string) string
	}{
		IdentityHeader: {named, func(_ testing.TB, name string) string { return user(name) }},
		IdentityJWT: {login.config, func(t testing.TB, name string) string {
			return login.login(t, name, time.Now().Add(time.Hour))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup{config: mode.config}, func(t *testing.T, f *fixture) {
				ann, bob := mode.as(t, "ann"), mode.as(t, "bob:with {odd} letters, ü")
				phone := f.public("POST", "/queue/enter", "", ann).want(201).standing()
				other := f.public("POST", "/queue/enter", "", bob).want(201).standing()
				laptop := f.public("POST", "/queue/enter", "", ann).want(200).standing()
				if other.Position != 2 || laptop.Position != 1 || !laptop.EnteredAt.Equal(phone.EnteredAt) {
					t.Errorf("positions %d and %d", other.Position, laptop.Position)
				}
				first := must(f.tickets.Verify(phone.Ticket, DefaultLine, f.watch.Now()))(t)
				second := must(f.tickets.Verify(laptop.Ticket, DefaultLine, f.watch.Now()))(t)
				if first.ID != second.ID || first.Place != second.Place || first.Subject != "ann" {
					t.Errorf("two places: %+v and %+v", first, second)
				}
				// Each with their own ticket alone. Entering with somebody else's is as
				// if with none.
				f.public("GET", "/queue/position", "", bob, ticketHeader(other.Ticket)).want(200)
				f.public("GET", "/queue/position", "", bob, ticketHeader(phone.Ticket)).problem(401, "ticket_invalid")
				f.public("POST", "/queue/leave", "", bob, ticketHeader(phone.Ticket)).problem(401, "ticket_invalid")
				if a := f.public("POST", "/queue/enter", "", bob, ticketHeader(phone.Ticket)).want(200).standing(); a.Position != 2 {
					t.Errorf("with another's ticket bob stands at %d", a.Position)
				}
				stolen := f.public("POST", "/queue/enter", "", mode.as(t, "cat"), ticketHeader(phone.Ticket)).want(201).standing()
				if stolen.Position != 3 {
					t.Errorf("with another's ticket a newcomer stands at %d", stolen.Position)
				}
				// Without a word of who is asking a ticket is good for nothing.
				for _, h := range []headers{{}, {ticketHeader(phone.Ticket)}} {
					f.public("POST", "/queue/enter", "", h...).problem(401, "identity_missing")
					f.public("POST", "/queue/enter", "no JSON", h...).problem(401, "identity_missing")
					f.public("GET", "/queue/position", "", h...).problem(401, "identity_missing")
					f.public("POST", "/queue/leave", "", h...).problem(401, "identity_missing")
				}
				f.public("GET", "/queue/status", "").want(200)
				// After an end it is the tail, also for another device.
				f.public("POST", "/queue/leave", "", ann, ticketHeader(phone.Ticket)).want(204)
				if a := f.public("POST", "/queue/enter", "", ann).want(201).standing(); a.Position != 3 {
					t.Errorf("after leaving ann stands at %d", a.Position)
				}
				waitingIs(t, f, 3)
				if log := f.log.String(); strings.Contains(log, "odd") || strings.Contains(log, phone.Ticket) || strings.Contains(log, "eyJ") {
					t.Error("a name, login or ticket is in the log")
				}
			})
		})
	}
}

// A ticket that another has lost for good is no key to their place either.
func TestAnExpiredTicketOfAnother(t *testing.T) {
	inBubble(t, setup{config: named, queue: func(o *queue.Options) { o.TicketTTL = time.Hour }}, func(t *testing.T, f *fixture) {
		ticket := f.public("POST", "/queue/enter", "", user("ann")).want(201).standing().Ticket
		time.Sleep(time.Hour)
		f.public("POST", "/queue/leave", "", user("bob"), ticketHeader(ticket)).problem(401, "ticket_invalid")
		f.public("GET", "/queue/position", "", user("bob"), ticketHeader(ticket)).problem(401, "ticket_invalid")
		f.public("POST", "/queue/leave", "", user("ann"), ticketHeader(ticket)).want(204)
	})
}

// Who a proxy says is asking is believed of the trusted ones alone, and only if it
// says one thing.
func TestNamesAreBelievedOfTrustedProxies(t *testing.T) {
	inBubble(t, setup{config: named}, func(t *testing.T, f *fixture) {
		for name, h := range map[string]headers{
			"none": {}, "empty": {user("")}, "twice": {user("ann"), user("bob")}, "twice the same": {user("ann"), user("ann")},
			"too long": {user(strings.Repeat("a", queue.MaxSubject+1))}, "no UTF-8": {user("\xff")}, "a control character": {user("a\u0085")},
			"another header": {"X-User: ann", "X_User_Id: ann", "X-Forwarded-User: ann", "Authorization: Bearer ann"},
		} {
			t.Log(name)
			f.public("POST", "/queue/enter", "", h...).problem(401, "identity_missing")
		}
		f.public("POST", "/queue/enter", "", user(strings.Repeat("a", queue.MaxSubject))).want(201)
		f.public("POST", "/queue/enter", "", "x-user-id: ann").want(201)
		waitingIs(t, f, 2)

		for from, status := range map[string]int{"0.0.0.0": 200, "0.0.0.1": 401, "::1": 401, "::ffff:0.0.0.0": 200} {
			ctx := newRequestCtx()
			ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(from)}, nil)
			ctx.Request.SetRequestURI("/queue/enter")
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.Header.Set(headerUserID, "ann")
			ctx.Request.Header.Set("X-Forwarded-For", "0.0.0.0") // anybody can say that
			f.server.public.Handler()(ctx)
			if got := ctx.Response.StatusCode(); got != status {
				t.Errorf("from %s: %d instead of %d", from, got, status)
			}
		}
		waitingIs(t, f, 2)
	})
}

// On order routes the token says who orders; a proxy that says another is right.
func TestTokenOfAnotherVisitor(t *testing.T) {
	inBubble(t, setup{config: named, orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		coupon := f.coupon(5, "")
		ticket := f.public("POST", "/queue/enter", "", user("ann")).want(201).standing().Ticket
		f.admit()
		a := f.public("GET", "/queue/position", "", user("ann"), ticketHeader(ticket)).want(200).standing()
		time.Sleep(time.Duration(a.UsableInMS) * time.Millisecond)
		token := bearerToken(a.Token)
		for _, h := range []headers{{user("bob")}, {user("Ann")}, {user("ann"), user("bob")}, {user("bob"), user("ann")}} {
			h = append(h, token)
			f.public("POST", "/orders", cart(id, 1), append(h, jsonType)...).problem(403, "token_other_visitor")
			f.public("POST", fmt.Sprintf("/coupons/%d/claim", coupon), "", h...).problem(403, "token_other_visitor")
			f.public("GET", "/orders/x", "", h...).problem(403, "token_other_visitor")
			f.public("POST", "/orders/x/payment", `{"method":"card"}`, append(h, jsonType)...).problem(403, "token_other_visitor")
		}
		f.sold(t, 0)
		f.public("POST", "/orders", cart(id, 1), jsonType, token).want(201) // identity is not asked for again
		f.public("POST", "/orders", cart(id, 1), jsonType, token, user("ann")).want(200)
		time.Sleep(200 * time.Second) // the token is over; what follows up is asked the same
		f.public("POST", "/orders", cart(id, 1), jsonType, token, user("bob")).problem(403, "token_other_visitor")
	})
}

// From elsewhere than the proxy the header says nothing: not even that it is another.
func TestNameOfNobodyOnOrders(t *testing.T) {
	untrusted := func(c *Config) {
		named(c)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	}
	inBubble(t, setup{config: untrusted, orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		f.public("POST", "/queue/enter", "", user("ann")).problem(401, "identity_missing")
		now := f.watch.Now().Truncate(time.Millisecond)
		token := must(f.tokens.Mint(queue.Admission{Line: DefaultLine, Subject: "ann", TicketID: "b", Place: 1,
			AdmittedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Minute)}))(t)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token), user("bob")).want(201)
	})
}

// What is wrong with a login is told to those who make them, and nothing is let in.
func TestLoginsRefused(t *testing.T) {
	login := newShop(t)
	inBubble(t, setup{config: login.config}, func(t *testing.T, f *fixture) {
		in := func(d time.Duration) time.Time { return f.watch.Now().Add(d) }
		token := strings.TrimPrefix(login.login(t, "ann", in(time.Hour)), "Authorization: ")
		for name, h := range map[string]headers{
			"a login token is needed":     {},
			"Bearer <token>":              {"Authorization: Basic YTpi"},
			"is no JWT":                   {"Authorization: Bearer x"},
			"expired":                     {login.login(t, "ann", in(-31*time.Second))},
			"signature":                   {"Authorization: " + token[:len(token)-8] + "AAAAAAAA"},
			"key that is not known here":  {bearerToken(must(f.tokens.Mint(someAdmission(f)))(t))},
			"the visitor must be 1 to":    {login.login(t, "", in(time.Hour))},
			"without control characters":  {login.login(t, "a\nb", in(time.Hour))},
			"128 bytes":                   {login.login(t, strings.Repeat("a", 129), in(time.Hour))},
			"A login token is needed: Au": {"Authorization: " + strings.TrimPrefix(token, "Bearer ")},
		} {
			a := f.public("POST", "/queue/enter", "", h...).problem(401, "identity_missing")
			if !strings.Contains(strings.ToLower(a.body), strings.ToLower(name)) && !strings.Contains(a.body, `Bearer \u003ctoken`) {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		f.public("POST", "/queue/enter", "", login.login(t, "ann", in(-29*time.Second))).want(201) // the shop's clock is its own
		waitingIs(t, f, 1)
	})
}

func someAdmission(f *fixture) queue.Admission {
	now := f.watch.Now().Truncate(time.Millisecond)
	return queue.Admission{Line: DefaultLine, Subject: "a", TicketID: "b", Place: 1,
		AdmittedAt: now, NotBefore: now.Add(-time.Second), ExpiresAt: now.Add(time.Minute)}
}

// Before anybody's key is here nobody is sent to log in again.
func TestLoginsWithoutKeys(t *testing.T) {
	nobodyFetches := func(c *Config) { // made where time is virtual
		c.Identity, c.Logins = IdentityJWT, must(identity.New(identity.Options{JWKS: "http://127.0.0.1:1/"}))(t)
	}
	inBubble(t, setup{config: nobodyFetches}, func(t *testing.T, f *fixture) {
		login := newShop(t).login(t, "ann", f.watch.Now().Add(time.Hour))
		began := time.Now()
		f.public("POST", "/queue/enter", "", login).problem(503, "queue_unavailable")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestIdentityConfig(t *testing.T) {
	f := newFixture(t, setup{})
	for name, change := range map[string]func(*Config){
		"unknown": func(c *Config) { c.Identity = "fingerprint" },
		"header":  func(c *Config) { c.Identity = IdentityHeader },
		"jwt":     func(c *Config) { c.Identity = IdentityJWT },
	} {
		cfg := f.server.cfg
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// One subject that enters fifty times at once has one place, and is told once that it
// is new.
func TestOnePlaceUnderConcurrency(t *testing.T) {
	inBubble(t, setup{config: named}, func(t *testing.T, f *fixture) {
		const times = 50
		answers := make(chan answered, times)
		for range times {
			go func() { answers <- f.public("POST", "/queue/enter", "", user("ann")) }()
		}
		created, ids := 0, make(map[string]bool)
		for range times {
			a := <-answers
			if a.status == 201 {
				created++
			}
			ids[must(f.tickets.Verify(a.standing().Ticket, DefaultLine, f.watch.Now()))(t).ID] = true
		}
		if created != 1 || len(ids) != 1 {
			t.Errorf("%d new places, %d tickets", created, len(ids))
		}
		if snapshot := must(f.line.Snapshot(context.Background()))(t); snapshot.Waiting != 1 {
			t.Errorf("%d wait", snapshot.Waiting)
		}
	})
}
