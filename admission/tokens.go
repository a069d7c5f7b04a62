package admission

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"sluice/queue"
)

var (
	// ErrTokenInvalid means that a token is malformed or forged.
	ErrTokenInvalid = errors.New("admission: the token is invalid")
	// ErrTokenExpired means that a genuine token is past its expiry or of an
	// earlier epoch of its line.
	ErrTokenExpired = errors.New("admission: the token has expired")
	// ErrTokenTooEarly means that a genuine token's time has not come yet.
	ErrTokenTooEarly = errors.New("admission: the token is not usable yet")
	// ErrUnknownLine means that a genuine token is of a line that this process has
	// not found yet.
	ErrUnknownLine = errors.New("admission: the token's line is not known here")
)

const (
	tokenType      = "sluice-admission+jwt"
	tokenIssuer    = "sluice"
	audiencePrefix = "orders:" // then the line
	maxToken       = 2048      // bytes; one of ours has about 400

	// earlyLeeway is how much before its not-before a token is taken: what a
	// visitor's timer and the error of the learnt clock may amount to. There is
	// none after the expiry, when the slot may belong to somebody else.
	earlyLeeway = 50 * time.Millisecond
)

// Claims are what a verified token says.
type Claims struct {
	Line      string
	Subject   string
	TicketID  string // the token's id
	Epoch     int64
	NotBefore time.Time // whole ms of the store's clock
	ExpiresAt time.Time // likewise
}

// Tokens mints and verifies admission tokens: JWTs with a key id. Safe for
// concurrent use.
type Tokens struct {
	keys *queue.Keyring
}

// NewTokens derives the admission keys from the secrets: the first secret and the
// first algorithm ([queue.HS256] without any) sign, all verify. They share nothing with the keys of the tickets.
func NewTokens(secrets [][]byte, algorithms ...queue.Algorithm) (*Tokens, error) {
	keys, err := queue.NewKeyring("admission", secrets, algorithms...)
	if err != nil {
		return nil, err
	}
	return &Tokens{keys: keys}, nil
}

// PublicKeys are what somebody else verifies tokens with, those of all secrets; none
// without [queue.EdDSA].
func (t *Tokens) PublicKeys() []queue.PublicKey { return t.keys.Public() }

// tokenClaims are the claims on the wire; a nil or empty one is missing.
type tokenClaims struct {
	Issuer    string `json:"iss"`
	Audience  string `json:"aud"` // one string: a list of audiences is refused
	Subject   string `json:"sub"`
	ID        string `json:"jti"`
	Epoch     *int64 `json:"epoch"` // 0 is an epoch
	IssuedAt  millis `json:"iat"`
	NotBefore millis `json:"nbf"`
	ExpiresAt millis `json:"exp"`
}

// Mint signs the token of a recorded admission. The same record gives the same
// bytes, so any instance can hand it out, any number of times.
func (t *Tokens) Mint(a queue.Admission) (string, error) {
	c := tokenClaims{
		Issuer: tokenIssuer, Audience: audiencePrefix + a.Line, Subject: a.Subject, ID: a.TicketID, Epoch: &a.Epoch,
		IssuedAt:  millis(a.AdmittedAt.UnixMilli()),
		NotBefore: millis(a.NotBefore.UnixMilli()),
		ExpiresAt: millis(a.ExpiresAt.UnixMilli()),
	}
	if _, err := c.check(); err != nil {
		return "", fmt.Errorf("admission: minting a token: %w", err)
	}
	raw, err := t.keys.Sign(tokenType, &c)
	if err != nil {
		return "", fmt.Errorf("admission: minting a token: %w", err)
	}
	return raw, nil
}

// Verify returns the claims of a token that we signed and that is good now. now
// tells the store's time by the clock of the token's own line, since two lines of a
// cluster may live on two nodes. epoch tells the current epoch of a line, or false if
// this process does not know the line. A later epoch than the current one is taken:
// it was signed by an instance that knows more.
//
// Errors: [ErrTokenInvalid]; and, with the genuine claims, [ErrUnknownLine]; and,
// since the order that a token made can be followed up after its time,
// [ErrTokenExpired] and [ErrTokenTooEarly].
func (t *Tokens) Verify(raw string, now func(line string) time.Time, epoch func(line string) (int64, bool)) (Claims, error) {
	if len(raw) > maxToken {
		return Claims{}, fmt.Errorf("%w: longer than %d bytes", ErrTokenInvalid, maxToken)
	}
	var wire tokenClaims
	if err := t.keys.Parse(raw, tokenType, &wire); err != nil {
		return Claims{}, fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	c, err := wire.check()
	if err != nil {
		return Claims{}, fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	current, ok := epoch(c.Line)
	switch now := now(c.Line); {
	case ok && c.Epoch < current:
		return c, fmt.Errorf("%w: it is of an earlier epoch", ErrTokenExpired)
	case !now.Before(c.ExpiresAt):
		return c, ErrTokenExpired
	case now.Add(earlyLeeway).Before(c.NotBefore):
		return c, ErrTokenTooEarly
	case !ok:
		return c, fmt.Errorf("%w: %q", ErrUnknownLine, c.Line)
	}
	return c, nil
}

// check reports what is wrong with the claims whatever the time.
func (c *tokenClaims) check() (Claims, error) {
	line, ours := strings.CutPrefix(c.Audience, audiencePrefix)
	switch {
	case c.Issuer != tokenIssuer:
		return Claims{}, errors.New("another issuer")
	case !ours || !queue.ValidID(line):
		return Claims{}, errors.New("another audience")
	case c.Subject == "" || c.ID == "" || c.Epoch == nil || c.IssuedAt <= 0 || c.NotBefore <= 0 || c.ExpiresAt <= 0:
		return Claims{}, errors.New("a claim is missing")
	case *c.Epoch < 0 || c.ExpiresAt <= c.NotBefore:
		return Claims{}, errors.New("a claim makes no sense")
	}
	return Claims{
		Line: line, Subject: c.Subject, TicketID: c.ID, Epoch: *c.Epoch,
		NotBefore: c.NotBefore.time(), ExpiresAt: c.ExpiresAt.time(),
	}, nil
}

// millis is a NumericDate (RFC 7519: seconds, fractions allowed) in whole
// milliseconds. The JWT library's own goes through a float and a global
// precision of one second, which would swallow the jitter of a batch.
type millis int64

func (m millis) time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MarshalJSON writes seconds with three decimals, 1767323045.678.
func (m millis) MarshalJSON() ([]byte, error) {
	if m < 0 {
		return nil, fmt.Errorf("a time before 1970: %d ms", int64(m))
	}
	b := strconv.AppendInt(nil, int64(m/1000), 10)
	frac := int64(m % 1000)
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10)), nil
}

// UnmarshalJSON reads seconds with at most three decimals, exactly.
func (m *millis) UnmarshalJSON(b []byte) error {
	whole, frac, dot := strings.Cut(string(b), ".")
	if whole == "" || dot && frac == "" || len(frac) > 3 || len(whole) > 12 || !digits(whole) || !digits(frac) {
		return fmt.Errorf("not a time in seconds with at most three decimals: %.20q", b)
	}
	n, err := strconv.ParseInt(whole+(frac + "000")[:3], 10, 64)
	if err != nil {
		return fmt.Errorf("not a time in seconds: %w", err)
	}
	*m = millis(n)
	return nil
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// The claims are judged by Verify, on the store's clock; these satisfy the JWT
// library's interface.

func (c *tokenClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c *tokenClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *tokenClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c *tokenClaims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *tokenClaims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c *tokenClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }
