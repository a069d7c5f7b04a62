package queue

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

var (
	// ErrTicketInvalid means that a ticket is malformed, forged, or of another
	// line.
	ErrTicketInvalid = errors.New("queue: the ticket is invalid")
	// ErrTicketExpired means that a genuine ticket is past its expiry.
	ErrTicketExpired = errors.New("queue: the ticket has expired")
)

const (
	ticketType   = "sluice-ticket+jwt"
	ticketIssuer = "sluice"
	// maxTicket is in bytes. One of ours has about 300, and 1500 with the longest
	// subject that a login may bring, all of it escaped.
	maxTicket = 2048
)

// Ticket is the signed proof of a place.
type Ticket struct {
	Line  string
	Epoch int64
	// Subject is the visitor, the member of the sorted set.
	Subject string
	// ID is random and made by the server; it becomes the admission token's id.
	ID string
	// Place is the sort key: the entry time in µs of the store's clock, made
	// strictly increasing. An early ticket has none: its place is drawn from its
	// id and the line's seed, and its holder must not read it before the opening.
	Place int64
	// EnteredAt is when the place or the early ticket was given, on the store's
	// clock, in whole milliseconds.
	EnteredAt time.Time
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Early reports whether the ticket takes part in the draw.
func (t Ticket) Early() bool { return t.Place == 0 }

// NewID returns 96 random bits as 16 URL-safe characters: a ticket id, or the
// subject of an anonymous visitor.
func NewID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails, by its contract
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// MaxSubject is the longest subject that somebody else may name, in bytes.
const MaxSubject = 128

// ValidSubject reports whether a visitor may be called so: 1 to [MaxSubject] bytes of
// UTF-8 without control characters. Two names are the same only if all bytes are:
// nothing is trimmed, folded or normalised.
func ValidSubject(s string) bool {
	return s != "" && len(s) <= MaxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// EnteredAt is the entry time that a place which was not drawn stands for.
func EnteredAt(place int64) time.Time { return time.UnixMilli(place / 1000) }

// Tickets signs and verifies tickets.
type Tickets struct {
	keys *Keyring
	ttl  time.Duration
}

// NewTickets derives the ticket keys from the secrets; ttl is how long a
// ticket is good.
func NewTickets(secrets [][]byte, ttl time.Duration) (*Tickets, error) {
	// Never with EdDSA, whatever tokens are signed with: nobody else verifies tickets,
	// and each poll does.
	keys, err := NewKeyring("ticket", secrets, HS256)
	if err != nil {
		return nil, err
	}
	return &Tickets{keys: keys, ttl: ttl}, nil
}

// TTL is how long a ticket is good after it was signed.
func (s *Tickets) TTL() time.Duration { return s.ttl }

type ticketClaims struct {
	Issuer  string `json:"iss"`
	Line    string `json:"line"`
	Epoch   int64  `json:"epoch"`
	Subject string `json:"sub"`
	ID      string `json:"jti"`
	Place   int64  `json:"place,omitempty"`   // µs; none if early
	Entered int64  `json:"entered,omitempty"` // ms; of early tickets
	Issued  int64  `json:"iat"`               // s
	Expires int64  `json:"exp"`               // s
}

// Sign signs the ticket's place from now on for the time to live; the ticket's
// own times are ignored.
func (s *Tickets) Sign(t Ticket, now time.Time) (string, error) {
	claims := &ticketClaims{
		Issuer: ticketIssuer, Line: t.Line, Epoch: t.Epoch, Subject: t.Subject, ID: t.ID, Place: t.Place,
		Issued: now.Unix(), Expires: now.Add(s.ttl).Unix(),
	}
	if t.Early() {
		claims.Entered = t.EnteredAt.UnixMilli()
	}
	raw, err := s.keys.Sign(ticketType, claims)
	if err != nil {
		return "", fmt.Errorf("queue: signing a ticket: %w", err)
	}
	return raw, nil
}

// Verify returns the ticket if its signature is ours, it is for this line, and
// it has not expired at now (the store's time). The result holds copies, never
// parts of raw. Errors: [ErrTicketInvalid], [ErrTicketExpired].
func (s *Tickets) Verify(raw, line string, now time.Time) (Ticket, error) {
	if len(raw) > maxTicket {
		return Ticket{}, fmt.Errorf("%w: longer than %d bytes", ErrTicketInvalid, maxTicket)
	}
	var c ticketClaims
	if err := s.keys.Parse(raw, ticketType, &c); err != nil {
		return Ticket{}, fmt.Errorf("%w: %w", ErrTicketInvalid, err)
	}
	switch {
	case c.Issuer != ticketIssuer:
		return Ticket{}, fmt.Errorf("%w: another issuer", ErrTicketInvalid)
	case c.Line != line:
		return Ticket{}, fmt.Errorf("%w: it is for another line", ErrTicketInvalid)
	case c.Subject == "" || c.ID == "" || c.Epoch < 0 || c.Expires == 0 || c.Place < 0 || c.Place == 0 && c.Entered <= 0:
		return Ticket{}, fmt.Errorf("%w: a claim is missing", ErrTicketInvalid)
	}
	t := Ticket{
		Line: c.Line, Epoch: c.Epoch, Subject: c.Subject, ID: c.ID, Place: c.Place, EnteredAt: EnteredAt(c.Place),
		IssuedAt: time.Unix(c.Issued, 0), ExpiresAt: time.Unix(c.Expires, 0),
	}
	if t.Early() {
		t.EnteredAt = time.UnixMilli(c.Entered)
	}
	if !now.Before(t.ExpiresAt) {
		return t, ErrTicketExpired
	}
	return t, nil
}

// The claims are judged by Verify; these satisfy the JWT library's interface.

func (c *ticketClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c *ticketClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *ticketClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c *ticketClaims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *ticketClaims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c *ticketClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }
