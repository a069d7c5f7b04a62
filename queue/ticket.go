package queue

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
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
	keys  *Keyring
	seals []*seal // of the same keys
	ttl   time.Duration
	known *known
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
	seals, err := keys.seals(ticketType)
	if err != nil {
		return nil, err
	}
	return &Tickets{keys: keys, seals: seals, ttl: ttl, known: newKnown()}, nil
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
	claims := ticketClaims{
		Issuer: ticketIssuer, Line: t.Line, Epoch: t.Epoch, Subject: t.Subject, ID: t.ID, Place: t.Place,
		Issued: now.Unix(), Expires: now.Add(s.ttl).Unix(),
	}
	if t.Early() {
		claims.Entered = t.EnteredAt.UnixMilli()
	}
	if claims.plain() {
		return s.seals[0].sign(&claims), nil
	}
	escaped := claims
	raw, err := s.keys.Sign(ticketType, &escaped)
	if err != nil {
		return "", fmt.Errorf("queue: signing a ticket: %w", err)
	}
	return raw, nil
}

// Verify returns the ticket if its signature is ours, it is for this line, and
// it has not expired at now (the store's time). The result holds copies, never
// parts of raw. Errors: [ErrTicketInvalid], [ErrTicketExpired].
func (s *Tickets) Verify(raw, line string, now time.Time) (Ticket, error) {
	t := s.known.find(raw)
	if t == nil {
		read, err := s.read(raw, line)
		if err != nil {
			return Ticket{}, fmt.Errorf("%w: %w", ErrTicketInvalid, err)
		}
		s.known.add(raw, read)
		t = &read
	}
	switch {
	case t.Line != line:
		return Ticket{}, fmt.Errorf("%w: it is for another line", ErrTicketInvalid)
	case !now.Before(t.ExpiresAt):
		return *t, ErrTicketExpired
	}
	return *t, nil
}

// read returns a genuine ticket, which may be for another line or have expired.
func (s *Tickets) read(raw, line string) (Ticket, error) {
	if len(raw) > maxTicket {
		return Ticket{}, fmt.Errorf("longer than %d bytes", maxTicket)
	}
	c, err := s.claims(raw, line)
	switch {
	case err != nil:
		return Ticket{}, err
	case c.Issuer != ticketIssuer:
		return Ticket{}, errors.New("another issuer")
	case c.Subject == "" || c.ID == "" || c.Epoch < 0 || c.Expires == 0 || c.Place < 0 || c.Place == 0 && c.Entered <= 0:
		return Ticket{}, errors.New("a claim is missing")
	}
	t := Ticket{
		Line: c.Line, Epoch: c.Epoch, Subject: c.Subject, ID: c.ID, Place: c.Place, EnteredAt: EnteredAt(c.Place),
		IssuedAt: time.Unix(c.Issued, 0), ExpiresAt: time.Unix(c.Expires, 0),
	}
	if t.Early() {
		t.EnteredAt = time.UnixMilli(c.Entered)
	}
	return t, nil
}

// claims are those of a ticket that is signed by one of our keys.
func (s *Tickets) claims(raw, line string) (ticketClaims, error) {
	for _, one := range s.seals {
		var c ticketClaims
		if one.open(raw, line, &c) {
			return c, nil
		}
	}
	var c ticketClaims
	err := s.keys.Parse(raw, ticketType, &c)
	return c, err
}

// plain reports whether the texts of the claims stand in JSON as they are. Those of our
// own making do; a login's name may not, and is left to the JWT library.
func (c *ticketClaims) plain() bool {
	return plainText(c.Line) && plainText(c.Subject) && plainText(c.ID)
}

func plainText[T string | []byte](text T) bool {
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&' {
			return false
		}
	}
	return true
}

// appendTo appends plain claims as encoding/json would.
func (c *ticketClaims) appendTo(b []byte) []byte {
	number := func(name string, n int64) {
		b = strconv.AppendInt(append(b, name...), n, 10)
	}
	b = append(append(b, `{"iss":"`...), c.Issuer...)
	b = append(append(b, `","line":"`...), c.Line...)
	number(`","epoch":`, c.Epoch)
	b = append(append(b, `,"sub":"`...), c.Subject...)
	b = append(append(b, `","jti":"`...), c.ID...)
	b = append(b, '"')
	if c.Place != 0 {
		number(`,"place":`, c.Place)
	}
	if c.Entered != 0 {
		number(`,"entered":`, c.Entered)
	}
	number(`,"iat":`, c.Issued)
	number(`,"exp":`, c.Expires)
	return append(b, '}')
}

// scan reads what appendTo wrote, and reports false of anything else. The line is the
// one that is asked for.
func (c *ticketClaims) scan(b []byte, line string) bool {
	r := claimScanner{rest: b}
	if !r.skip(`{"iss":"` + ticketIssuer + `","line":"`) {
		return false
	}
	itsLine := r.text()
	c.Epoch = r.number(`,"epoch":`)
	if !r.skip(`,"sub":"`) {
		return false
	}
	from := r.rest
	subject := r.text()
	if !r.skip(`,"jti":"`) {
		return false
	}
	id := r.text()
	between := len(`","jti":"`)
	if r.wrong {
		return false
	}
	// One copy holds both.
	both := string(from[:len(subject)+between+len(id)])
	c.Issuer, c.Subject, c.ID = ticketIssuer, both[:len(subject)], both[len(subject)+between:]
	if c.Line = line; string(itsLine) != line {
		c.Line = string(itsLine)
	}
	if r.at(`,"place":`) {
		c.Place = r.number(`,"place":`)
	}
	if r.at(`,"entered":`) {
		c.Entered = r.number(`,"entered":`)
	}
	c.Issued = r.number(`,"iat":`)
	c.Expires = r.number(`,"exp":`)
	return !r.wrong && string(r.rest) == "}"
}

// claimScanner reads claims from the front.
type claimScanner struct {
	rest  []byte
	wrong bool // something was not as it should be
}

func (r *claimScanner) at(what string) bool {
	return len(r.rest) >= len(what) && string(r.rest[:len(what)]) == what
}

func (r *claimScanner) skip(what string) bool {
	if r.wrong || !r.at(what) {
		r.wrong = true
		return false
	}
	r.rest = r.rest[len(what):]
	return true
}

// text is a plain text up to the quotation mark that ends it.
func (r *claimScanner) text() []byte {
	end := bytes.IndexByte(r.rest, '"')
	if end < 0 || !plainText(r.rest[:end]) {
		r.wrong = true
		return nil
	}
	text := r.rest[:end]
	r.rest = r.rest[end+1:]
	return text
}

// number is one of at most 18 digits, after its name.
func (r *claimScanner) number(name string) (n int64) {
	if !r.skip(name) {
		return 0
	}
	digits := 0
	for digits < len(r.rest) && r.rest[digits] >= '0' && r.rest[digits] <= '9' {
		n = 10*n + int64(r.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 18 || digits > 1 && r.rest[0] == '0' {
		r.wrong = true
	}
	r.rest = r.rest[digits:]
	return n
}

// The claims are judged by Verify; these satisfy the JWT library's interface.

func (c *ticketClaims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (c *ticketClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *ticketClaims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (c *ticketClaims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *ticketClaims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c *ticketClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }
