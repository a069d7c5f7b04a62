package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

const (
	minSecret  = 32   // bytes, of an HS256 secret
	minRSABits = 2048 // of a modulus
	maxKeys    = 100  // in a set: more than anybody rotates through
)

// algorithms are all that a login token may be signed with; which of them is decided by
// the key.
var algorithms = slices.Concat(ofRSA, []string{"ES256", "ES384", "ES512", "EdDSA", "HS256"})

var ofRSA = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

// key verifies with the algorithms of its kind, or the one that it is published for.
// The header of a token, which its sender writes, chooses nothing else.
type key struct {
	id         string
	verify     any
	algorithms []string
}

// keys are a set.
type keys []key

// find implements [source].
func (ks keys) find(_ context.Context, id, algorithm string) (any, error) {
	var possible []any
	for _, k := range ks {
		switch {
		case !slices.Contains(k.algorithms, algorithm):
		case k.id == id && id != "":
			return k.verify, nil
		case k.id == "" || id == "":
			possible = append(possible, k.verify)
		}
	}
	switch len(possible) {
	case 0:
		return nil, errNoKey
	case 1:
		return possible[0], nil
	}
	// To try them all would make each forged token cost as many verifications.
	return nil, &Refusal{"it does not say which key it was signed with"}
}

var errNoKey = &Refusal{"it is signed with a key that is not known here"}

// newKey is refused what is too weak to be believed.
func newKey(id string, verify any) (key, error) {
	k := key{id: id, verify: verify}
	switch v := verify.(type) {
	case *rsa.PublicKey:
		if v.N.BitLen() < minRSABits {
			return k, fmt.Errorf("an RSA key of %d bits, and at least %d are needed", v.N.BitLen(), minRSABits)
		}
		k.algorithms = ofRSA
	case *ecdsa.PublicKey:
		of := map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[v.Curve.Params().BitSize]
		if of == "" {
			return k, errors.New("an ECDSA key of an unusual curve")
		}
		k.algorithms = []string{of}
	case ed25519.PublicKey:
		k.algorithms = []string{"EdDSA"}
	default:
		return k, fmt.Errorf("a %T is no public key for signatures", verify)
	}
	return k, nil
}

// parseKey reads the file of one key. Whatever is some other form of a public key is
// refused, and not taken for a secret: everybody could sign with it then.
func parseKey(raw []byte) (keys, error) {
	if block, rest := pem.Decode(raw); block != nil {
		if len(bytes.TrimSpace(rest)) > 0 {
			return nil, errors.New("more than one key; a set of them is for identity.jwks")
		}
		public, err := parsePEM(block)
		if err != nil {
			return nil, err
		}
		k, err := newKey("", public)
		return keys{k}, err
	}
	secret := bytes.TrimRight(raw, "\r\n")
	switch {
	case bytes.Contains(raw, []byte("-----BEGIN")):
		return nil, errors.New("a damaged PEM file")
	case isDER(raw):
		return nil, errors.New("a key in DER, and PEM is needed (openssl has -inform DER)")
	case bytes.HasPrefix(raw, []byte("ssh-")) || bytes.HasPrefix(raw, []byte("ecdsa-sha2-")):
		return nil, errors.New("a key of SSH, and PEM is needed (ssh-keygen has -e -m PKCS8)")
	case json.Valid(raw):
		return nil, errors.New("JSON; a set of keys is for identity.jwks")
	case len(secret) < minSecret:
		return nil, fmt.Errorf("neither PEM nor a secret of at least %d bytes", minSecret)
	}
	return keys{{verify: secret, algorithms: []string{"HS256"}}}, nil
}

func parsePEM(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	}
	return nil, fmt.Errorf("a %.40q in it, and a public key is needed", block.Type)
}

func isDER(raw []byte) bool {
	_, pkix := x509.ParsePKIXPublicKey(raw)
	_, pkcs1 := x509.ParsePKCS1PublicKey(raw)
	_, certificate := x509.ParseCertificate(raw)
	return pkix == nil || pkcs1 == nil || certificate == nil
}

// parseSet reads a JWKS. Keys that are for something else, or that we cannot use, are
// passed over; a set without any other is a mistake, or a page that says something else.
func parseSet(raw []byte) (keys, error) {
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("not a set of keys: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys in it, and at most %d are taken", len(set.Keys), maxKeys)
	}
	var all keys
	for _, published := range set.Keys {
		if k, ok := fromJWK(published); ok {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of the %d keys in it can verify a login token", len(set.Keys))
	}
	return all, nil
}

// fromJWK takes public keys for signatures. A shared one (oct) is none for newKey: what
// is published is nobody's secret.
func fromJWK(published jwkset.JWKMarshal) (key, bool) {
	if published.USE != "" && published.USE != jwkset.UseSig {
		return key{}, false
	}
	// Certificates are not looked at, and never fetched: the key itself is believed.
	published.X5U, published.X5C, published.X5T, published.X5TS256 = "", nil, "", ""
	parsed, err := jwkset.NewJWKFromMarshal(published, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return key{}, false
	}
	k, err := newKey(published.KID, parsed.Key())
	if err != nil {
		return key{}, false
	}
	if alg := published.ALG.String(); alg != "" {
		if !slices.Contains(k.algorithms, alg) {
			return key{}, false
		}
		k.algorithms = []string{alg}
	}
	return k, true
}
