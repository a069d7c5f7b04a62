package queue

import (
	"crypto"
	"crypto/ed25519"
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

// Algorithm is what something is signed with.
type Algorithm string

// The algorithms there are. HS256 can be verified by whoever has the secret; EdDSA,
// with Ed25519, by anybody who has the public key ([Keyring.Public]).
const (
	HS256 Algorithm = "HS256"
	EdDSA Algorithm = "EdDSA"
)

// Keyring holds the keys of one purpose, derived from the configured secrets: one
// for each secret and algorithm. The first secret and the first algorithm sign; all
// of them verify, so both can be changed while what was signed before is out. Keys
// of two purposes, or of two algorithms, share nothing: a ticket can never pass for
// a token, and a public key is nobody's secret.
type Keyring struct {
	parser  *jwt.Parser
	signing string // id of the first key
	byID    map[string]key
	public  []PublicKey
}

// key is good for its own algorithm alone.
type key struct {
	method       jwt.SigningMethod
	sign, verify any
}

// PublicKey verifies what the key of this id signed.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// NewKeyring derives the keys by HKDF-SHA256 (RFC 5869), with the purpose and what
// they are for as its info. Without an algorithm it is [HS256]. It fails without
// secrets, and on one that is too short.
func NewKeyring(purpose string, secrets [][]byte, algorithms ...Algorithm) (*Keyring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("queue: no secret given")
	}
	if len(algorithms) == 0 {
		algorithms = []Algorithm{HS256}
	}
	k := &Keyring{byID: make(map[string]key)}
	methods := make([]string, len(algorithms))
	for i, algorithm := range algorithms {
		methods[i] = string(algorithm)
		for n, secret := range secrets {
			if len(secret) < MinSecret {
				return nil, fmt.Errorf("queue: secret %d has %d bytes, at least %d are needed", n+1, len(secret), MinSecret)
			}
			id, err := k.add(algorithm, purpose, secret)
			if err != nil {
				return nil, fmt.Errorf("queue: deriving the %s key: %w", purpose, err)
			}
			if k.signing == "" {
				k.signing = id
			}
		}
	}
	k.parser = jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	return k, nil
}

// add derives the key of one secret. Its id is a hash of what verifies, which tells
// nothing of the secret.
func (k *Keyring) add(algorithm Algorithm, purpose string, secret []byte) (id string, err error) {
	derive := func(info string) ([]byte, error) { return hkdf.Key(sha256.New, secret, nil, "sluice "+info, 32) }
	switch algorithm {
	case HS256:
		derived, err := derive(purpose)
		if err != nil {
			return "", err
		}
		id = keyID(derived)
		k.byID[id] = key{jwt.SigningMethodHS256, derived, derived}
	case EdDSA:
		seed, err := derive(purpose + " ed25519")
		if err != nil {
			return "", err
		}
		private := ed25519.NewKeyFromSeed(seed)
		public, _ := private.Public().(ed25519.PublicKey)
		id = keyID(public)
		k.byID[id] = key{jwt.SigningMethodEdDSA, crypto.Signer(private), public}
		k.public = append(k.public, PublicKey{id, public})
	default:
		return "", fmt.Errorf("unknown algorithm %q", algorithm)
	}
	return id, nil
}

func keyID(verifies []byte) string {
	sum := sha256.Sum256(verifies)
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

// Public are the public keys of all secrets, those of the first to come first; none
// without EdDSA.
func (k *Keyring) Public() []PublicKey { return k.public }

// Sign signs the claims with the first key; typ goes into the header.
func (k *Keyring) Sign(typ string, claims jwt.Claims) (string, error) {
	key := k.byID[k.signing]
	t := jwt.NewWithClaims(key.method, claims)
	t.Header["typ"] = typ
	t.Header["kid"] = k.signing
	return t.SignedString(key.sign)
}

// Parse checks algorithm, type, key id and signature, and fills the claims. It
// judges no times: the caller's clock is the store's, which it knows and the
// JWT library does not. What else the header says (keys, addresses of keys) is not
// looked at.
//
// Only the spelling that Sign produced is accepted: strict base64, and no line
// breaks, which Go's decoder would skip. One signature has one spelling.
func (k *Keyring) Parse(raw, typ string, claims jwt.Claims) error {
	if strings.ContainsAny(raw, "\r\n") {
		return errors.New("a line break in it")
	}
	_, err := k.parser.ParseWithClaims(raw, claims, func(t *jwt.Token) (any, error) {
		if got, _ := t.Header["typ"].(string); got != typ {
			return nil, fmt.Errorf("type %q is not %q", got, typ)
		}
		id, _ := t.Header["kid"].(string)
		key, ok := k.byID[id]
		switch {
		case !ok:
			return nil, errors.New("unknown key id")
		case key.method.Alg() != t.Method.Alg():
			// Else the sender would choose what a key is taken for.
			return nil, errors.New("the key is one of another algorithm")
		}
		return key.verify, nil
	})
	return err
}
