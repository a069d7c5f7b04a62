package queue

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// MinSecret is the shortest secret accepted, in bytes.
const MinSecret = 32

// Keyring holds the HS256 keys of one purpose, derived from the configured
// secrets. The first signs; all of them verify, so secrets can be rotated.
// Keys of two purposes share nothing: a ticket can never pass for a token.
type Keyring struct {
	signing string // kid of the first key
	byID    map[string][]byte
}

// NewKeyring derives a key from each secret by HKDF-SHA256 (RFC 5869) with the
// purpose as its info. It fails without secrets and on one that is too short.
func NewKeyring(purpose string, secrets [][]byte) (*Keyring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("queue: no secret given")
	}
	k := &Keyring{byID: make(map[string][]byte, len(secrets))}
	for i, secret := range secrets {
		if len(secret) < MinSecret {
			return nil, fmt.Errorf("queue: secret %d has %d bytes, at least %d are needed", i+1, len(secret), MinSecret)
		}
		key, err := hkdf.Key(sha256.New, secret, nil, "sluice "+purpose, 32)
		if err != nil {
			return nil, fmt.Errorf("queue: deriving the %s key: %w", purpose, err)
		}
		sum := sha256.Sum256(key)
		id := base64.RawURLEncoding.EncodeToString(sum[:6])
		if i == 0 {
			k.signing = id
		}
		k.byID[id] = key
	}
	return k, nil
}

// Sign signs the claims with the first key; typ goes into the header.
func (k *Keyring) Sign(typ string, claims jwt.Claims) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	t.Header["typ"] = typ
	t.Header["kid"] = k.signing
	return t.SignedString(k.byID[k.signing])
}

// Parse checks algorithm, type, key id and signature, and fills the claims. It
// judges no times: the caller's clock is the store's, which it knows and the
// JWT library does not.
//
// Only the spelling that Sign produced is accepted: strict base64, and no line
// breaks, which Go's decoder would skip. One signature has one spelling.
func (k *Keyring) Parse(raw, typ string, claims jwt.Claims) error {
	if strings.ContainsAny(raw, "\r\n") {
		return errors.New("a line break in it")
	}
	_, err := parser.ParseWithClaims(raw, claims, func(t *jwt.Token) (any, error) {
		if got, _ := t.Header["typ"].(string); got != typ {
			return nil, fmt.Errorf("type %q is not %q", got, typ)
		}
		id, _ := t.Header["kid"].(string)
		key, ok := k.byID[id]
		if !ok {
			return nil, errors.New("unknown key id")
		}
		return key, nil
	})
	return err
}

var parser = jwt.NewParser(
	jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
	jwt.WithoutClaimsValidation(),
	jwt.WithStrictDecoding(),
)
