package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// ErrUnavailable means that no set of keys could be read yet: nobody can be told
// from another, whoever they are.
var ErrUnavailable = errors.New("identity: the keys of logins are not here yet")

// Refusal is why a login token is not believed. Its reason holds nothing of the token,
// and may be shown.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return "identity: the login token is refused: " + r.Reason }

const (
	// maxLogin bounds a login token, in bytes. They carry a person's name, roles, groups.
	maxLogin = 8 << 10
	// leeway is for the clocks: a login token is stamped by the shop's, and judged by
	// the line's. Half a minute is what a machine without a time service is soon off by;
	// a login lives for longer.
	leeway = 30 * time.Second
)

// Options are how logins are verified.
type Options struct {
	// Key is a file with a public key or certificate in PEM, RSA of at least 2048 bits,
	// ECDSA or Ed25519, or with the secret of HS256, of at least 32 bytes. JWKS is a file
	// or http(s):// address with a set of public keys. One of the two.
	Key, JWKS string
	// Issuer and Audience, where set, are what a token must be of.
	Issuer, Audience string
	// Log hears when the address of the keys does not answer; nil discards it.
	Log *slog.Logger
}

// Logins verifies login tokens. Safe for concurrent use.
type Logins struct {
	keys   source
	remote *remote // keys, if they are fetched
	rules  []jwt.ParserOption
}

// source finds the keys that may have signed a token.
type source interface {
	// find tells the key of an id, or, without one, the only key that there is for the
	// algorithm.
	find(ctx context.Context, id, algorithm string) (key any, err error)
}

// New reads the files. An address is not asked yet: [Logins.Run] does that.
func New(o Options) (*Logins, error) {
	l := &Logins{rules: []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithValidMethods(algorithms)}}
	if o.Issuer != "" {
		l.rules = append(l.rules, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		l.rules = append(l.rules, jwt.WithAudience(o.Audience))
	}
	switch {
	case (o.Key == "") == (o.JWKS == ""):
		return nil, errors.New("identity: a key or a set of keys is needed, and not both")
	case strings.Contains(o.JWKS, "://"):
		l.remote = newRemote(o.JWKS, o.Log)
		l.keys = l.remote
		return l, nil
	}
	path, parse := o.Key, parseKey
	if o.JWKS != "" {
		path, parse = o.JWKS, parseSet
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity: reading the keys of logins: %w", err)
	}
	keys, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("identity: %s: %w", path, err)
	}
	l.keys = keys
	return l, nil
}

// Run keeps the keys of an address up to date until ctx ends. Without an address it
// only waits for that.
func (l *Logins) Run(ctx context.Context) error {
	if l.remote != nil {
		return l.remote.run(ctx)
	}
	<-ctx.Done()
	return nil
}

// Subject is whom a login token that is good at now is about. It may wait for the
// keys' address, but never longer than [patience].
//
// Errors: [*Refusal], [ErrUnavailable].
func (l *Logins) Subject(raw string, now time.Time) (string, error) {
	if len(raw) > maxLogin {
		return "", &Refusal{fmt.Sprintf("it is longer than %d bytes", maxLogin)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var claims jwt.RegisteredClaims
	parser := jwt.NewParser(append(slices.Clip(l.rules), jwt.WithTimeFunc(func() time.Time { return now }))...)
	_, err := parser.ParseWithClaims(raw, &claims, func(t *jwt.Token) (any, error) {
		if _, there := t.Header["crit"]; there { // RFC 7515: what must be understood, and is not here
			return nil, &Refusal{"its header has crit"}
		}
		id, _ := t.Header["kid"].(string)
		return l.keys.find(ctx, id, t.Method.Alg())
	})
	if err != nil {
		return "", refusal(err)
	}
	// Whether it may be a visitor's name is the line's to say.
	return claims.Subject, nil
}

// refusal says why in words that repeat nothing of the token.
func refusal(err error) error {
	if own := (*Refusal)(nil); errors.As(err, &own) {
		return own
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	for _, known := range []struct {
		err    error
		reason string
	}{
		{jwt.ErrTokenMalformed, "it is no JWT"},
		{jwt.ErrTokenSignatureInvalid, "its signature or algorithm is not one that is accepted"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenInvalidAudience, "it is for another audience"},
		{jwt.ErrTokenRequiredClaimMissing, "a claim is missing"},
	} {
		if errors.Is(err, known.err) {
			return &Refusal{known.reason}
		}
	}
	return &Refusal{"it cannot be verified"}
}
