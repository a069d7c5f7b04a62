package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"sluice/admission"
	"sluice/queue"
)

func signedWith(t testing.TB, algorithms ...queue.Algorithm) func(*Config) {
	return func(c *Config) {
		secrets := append([][]byte{[]byte("a new secret, which signs by now")}, testSecret...)
		c.Tokens = must(admission.NewTokens(secrets, algorithms...))(t)
	}
}

// Another service verifies an admission token with a library of its own choice and
// nothing but the address of our keys.
func TestAnotherServiceVerifiesATokenByOurKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{config: signedWith(t, queue.EdDSA, queue.HS256)})
	var keysAsked string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keysAsked = r.URL.Path
		a := f.public(r.Method, r.URL.Path, "")
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
	}))
	defer site.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{site.URL + "/.well-known/jwks.json"},
		keyfunc.Override{Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(raw string) (jwt.MapClaims, error) {
		claims := jwt.MapClaims{}
		_, err := jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithIssuer("sluice"),
			jwt.WithAudience("orders:default"), jwt.WithExpirationRequired()).ParseWithClaims(raw, claims, keys.Keyfunc)
		return claims, err
	}
	now := time.Now().Truncate(time.Millisecond)
	a := queue.Admission{Line: DefaultLine, Subject: "ann", TicketID: "ticket", Place: 1,
		AdmittedAt: now, NotBefore: now.Add(-time.Second), ExpiresAt: now.Add(time.Minute)}
	claims, err := verify(must(f.server.cfg.Tokens.Mint(a))(t))
	if err != nil || claims["sub"] != "ann" || claims["jti"] != "ticket" {
		t.Errorf("our token: %v, %v", claims, err)
	}
	if keysAsked != "/.well-known/jwks.json" {
		t.Errorf("asked %q", keysAsked)
	}
	// The secret before is still published, what is signed by another is not.
	before := must(admission.NewTokens(testSecret, queue.EdDSA))(t)
	if _, err := verify(must(before.Mint(a))(t)); err != nil {
		t.Errorf("a token of the secret before: %v", err)
	}
	foreign := must(admission.NewTokens([][]byte{[]byte("another secret that is 32 bytes.")}, queue.EdDSA))(t)
	old := must(admission.NewTokens(testSecret, queue.HS256))(t)
	a.Line = "side"
	for name, raw := range map[string]string{
		"another secret": must(foreign.Mint(a))(t), "HS256": must(old.Mint(a))(t), "another line": must(before.Mint(a))(t),
	} {
		if claims, err := verify(raw); err == nil {
			t.Errorf("%s: taken: %v", name, claims)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	t.Parallel()
	newFixture(t, setup{}).public("GET", "/.well-known/jwks.json", "").problem(404, "not_found")
	for name, s := range map[string]setup{"queue": {}, "all": {orders: withOrders()}} {
		role := s
		role.config = signedWith(t, queue.HS256, queue.EdDSA) // accepted already, and not signed with yet
		a := newFixture(t, role).public("GET", "/.well-known/jwks.json", "").want(200)
		if a.header.Get("Cache-Control") != jwksCache || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", name, a.header)
		}
		var set struct{ Keys []map[string]string }
		if err := json.Unmarshal([]byte(a.body), &set); err != nil || len(set.Keys) != 2 {
			t.Fatalf("%s: %s, %v", name, a.body, err)
		}
		for _, key := range set.Keys {
			if len(key) != 6 || key["kty"] != "OKP" || key["crv"] != "Ed25519" || key["alg"] != "EdDSA" || key["use"] != "sig" ||
				len(key["x"]) != 43 || key["kid"] == "" {
				t.Errorf("%s: %v", name, key)
			}
		}
	}
}
