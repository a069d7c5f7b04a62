package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// signers are one key of each kind; making them takes a while.
var signers = sync.OnceValue(func() map[string]crypto.Signer {
	all := make(map[string]crypto.Signer)
	for name, bits := range map[string]int{"rsa": 2048, "other rsa": 2048, "weak rsa": 1024} {
		all[name], _ = rsa.GenerateKey(rand.Reader, bits)
	}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521(), "p224": elliptic.P224()} {
		all[name], _ = ecdsa.GenerateKey(curve, rand.Reader)
	}
	_, all["ed25519"], _ = ed25519.GenerateKey(nil)
	return all
})

func publicPEM(t testing.TB, name string) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(signers()[name].Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func file(t testing.TB, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newLogins(t testing.TB, o Options) *Logins {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// login is a token of the shop, unless a test changes it.
type login struct {
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims jwt.MapClaims
}

func genuine(method jwt.SigningMethod, key any) login {
	return login{method, key, map[string]any{}, jwt.MapClaims{"sub": "ann", "exp": now.Unix() + 600, "iss": "https://shop.test", "aud": "queue"}}
}

func (l login) raw(t testing.TB) string {
	t.Helper()
	token := jwt.NewWithClaims(l.method, l.claims)
	for k, v := range l.header {
		token.Header[k] = v
	}
	raw, err := token.SignedString(l.key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLoginsOfOneKey(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), minSecret)
	methods := map[string]struct {
		method jwt.SigningMethod
		key    any
		of     string // the file that believes it
	}{
		"RS256": {jwt.SigningMethodRS256, signers()["rsa"], "rsa"}, "RS512": {jwt.SigningMethodRS512, signers()["rsa"], "rsa"},
		"PS256": {jwt.SigningMethodPS256, signers()["rsa"], "rsa"}, "ES256": {jwt.SigningMethodES256, signers()["p256"], "p256"},
		"ES384": {jwt.SigningMethodES384, signers()["p384"], "p384"}, "ES512": {jwt.SigningMethodES512, signers()["p521"], "p521"},
		"EdDSA": {jwt.SigningMethodEdDSA, signers()["ed25519"], "ed25519"}, "HS256": {jwt.SigningMethodHS256, secret, "secret"},
		"another RSA key":        {jwt.SigningMethodRS256, signers()["other rsa"], ""},
		"no algorithm":           {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, ""},
		"HS384":                  {jwt.SigningMethodHS384, secret, ""},
		"HS256 by a public key":  {jwt.SigningMethodHS256, publicPEM(t, "rsa"), ""},
		"HS256 by its bytes":     {jwt.SigningMethodHS256, pemBytes(publicPEM(t, "ed25519")), ""},
		"HS256 by a line less":   {jwt.SigningMethodHS256, bytes.TrimSpace(publicPEM(t, "rsa")), ""},
		"HS256 by an empty text": {jwt.SigningMethodHS256, []byte{}, ""},
	}
	files := map[string][]byte{"secret": append(bytes.Clone(secret), '\n')}
	for _, name := range []string{"rsa", "p256", "p384", "p521", "ed25519"} {
		files[name] = publicPEM(t, name)
	}
	for of, raw := range files {
		logins := newLogins(t, Options{Key: file(t, raw)})
		for name, m := range methods {
			got, err := logins.Subject(genuine(m.method, m.key).raw(t), now)
			if why := (*Refusal)(nil); m.of == of && (err != nil || got != "ann") || m.of != of && (!errors.As(err, &why) || got != "") {
				t.Errorf("%s with the file %s: %q, %v", name, of, got, err)
			}
		}
	}
}

func pemBytes(raw []byte) []byte {
	block, _ := pem.Decode(raw)
	return block.Bytes
}

func TestLoginsRefuseClaims(t *testing.T) {
	logins := newLogins(t, Options{Key: file(t, publicPEM(t, "ed25519")), Issuer: "https://shop.test", Audience: "queue"})
	for name, c := range map[string]struct {
		change func(*login)
		reason string // empty: it is believed
	}{
		"unchanged":                   {func(*login) {}, ""},
		"a list of audiences":         {func(l *login) { l.claims["aud"] = []string{"other", "queue"} }, ""},
		"expired, by the clocks only": {func(l *login) { l.claims["exp"] = now.Unix() - 29 }, ""},
		"expired":                     {func(l *login) { l.claims["exp"] = now.Unix() - 30 }, "it has expired"},
		"no expiry":                   {func(l *login) { delete(l.claims, "exp") }, "a claim is missing"},
		"early, by the clocks only":   {func(l *login) { l.claims["nbf"] = now.Unix() + 30 }, ""},
		"early":                       {func(l *login) { l.claims["nbf"] = now.Unix() + 31 }, "it is not valid yet"},
		"another issuer":              {func(l *login) { l.claims["iss"] = "https://evil.test" }, "it is of another issuer"},
		"no issuer":                   {func(l *login) { delete(l.claims, "iss") }, "a claim is missing"},
		"another audience":            {func(l *login) { l.claims["aud"] = "other" }, "it is for another audience"},
		"no audience":                 {func(l *login) { delete(l.claims, "aud") }, "a claim is missing"},
		"a subject of no text":        {func(l *login) { l.claims["sub"] = 7 }, "it is no JWT"},
		"crit":                        {func(l *login) { l.header["crit"] = []string{"b64"}; l.header["b64"] = false }, "its header has crit"},
		"too long":                    {func(l *login) { l.claims["x"] = strings.Repeat("x", maxLogin) }, "it is longer than 8192 bytes"},
		"a key it brings": {func(l *login) {
			_, l.key, _ = ed25519.GenerateKey(nil)
			l.header["jku"] = "https://evil.test"
		}, "its signature or algorithm is not one that is accepted"},
	} {
		l := genuine(jwt.SigningMethodEdDSA, signers()["ed25519"])
		c.change(&l)
		got, err := logins.Subject(l.raw(t), now)
		why := (*Refusal)(nil)
		if c.reason == "" && (err != nil || got != "ann") || c.reason != "" && (!errors.As(err, &why) || why.Reason != c.reason || got != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, raw := range []string{"", ".", "..", "a.b.c", "a.b.c.d", "\xff.\xff.\xff"} {
		if why := (*Refusal)(nil); !errors.As(second(logins.Subject(raw, now)), &why) {
			t.Errorf("%q: %v", raw, why)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// What cannot be a key for logins is refused at start; above all a public key in a form
// that is not understood must not become a secret that everybody knows.
func TestNewRefusesKeys(t *testing.T) {
	der := func(name string) []byte { return pemBytes(publicPEM(t, name)) }
	private, err := x509.MarshalPKCS8PrivateKey(signers()["ed25519"])
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, signers()["rsa"].Public(), signers()["rsa"])
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"an empty file":        {},
		"a short secret":       bytes.Repeat([]byte("s"), minSecret-1),
		"a padded one":         append(bytes.Repeat([]byte("s"), minSecret-1), "\r\n\n"...),
		"a weak RSA key":       publicPEM(t, "weak rsa"),
		"an unusual curve":     publicPEM(t, "p224"),
		"a private key":        pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"two keys":             append(publicPEM(t, "rsa"), publicPEM(t, "p256")...),
		"a damaged PEM":        publicPEM(t, "rsa")[:200],
		"rubbish in PEM":       pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}),
		"RSA in DER":           der("rsa"),
		"Ed25519 in DER":       der("ed25519"),
		"PKCS1 in DER":         x509.MarshalPKCS1PublicKey(signers()["rsa"].Public().(*rsa.PublicKey)),
		"a certificate in DER": certificate,
		"SSH":                  []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1a ann@shop"),
		"a set":                jwks(t, jwk(t, "a", "rsa")),
	} {
		if _, err := New(Options{Key: file(t, raw)}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, raw := range map[string][]byte{
		"a certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"PKCS1":         pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(signers()["rsa"].Public().(*rsa.PublicKey))}),
	} {
		logins := newLogins(t, Options{Key: file(t, raw)})
		if got, err := logins.Subject(genuine(jwt.SigningMethodRS256, signers()["rsa"]).raw(t), now); got != "ann" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]Options{
		"nothing": {}, "both": {Key: file(t, publicPEM(t, "rsa")), JWKS: "https://shop.test"}, "no file": {Key: "/nowhere/at/all"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// jwk publishes a key; with changes to what is published.
func jwk(t testing.TB, id, name string, changes ...func(*jwkset.JWKMarshal)) jwkset.JWKMarshal {
	t.Helper()
	made, err := jwkset.NewJWKFromKey(signers()[name].Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}})
	if err != nil {
		t.Fatal(err)
	}
	m := made.Marshal()
	for _, change := range changes {
		change(&m)
	}
	return m
}

func jwks(t testing.TB, keys ...jwkset.JWKMarshal) []byte {
	t.Helper()
	raw, err := json.Marshal(jwkset.JWKSMarshal{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func by(id, name string, method jwt.SigningMethod) login {
	l := genuine(method, signers()[name])
	if id != "" {
		l.header["kid"] = id
	}
	return l
}

func TestLoginsOfASet(t *testing.T) {
	set := jwks(t, jwk(t, "a", "rsa"), jwk(t, "b", "p256"),
		jwk(t, "pinned", "other rsa", func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgRS512 }),
		jwk(t, "encrypts", "p384", func(m *jwkset.JWKMarshal) { m.USE = jwkset.UseEnc }),
		jwk(t, "weak", "weak rsa"),
		jwk(t, "mixed up", "p521", func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgRS256 }),
		jwkset.JWKMarshal{KTY: jwkset.KtyOct, KID: "shared", K: strings.Repeat("A", 43)},
		jwkset.JWKMarshal{KTY: "new", KID: "unheard of"})
	logins := newLogins(t, Options{JWKS: file(t, set)})
	shared := genuine(jwt.SigningMethodHS256, make([]byte, 32))
	shared.header["kid"] = "shared"
	for name, c := range map[string]struct {
		login login
		good  bool
	}{
		"the key of its id":              {by("a", "rsa", jwt.SigningMethodRS256), true},
		"another of its algorithms":      {by("a", "rsa", jwt.SigningMethodPS512), true},
		"the key of another id":          {by("b", "rsa", jwt.SigningMethodRS256), false},
		"an unknown id":                  {by("c", "rsa", jwt.SigningMethodRS256), false},
		"no id, of two possible":         {by("", "rsa", jwt.SigningMethodRS512), false},
		"no id, of one possible":         {by("", "p256", jwt.SigningMethodES256), true},
		"the algorithm of the key":       {by("pinned", "other rsa", jwt.SigningMethodRS512), true},
		"another than it was made for":   {by("pinned", "other rsa", jwt.SigningMethodRS256), false},
		"a key that is for encryption":   {by("encrypts", "p384", jwt.SigningMethodES384), false},
		"a weak key":                     {by("weak", "weak rsa", jwt.SigningMethodRS256), false},
		"a key of no possible algorithm": {by("mixed up", "p521", jwt.SigningMethodES512), false},
		"a secret that is published":     {shared, false},
	} {
		got, err := logins.Subject(c.login.raw(t), now)
		if why := (*Refusal)(nil); c.good && got != "ann" || !c.good && (!errors.As(err, &why) || got != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, raw := range map[string][]byte{
		"nothing": {}, "no JSON": []byte("<html>"), "no keys": []byte("{}"), "no usable key": jwks(t, jwk(t, "weak", "weak rsa")),
		"more than anybody has": jwks(t, make([]jwkset.JWKMarshal, maxKeys+1)...),
	} {
		if _, err := New(Options{JWKS: file(t, raw)}); err == nil {
			t.Errorf("a set of %s: taken", name)
		}
	}
}

func BenchmarkSubject(b *testing.B) {
	for name, c := range map[string]struct {
		of     string
		method jwt.SigningMethod
	}{"RS256": {"rsa", jwt.SigningMethodRS256}, "ES256": {"p256", jwt.SigningMethodES256}, "EdDSA": {"ed25519", jwt.SigningMethodEdDSA}} {
		b.Run(name, func(b *testing.B) {
			logins, raw := newLogins(b, Options{Key: file(b, publicPEM(b, c.of))}), by("", c.of, c.method).raw(b)
			for b.Loop() {
				if _, err := logins.Subject(raw, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
