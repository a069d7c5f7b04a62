package queue

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"
)

var (
	secretA = bytes.Repeat([]byte("a"), MinSecret)
	secretB = bytes.Repeat([]byte("b"), MinSecret)
	signed  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func someTicket() Ticket {
	return Ticket{Line: "sale", Epoch: 3, Subject: "visitor", ID: NewID(), Place: 1_767_323_045_678_901}
}

func newTickets(t testing.TB, secrets ...[]byte) *Tickets {
	t.Helper()
	tickets, err := NewTickets(secrets, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return tickets
}

func sign(t testing.TB, s *Tickets, ticket Ticket) string {
	t.Helper()
	raw, err := s.Sign(ticket, signed)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTicketRoundTrip(t *testing.T) {
	tickets := newTickets(t, secretA)
	rapid.Check(t, func(rt *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(rt, "now, ms"))
		want := Ticket{
			Line:    rapid.StringMatching(`[a-z0-9-]{1,32}`).Draw(rt, "line"),
			Epoch:   rapid.Int64Range(0, 1<<53).Draw(rt, "epoch"),
			Subject: rapid.StringN(1, 100, 300).Draw(rt, "subject"),
			ID:      NewID(),
		}
		if rapid.Bool().Draw(rt, "early") {
			want.EnteredAt = time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(rt, "entered, ms"))
		} else {
			want.Place = rapid.Int64Range(1, 1<<62).Draw(rt, "place")
		}
		raw, err := tickets.Sign(want, now)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := tickets.Verify(raw, want.Line, now)
		if err != nil {
			rt.Fatal(err)
		}
		want.IssuedAt, want.ExpiresAt = time.Unix(now.Unix(), 0), time.Unix(now.Unix()+3600, 0)
		if want.Place > 0 { // it says by itself when it was given
			want.EnteredAt = EnteredAt(want.Place)
		}
		if got.Early() != (want.Place == 0) {
			rt.Fatalf("early: %v of %+v", got.Early(), want)
		}
		if got != want {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestTicketExpires(t *testing.T) {
	tickets := newTickets(t, secretA)
	want := someTicket()
	raw := sign(t, tickets, want)
	if _, err := tickets.Verify(raw, "sale", signed.Add(time.Hour-time.Millisecond)); err != nil {
		t.Errorf("just before its expiry: %v", err)
	}
	got, err := tickets.Verify(raw, "sale", signed.Add(time.Hour))
	if !errors.Is(err, ErrTicketExpired) {
		t.Errorf("at its expiry: %v", err)
	}
	if got.ID != want.ID {
		t.Errorf("the genuine ticket is not told: %+v", got)
	}
}

func TestTicketOfAnotherLine(t *testing.T) {
	tickets := newTickets(t, secretA)
	if _, err := tickets.Verify(sign(t, tickets, someTicket()), "other", signed); !errors.Is(err, ErrTicketInvalid) {
		t.Errorf("%v", err)
	}
}

func TestTicketRotation(t *testing.T) {
	old := sign(t, newTickets(t, secretA), someTicket())
	rotated := newTickets(t, secretB, secretA)
	if _, err := rotated.Verify(old, "sale", signed); err != nil {
		t.Errorf("signed with the second secret: %v", err)
	}
	if _, err := newTickets(t, secretB).Verify(old, "sale", signed); !errors.Is(err, ErrTicketInvalid) {
		t.Errorf("signed with a secret that was dropped: %v", err)
	}
	if _, err := newTickets(t, secretB).Verify(sign(t, rotated, someTicket()), "sale", signed); err != nil {
		t.Errorf("the first secret does not sign: %v", err)
	}
}

// forgery is a token of any header and claims, signed with the ticket key unless told otherwise.
type forgery struct {
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims map[string]any
}

func genuine(s *Tickets) forgery {
	return forgery{
		method: jwt.SigningMethodHS256, key: s.keys.byID[s.keys.signing].sign,
		header: map[string]any{"typ": ticketType, "kid": s.keys.signing},
		claims: map[string]any{
			"iss": ticketIssuer, "line": "sale", "epoch": 3, "sub": "visitor", "jti": "id", "place": 17,
			"iat": signed.Unix(), "exp": signed.Unix() + 60,
		},
	}
}

func (f forgery) raw(t testing.TB) string {
	t.Helper()
	token := jwt.NewWithClaims(f.method, jwt.MapClaims(f.claims))
	for k, v := range f.header {
		token.Header[k] = v
	}
	raw, err := token.SignedString(f.key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTicketRefusesWhatWeDidNotSign(t *testing.T) {
	tickets := newTickets(t, secretA)
	if _, err := tickets.Verify(genuine(tickets).raw(t), "sale", signed); err != nil {
		t.Fatalf("the forgery that changes nothing is refused: %v", err)
	}
	other, err := NewKeyring("admission", [][]byte{secretA})
	if err != nil {
		t.Fatal(err)
	}
	for name, alter := range map[string]func(*forgery){
		"no algorithm":          func(f *forgery) { f.method, f.key = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType },
		"HS384":                 func(f *forgery) { f.method = jwt.SigningMethodHS384 },
		"HS512":                 func(f *forgery) { f.method = jwt.SigningMethodHS512 },
		"another key":           func(f *forgery) { f.key = secretA },
		"the key of tokens":     func(f *forgery) { f.key = other.byID[other.signing].sign },
		"the key id of tokens":  func(f *forgery) { f.header["kid"] = other.signing },
		"an unknown key id":     func(f *forgery) { f.header["kid"] = "x" },
		"a key id of no string": func(f *forgery) { f.header["kid"] = 1 },
		"another type":          func(f *forgery) { f.header["typ"] = "JWT" },
		"the type of tokens":    func(f *forgery) { f.header["typ"] = "sluice-admission+jwt" },
		"another issuer":        func(f *forgery) { f.claims["iss"] = "somebody" },
		"no issuer":             func(f *forgery) { delete(f.claims, "iss") },
		"no line":               func(f *forgery) { delete(f.claims, "line") },
		"no subject":            func(f *forgery) { delete(f.claims, "sub") },
		"no id":                 func(f *forgery) { delete(f.claims, "jti") },
		"no place":              func(f *forgery) { delete(f.claims, "place") },
		"a negative entry time": func(f *forgery) { delete(f.claims, "place"); f.claims["entered"] = -1 },
		"a place and its time":  func(f *forgery) { f.claims["place"], f.claims["entered"] = -1, 5 },
		"a negative place":      func(f *forgery) { f.claims["place"] = -1 },
		"a place with decimals": func(f *forgery) { f.claims["place"] = 1.5 },
		"a negative epoch":      func(f *forgery) { f.claims["epoch"] = -1 },
		"no expiry":             func(f *forgery) { delete(f.claims, "exp") },
		"an expiry as text":     func(f *forgery) { f.claims["exp"] = "soon" },
	} {
		f := genuine(tickets)
		alter(&f)
		got, err := tickets.Verify(f.raw(t), "sale", signed)
		if !errors.Is(err, ErrTicketInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if got != (Ticket{}) {
			t.Errorf("%s: something is told of it: %+v", name, got)
		}
	}
}

func TestTicketRefusesGarbage(t *testing.T) {
	tickets := newTickets(t, secretA)
	raw := sign(t, tickets, someTicket())
	for name, s := range map[string]string{
		"nothing":             "",
		"no dots":             "eyJ",
		"dots alone":          "..",
		"four parts":          raw + ".x",
		"no signature":        raw[:strings.LastIndexByte(raw, '.')+1],
		"padding":             raw + "=",
		"a line break":        raw + "\n",
		"a line break within": raw[:len(raw)-5] + "\r\n" + raw[len(raw)-5:],
		"a space before":      " " + raw,
		"huge":                strings.Repeat("a", 1<<20),
		"just too long":       raw + strings.Repeat("A", maxTicket+1-len(raw)),
		"NUL":                 "\x00.\x00.\x00",
	} {
		if _, err := tickets.Verify(s, "sale", signed); !errors.Is(err, ErrTicketInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(raw) {
		if _, err := tickets.Verify(raw[:n], "sale", signed); !errors.Is(err, ErrTicketInvalid) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(raw), err)
		}
	}
}

// Every single bit counts, those that base64 leaves unused too.
func TestTicketRefusesEveryFlippedBit(t *testing.T) {
	tickets := newTickets(t, secretA)
	raw := sign(t, tickets, someTicket())
	for i := range len(raw) {
		for bit := range 8 {
			altered := []byte(raw)
			altered[i] ^= 1 << bit
			if _, err := tickets.Verify(string(altered), "sale", signed); !errors.Is(err, ErrTicketInvalid) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

// A ticket the line signs must be one it takes back, however long the subject is.
func TestTicketsOfLongSubjectsFitTheBound(t *testing.T) {
	tickets := newTickets(t, secretA)
	ticket := someTicket()
	ticket.Line, ticket.Epoch, ticket.Place = strings.Repeat("l", 32), 1<<53, 1<<53
	for _, letter := range []string{"s", "<", `"`, "\u2028"} { // most of them are six bytes each in JSON
		ticket.Subject = strings.Repeat(letter, MaxSubject/len(letter))
		raw := sign(t, tickets, ticket)
		if _, err := tickets.Verify(raw, ticket.Line, signed); err != nil {
			t.Errorf("%d bytes, with %q: %v", len(raw), letter, err)
		}
	}
}

func TestKeyringNeedsGoodSecrets(t *testing.T) {
	for name, secrets := range map[string][][]byte{
		"none":         nil,
		"a short one":  {secretA[:MinSecret-1]},
		"a short next": {secretA, {}},
	} {
		if _, err := NewKeyring("ticket", secrets); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := NewTickets(nil, time.Hour); err == nil {
		t.Error("tickets without a secret")
	}
	if _, err := NewKeyring("ticket", [][]byte{secretA}, HS256, "none"); err == nil {
		t.Error("an algorithm that is none: taken")
	}
}

// Whoever adds an algorithm or a secret changes nothing for what is out.
func TestKeyringSignsWithTheFirst(t *testing.T) {
	type made struct {
		secrets    [][]byte
		algorithms []Algorithm
	}
	for name, c := range map[string]struct{ sign, verify made }{
		"another algorithm is accepted first": {made{[][]byte{secretA}, []Algorithm{HS256}}, made{[][]byte{secretA}, []Algorithm{HS256, EdDSA}}},
		"then it signs":                       {made{[][]byte{secretA}, []Algorithm{EdDSA, HS256}}, made{[][]byte{secretA}, []Algorithm{HS256, EdDSA}}},
		"then it is alone":                    {made{[][]byte{secretA}, []Algorithm{EdDSA, HS256}}, made{[][]byte{secretA}, []Algorithm{EdDSA}}},
		"a secret is accepted first":          {made{[][]byte{secretA}, []Algorithm{EdDSA}}, made{[][]byte{secretA, secretB}, []Algorithm{EdDSA}}},
		"then it signs too":                   {made{[][]byte{secretB, secretA}, []Algorithm{EdDSA}}, made{[][]byte{secretA, secretB}, []Algorithm{EdDSA}}},
		"then it is alone too":                {made{[][]byte{secretB, secretA}, []Algorithm{EdDSA}}, made{[][]byte{secretB}, []Algorithm{EdDSA}}},
		"both at once":                        {made{[][]byte{secretB, secretA}, []Algorithm{EdDSA, HS256}}, made{[][]byte{secretA, secretB}, []Algorithm{HS256, EdDSA}}},
	} {
		from, err := NewKeyring("admission", c.sign.secrets, c.sign.algorithms...)
		if err != nil {
			t.Fatal(err)
		}
		to, err := NewKeyring("admission", c.verify.secrets, c.verify.algorithms...)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := from.Sign("x", jwt.MapClaims{"sub": "visitor"})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.MapClaims
		if err := to.Parse(raw, "x", &claims); err != nil || claims["sub"] != "visitor" {
			t.Errorf("%s: %v, %v", name, claims, err)
		}
	}
}

// The public keys are those of all secrets, and tell nothing that signs.
func TestKeyringPublic(t *testing.T) {
	both, err := NewKeyring("admission", [][]byte{secretA, secretB}, EdDSA, HS256)
	if err != nil {
		t.Fatal(err)
	}
	public := both.Public()
	if len(public) != 2 || public[0].ID != both.signing {
		t.Fatalf("%d public keys, %v first", len(public), public)
	}
	for _, p := range public {
		private, ok := both.byID[p.ID].sign.(ed25519.PrivateKey)
		if !ok || !bytes.Equal(private.Public().(ed25519.PublicKey), p.Key) || len(p.Key) != ed25519.PublicKeySize {
			t.Errorf("%s is not the public key of its id", p.ID)
		}
	}
	if shared, err := NewKeyring("admission", [][]byte{secretA, secretB}); err != nil || shared.Public() != nil {
		t.Errorf("public keys of HS256: %v, %v", shared.Public(), err)
	}
	other, err := NewKeyring("another", [][]byte{secretA}, EdDSA)
	if err != nil || other.Public()[0].ID == public[0].ID {
		t.Errorf("two purposes share a key: %v", err)
	}
}

func TestValidSubject(t *testing.T) {
	for s, want := range map[string]bool{
		"": false, "a": true, " a": true, "a:b": true, "{x}": true, "Zoë": true, "山田": true, "a\x00": false, "a\nb": false, "\x7f": false,
		"\u0085": false, "\xff": false, strings.Repeat("a", MaxSubject): true, strings.Repeat("a", MaxSubject+1): false,
	} {
		if ValidSubject(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestNewIDIsURLSafeAndItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := NewID()
		if b, err := base64.RawURLEncoding.DecodeString(id); err != nil || len(b) != 12 || seen[id] {
			t.Fatalf("id %q: %v, seen %v", id, err, seen[id])
		}
		seen[id] = true
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"default": true, "a": true, "0-9": true, strings.Repeat("x", 32): true,
		"": false, "A": false, "a_b": false, "a b": false, "a\n": false, "ä": false, "{a}": false, strings.Repeat("x", 33): false,
	} {
		if ValidID(id) != want {
			t.Errorf("ValidID(%q) = %v", id, !want)
		}
	}
}

// FuzzTicketVerify: whatever comes, only what was signed is accepted. The one
// genuine ticket is the only string that can pass.
// A holder can read their ticket: the place of an early one must not be in it, and
// the time is what its age is told from after a loss.
func TestEarlyTicketTellsNoPlace(t *testing.T) {
	tickets := newTickets(t, secretA)
	early := someTicket()
	early.Place, early.EnteredAt = 0, time.UnixMilli(1_767_323_045_678)
	payload := func(ticket Ticket) map[string]any {
		b, err := base64.RawURLEncoding.DecodeString(strings.Split(sign(t, tickets, ticket), ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var claims map[string]any
		if err := json.Unmarshal(b, &claims); err != nil {
			t.Fatal(err)
		}
		return claims
	}
	if c := payload(early); c["place"] != nil || c["entered"] != 1_767_323_045_678.0 {
		t.Errorf("the early ticket says %v", c)
	}
	if c := payload(someTicket()); c["place"] != 1_767_323_045_678_901.0 || c["entered"] != nil {
		t.Errorf("the ticket says %v", c)
	}
}

func BenchmarkTicketsSign(b *testing.B) {
	tickets, ticket := newTickets(b, secretA), someTicket()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tickets.Sign(ticket, signed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTicketsVerify(b *testing.B) {
	tickets := newTickets(b, secretA)
	raw := sign(b, tickets, someTicket())
	for name, before := range map[string]func(){
		"known": func() {},
		"unknown": func() {
			_, bucket := tickets.known.bucket(raw)
			for i := range bucket {
				bucket[i].hash.Store(0)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				before()
				if _, err := tickets.Verify(raw, "sale", signed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A key is asked for its own algorithm before it is used, and not only refused by
// the type it happens to have.
func TestKeyringPinsTheAlgorithmOfAKey(t *testing.T) {
	k, err := NewKeyring("admission", [][]byte{secretA}, EdDSA, HS256)
	if err != nil {
		t.Fatal(err)
	}
	public := k.Public()[0]
	for id, key := range k.byID {
		f := forgery{method: jwt.SigningMethodHS256, key: []byte(public.Key), claims: map[string]any{"sub": "visitor"}}
		if id != public.ID {
			f.method, f.key = jwt.SigningMethodEdDSA, k.byID[public.ID].sign
		}
		f.header = map[string]any{"typ": "x", "kid": id}
		if err := k.Parse(f.raw(t), "x", &jwt.MapClaims{}); err == nil || !strings.Contains(err.Error(), "of another algorithm") {
			t.Errorf("%s with a key of %s: %v", f.method.Alg(), key.method.Alg(), err)
		}
	}
}
