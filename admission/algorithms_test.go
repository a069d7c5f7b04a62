package admission

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"sluice/queue"
)

// derivedEd is the Ed25519 key of a secret and its id.
func derivedEd(t testing.TB, secret []byte) (ed25519.PrivateKey, string) {
	t.Helper()
	seed, err := hkdf.Key(sha256.New, secret, nil, "sluice admission ed25519", ed25519.SeedSize)
	if err != nil {
		t.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	sum := sha256.Sum256(private.Public().(ed25519.PublicKey))
	return private, base64.RawURLEncoding.EncodeToString(sum[:6])
}

func tokensWith(t testing.TB, algorithms ...queue.Algorithm) *Tokens {
	t.Helper()
	tokens, err := NewTokens([][]byte{secretA}, algorithms...)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// A key is good for its own algorithm alone, whatever a header says, and whatever
// else is accepted. The public key is known to everybody.
func TestTokenAlgorithmConfusion(t *testing.T) {
	shared, sharedID := derived(t, "admission", secretA)
	private, publicID := derivedEd(t, secretA)
	public := private.Public().(ed25519.PublicKey)
	encoded := base64.RawURLEncoding.EncodeToString(public)
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	hs, ed := jwt.SigningMethodHS256, jwt.SigningMethodEdDSA
	both := []queue.Algorithm{queue.EdDSA, queue.HS256}
	for name, c := range map[string]struct {
		accepted []queue.Algorithm
		method   jwt.SigningMethod
		key      any
		id       string
		good     bool
	}{
		"HS256 where both are":                       {both, hs, shared, sharedID, true},
		"EdDSA where both are":                       {both, ed, private, publicID, true},
		"EdDSA where it is alone":                    {both[:1], ed, private, publicID, true},
		"HS256 where EdDSA is alone":                 {both[:1], hs, shared, sharedID, false},
		"EdDSA where HS256 is alone":                 {both[1:], ed, private, publicID, false},
		"HS256 by the public key":                    {both, hs, []byte(public), publicID, false},
		"HS256 by the public key, alone":             {both[:1], hs, []byte(public), publicID, false},
		"HS256 by the public key as text":            {both, hs, []byte(encoded), publicID, false},
		"HS256 by the public key, id of the other":   {both, hs, []byte(public), sharedID, false},
		"HS256 with the id of the EdDSA key":         {both, hs, shared, publicID, false},
		"EdDSA with the id of the HS256 key":         {both, ed, private, sharedID, false},
		"EdDSA by the shared key as seed":            {both, ed, ed25519.NewKeyFromSeed(shared), sharedID, false},
		"EdDSA by a key of one's own":                {both, ed, own, publicID, false},
		"no algorithm with the id of the EdDSA key":  {both, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, publicID, false},
		"no algorithm with the id of the shared key": {both, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, sharedID, false},
	} {
		f := genuine(t)
		f.method, f.key, f.header["kid"] = c.method, c.key, c.id
		_, err := tokensWith(t, c.accepted...).Verify(f.raw(t), clockAt(usableAt), epochs)
		if c.good && err != nil || !c.good && !errors.Is(err, ErrTokenInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a header says of keys is not looked at: a genuine token stays one, a forged
// one brings its own key in vain.
func TestTokenHeadersThatBringKeys(t *testing.T) {
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	private, id := derivedEd(t, secretA)
	jwk := map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "own",
		"x": base64.RawURLEncoding.EncodeToString(own.Public().(ed25519.PublicKey))}
	tokens := tokensWith(t, queue.EdDSA, queue.HS256)
	for name, value := range map[string]any{
		"jwk": jwk, "jku": "https://evil.test/jwks.json", "x5u": "https://evil.test/cert.pem", "x5c": []string{"MIIB"},
		"crit": []string{"exp"}, "b64": false, "zip": "DEF", "cty": "JWT",
	} {
		for _, kid := range []string{id, "own", ""} {
			f := genuine(t)
			f.method, f.key, f.header["kid"], f.header[name] = jwt.SigningMethodEdDSA, own, kid, value
			if _, err := tokens.Verify(f.raw(t), clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
				t.Errorf("%s with the key id %q: %v", name, kid, err)
			}
		}
		f := genuine(t)
		f.method, f.key, f.header["kid"], f.header[name] = jwt.SigningMethodEdDSA, private, id, value
		if _, err := tokens.Verify(f.raw(t), clockAt(usableAt), epochs); err != nil {
			t.Errorf("%s in what we signed: %v", name, err)
		}
	}
}

// The same record gives the same bytes with EdDSA too, in every process.
func TestEdDSATokensAreTheSameEverywhere(t *testing.T) {
	here, there := tokensWith(t, queue.EdDSA), tokensWith(t, queue.EdDSA, queue.HS256)
	a, b := mint(t, here, someAdmission()), mint(t, there, someAdmission())
	if a != b {
		t.Errorf("two tokens:\n%s\n%s", a, b)
	}
	private, id := derivedEd(t, secretA)
	keys := here.PublicKeys()
	if len(keys) != 1 || keys[0].ID != id || !keys[0].Key.Equal(private.Public()) {
		t.Errorf("public keys %v, want %s", keys, id)
	}
}

func BenchmarkVerifyEdDSA(b *testing.B) {
	tokens := tokensWith(b, queue.EdDSA)
	raw := mint(b, tokens, someAdmission())
	for b.Loop() {
		if _, err := tokens.Verify(raw, clockAt(usableAt), epochs); err != nil {
			b.Fatal(err)
		}
	}
}
