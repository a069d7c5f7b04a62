package admission

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"

	"sluice/queue"
)

var (
	secretA = bytes.Repeat([]byte("a"), queue.MinSecret)
	secretB = bytes.Repeat([]byte("b"), queue.MinSecret)

	admittedAt = time.UnixMilli(1_767_323_045_678).UTC()
	usableAt   = admittedAt.Add(841 * time.Millisecond)
	expiresAt  = usableAt.Add(3 * time.Minute)
)

// clockAt is a clock that stands still, whatever the line.
func clockAt(now time.Time) func(string) time.Time { return func(string) time.Time { return now } }

func someAdmission() queue.Admission {
	return queue.Admission{
		Line: "sale", Epoch: 3, Subject: "visitor", TicketID: "ticket", Place: 17,
		AdmittedAt: admittedAt, NotBefore: usableAt, ExpiresAt: expiresAt,
	}
}

func newTokens(t testing.TB, secrets ...[]byte) *Tokens {
	t.Helper()
	tokens, err := NewTokens(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func mint(t testing.TB, tokens *Tokens, a queue.Admission) string {
	t.Helper()
	raw, err := tokens.Mint(a)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// epochs knows the line "sale" alone, at epoch 3.
func epochs(line string) (int64, bool) { return 3, line == "sale" }

func TestTokenRoundTripIsExactToTheMillisecond(t *testing.T) {
	tokens := newTokens(t, secretA)
	rapid.Check(t, func(rt *rapid.T) {
		// From 1970 to the year 2100.
		at := rapid.Int64Range(1, 4_102_444_800_000).Draw(rt, "admitted at, ms")
		nbf := at + rapid.Int64Range(0, 600_000).Draw(rt, "jitter, ms")
		exp := nbf + rapid.Int64Range(1, 86_400_000).Draw(rt, "time to live, ms")
		a := queue.Admission{
			Line:       rapid.StringMatching(`[a-z0-9-]{1,32}`).Draw(rt, "line"),
			Epoch:      rapid.Int64Range(0, 1<<53).Draw(rt, "epoch"),
			Subject:    rapid.StringN(1, 100, 300).Draw(rt, "subject"),
			TicketID:   queue.NewID(),
			AdmittedAt: time.UnixMilli(at), NotBefore: time.UnixMilli(nbf), ExpiresAt: time.UnixMilli(exp),
		}
		raw := mint(t, tokens, a)
		if again := mint(t, tokens, a); again != raw {
			rt.Fatalf("the same record gave two tokens:\n%s\n%s", raw, again)
		}
		got, err := tokens.Verify(raw, clockAt(a.NotBefore), func(string) (int64, bool) { return a.Epoch, true })
		if err != nil {
			rt.Fatal(err)
		}
		want := Claims{
			Line: a.Line, Subject: a.Subject, TicketID: a.TicketID, Epoch: a.Epoch,
			NotBefore: a.NotBefore.UTC(), ExpiresAt: a.ExpiresAt.UTC(),
		}
		if got != want {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestTokenTimesOnTheWire(t *testing.T) {
	raw := mint(t, newTokens(t, secretA), someAdmission())
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"iss":"sluice","aud":"orders:sale","sub":"visitor","jti":"ticket","epoch":3,` +
		`"iat":1767323045.678,"nbf":1767323046.519,"exp":1767323226.519}`
	if string(payload) != want {
		t.Errorf("claims\n%s, want\n%s", payload, want)
	}
}

func TestTokenTimes(t *testing.T) {
	tokens := newTokens(t, secretA)
	raw := mint(t, tokens, someAdmission())
	for _, c := range []struct {
		name string
		at   time.Time
		want error
	}{
		{"long before", usableAt.Add(-time.Hour), ErrTokenTooEarly},
		{"51 ms before", usableAt.Add(-51 * time.Millisecond), ErrTokenTooEarly},
		{"1 ns more than the leeway", usableAt.Add(-earlyLeeway - 1), ErrTokenTooEarly},
		{"50 ms before", usableAt.Add(-earlyLeeway), nil},
		{"on time", usableAt, nil},
		{"in the last ns", expiresAt.Add(-1), nil},
		{"at the expiry", expiresAt, ErrTokenExpired},
		{"long after", expiresAt.Add(time.Hour), ErrTokenExpired},
	} {
		got, err := tokens.Verify(raw, clockAt(c.at), epochs)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got.TicketID != "ticket" {
			t.Errorf("%s: the genuine claims are not told: %+v", c.name, got)
		}
	}
}

func TestTokenEpochs(t *testing.T) {
	tokens := newTokens(t, secretA)
	raw := mint(t, tokens, someAdmission())
	for _, c := range []struct {
		name    string
		current int64
		known   bool
		at      time.Time
		want    error
	}{
		{"the current epoch", 3, true, usableAt, nil},
		{"a later one than the line's", 2, true, usableAt, nil},
		{"an earlier one", 4, true, usableAt, ErrTokenExpired},
		{"an earlier one before its time", 4, true, admittedAt, ErrTokenExpired},
		{"a line that is not known here", 3, false, usableAt, ErrUnknownLine},
		{"one whose token has expired", 3, false, expiresAt, ErrTokenExpired},
	} {
		got, err := tokens.Verify(raw, clockAt(c.at), func(line string) (int64, bool) {
			if line != "sale" {
				t.Errorf("asked for the epoch of %q", line)
			}
			return c.current, c.known
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got.TicketID != "ticket" {
			t.Errorf("%s: the genuine claims are not told: %+v", c.name, got)
		}
	}
}

func TestTokenRotation(t *testing.T) {
	old := mint(t, newTokens(t, secretA), someAdmission())
	rotated := newTokens(t, secretB, secretA)
	if _, err := rotated.Verify(old, clockAt(usableAt), epochs); err != nil {
		t.Errorf("signed with the second secret: %v", err)
	}
	if _, err := newTokens(t, secretB).Verify(old, clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
		t.Errorf("signed with a secret that was dropped: %v", err)
	}
	if _, err := newTokens(t, secretB).Verify(mint(t, rotated, someAdmission()), clockAt(usableAt), epochs); err != nil {
		t.Errorf("the first secret does not sign: %v", err)
	}
}

func TestTokensAndTicketsNeverPassForEachOther(t *testing.T) {
	tokens := newTokens(t, secretA)
	tickets, err := queue.NewTickets([][]byte{secretA}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := tickets.Sign(queue.Ticket{Line: "sale", Epoch: 3, Subject: "visitor", ID: "ticket", Place: 17}, admittedAt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Verify(ticket, clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
		t.Errorf("a ticket as a token: %v", err)
	}
	if _, err := tickets.Verify(mint(t, tokens, someAdmission()), "sale", usableAt); !errors.Is(err, queue.ErrTicketInvalid) {
		t.Errorf("a token as a ticket: %v", err)
	}
}

// derived is the key and its id as the keyring derives them: a forger in the
// tests may know everything but what one of the alterations takes away.
func derived(t testing.TB, purpose string, secret []byte) (key []byte, id string) {
	t.Helper()
	key, err := hkdf.Key(sha256.New, secret, nil, "sluice "+purpose, 32)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(key)
	return key, base64.RawURLEncoding.EncodeToString(sum[:6])
}

// forgery is a token made by hand, signed with the right key unless altered.
type forgery struct {
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims map[string]any
}

func genuine(t testing.TB) forgery {
	key, id := derived(t, "admission", secretA)
	return forgery{
		method: jwt.SigningMethodHS256, key: key,
		header: map[string]any{"typ": tokenType, "kid": id},
		claims: map[string]any{
			"iss": "sluice", "aud": "orders:sale", "sub": "visitor", "jti": "ticket", "epoch": 3,
			"iat": num("1767323045.678"), "nbf": num("1767323046.519"), "exp": num("1767323226.519"),
		},
	}
}

func num(s string) json.Number { return json.Number(s) }

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

func TestTokenToleratesOtherSpellingsOfItsTimes(t *testing.T) {
	tokens := newTokens(t, secretA)
	for exp, want := range map[string]int64{
		"1767323226.519": 1_767_323_226_519, "1767323226.51": 1_767_323_226_510,
		"1767323226.5": 1_767_323_226_500, "1767323226": 1_767_323_226_000,
	} {
		f := genuine(t)
		f.claims["exp"] = num(exp)
		got, err := tokens.Verify(f.raw(t), clockAt(usableAt), epochs)
		if err != nil || got.ExpiresAt.UnixMilli() != want {
			t.Errorf("exp %s: %d, %v", exp, got.ExpiresAt.UnixMilli(), err)
		}
	}
}

func TestTokenRefusesEverySingleAlteration(t *testing.T) {
	tokens := newTokens(t, secretA)
	if _, err := tokens.Verify(genuine(t).raw(t), clockAt(usableAt), epochs); err != nil {
		t.Fatalf("the forgery that changes nothing is refused: %v", err)
	}
	ticketKey, ticketID := derived(t, "ticket", secretA)
	_, edKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	alterations := map[string]func(*forgery){
		"no algorithm":             func(f *forgery) { f.method, f.key = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType },
		"HS384":                    func(f *forgery) { f.method = jwt.SigningMethodHS384 },
		"HS512":                    func(f *forgery) { f.method = jwt.SigningMethodHS512 },
		"EdDSA":                    func(f *forgery) { f.method, f.key = jwt.SigningMethodEdDSA, edKey },
		"the key of tickets":       func(f *forgery) { f.key = ticketKey },
		"the ticket key and id":    func(f *forgery) { f.key, f.header["kid"] = ticketKey, ticketID },
		"the secret itself as key": func(f *forgery) { f.key = secretA },
		"an unknown key id":        func(f *forgery) { f.header["kid"] = "x" },
		"an empty key id":          func(f *forgery) { f.header["kid"] = "" },
		"no key id":                func(f *forgery) { delete(f.header, "kid") },
		"a key id of no string":    func(f *forgery) { f.header["kid"] = []int{1} },
		"the library's type":       func(f *forgery) { delete(f.header, "typ") },
		"the type of tickets":      func(f *forgery) { f.header["typ"] = "sluice-ticket+jwt" },
		"another issuer":           func(f *forgery) { f.claims["iss"] = "sluices" },
		"another audience":         func(f *forgery) { f.claims["aud"] = "queue:sale" },
		"the line as audience":     func(f *forgery) { f.claims["aud"] = "sale" },
		"longer than any of ours":  func(f *forgery) { f.claims["sub"] = strings.Repeat("s", maxToken) },
		"an audience of no line":   func(f *forgery) { f.claims["aud"] = "orders:" },
		"an impossible line":       func(f *forgery) { f.claims["aud"] = "orders:Sale" },
		"a list of one audience":   func(f *forgery) { f.claims["aud"] = []string{"orders:sale"} },
		"a list of audiences":      func(f *forgery) { f.claims["aud"] = []string{"orders:sale", "orders:other"} },
		"a negative epoch":         func(f *forgery) { f.claims["epoch"] = -1 },
		"an epoch with decimals":   func(f *forgery) { f.claims["epoch"] = 3.5 },
		"an epoch as text":         func(f *forgery) { f.claims["epoch"] = "3" },
		"an expiry as text":        func(f *forgery) { f.claims["exp"] = "1767323226.519" },
		"an expiry in ms and more": func(f *forgery) { f.claims["exp"] = num("1767323226.5190") },
		"an expiry with exponent":  func(f *forgery) { f.claims["exp"] = num("1.8e9") },
		"a negative expiry":        func(f *forgery) { f.claims["exp"] = num("-1767323226.519") },
		"an endless expiry":        func(f *forgery) { f.claims["exp"] = num("99999999999999999999") },
		"an expiry before its use": func(f *forgery) { f.claims["exp"] = f.claims["nbf"] },
	}
	for _, claim := range []string{"iss", "aud", "sub", "jti", "epoch", "iat", "nbf", "exp"} {
		alterations["no "+claim] = func(f *forgery) { delete(f.claims, claim) }
		alterations["null "+claim] = func(f *forgery) { f.claims[claim] = nil }
		alterations["an object as "+claim] = func(f *forgery) { f.claims[claim] = map[string]int{} }
	}
	for name, alter := range alterations {
		f := genuine(t)
		alter(&f)
		got, err := tokens.Verify(f.raw(t), clockAt(usableAt), epochs)
		if !errors.Is(err, ErrTokenInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if got != (Claims{}) {
			t.Errorf("%s: something is told of it: %+v", name, got)
		}
	}
}

func TestTokenRefusesGarbage(t *testing.T) {
	tokens := newTokens(t, secretA)
	raw := mint(t, tokens, someAdmission())
	parts := strings.Split(raw, ".")
	for name, s := range map[string]string{
		"nothing":                  "",
		"dots alone":               "..",
		"four parts":               raw + ".x",
		"no signature":             parts[0] + "." + parts[1] + ".",
		"claims and signature":     parts[1] + "." + parts[2],
		"padding":                  raw + "=",
		"a line break":             raw + "\n",
		"a line break within":      raw[:len(raw)-5] + "\r\n" + raw[len(raw)-5:],
		"a space before":           " " + raw,
		"the scheme with it":       "Bearer " + raw,
		"huge":                     strings.Repeat("a", 1<<20),
		"just too long":            raw + strings.Repeat("A", maxToken+1-len(raw)),
		"not UTF-8":                "\xff\xfe.\xff.\xff",
		"claims that are no claim": parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("[]")) + "." + parts[2],
	} {
		if _, err := tokens.Verify(s, clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(raw) {
		if _, err := tokens.Verify(raw[:n], clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(raw), err)
		}
	}
}

// Every single bit counts, those that base64 leaves unused too.
func TestTokenRefusesEveryFlippedBit(t *testing.T) {
	tokens := newTokens(t, secretA)
	raw := mint(t, tokens, someAdmission())
	for i := range len(raw) {
		for bit := range 8 {
			altered := []byte(raw)
			altered[i] ^= 1 << bit
			if _, err := tokens.Verify(string(altered), clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

func TestMintRefusesARecordNobodyCouldUse(t *testing.T) {
	tokens := newTokens(t, secretA)
	for name, alter := range map[string]func(*queue.Admission){
		"no line":          func(a *queue.Admission) { a.Line = "" },
		"an invalid line":  func(a *queue.Admission) { a.Line = "Sale" },
		"no subject":       func(a *queue.Admission) { a.Subject = "" },
		"no ticket id":     func(a *queue.Admission) { a.TicketID = "" },
		"a negative epoch": func(a *queue.Admission) { a.Epoch = -1 },
		"no times": func(a *queue.Admission) {
			a.AdmittedAt, a.NotBefore, a.ExpiresAt = time.Time{}, time.Time{}, time.Time{}
		},
		"an expiry before": func(a *queue.Admission) { a.ExpiresAt = a.NotBefore },
	} {
		a := someAdmission()
		alter(&a)
		if raw, err := tokens.Mint(a); err == nil {
			t.Errorf("%s: minted %s", name, raw)
		}
	}
}

func TestNewTokensNeedsGoodSecrets(t *testing.T) {
	if _, err := NewTokens(nil); err == nil {
		t.Error("tokens without a secret")
	}
	if _, err := NewTokens([][]byte{secretA, []byte("short")}); err == nil {
		t.Error("tokens with a short secret")
	}
}

func TestMillisRefusesWhatIsNotATime(t *testing.T) {
	for _, s := range []string{`null`, `""`, `"1"`, `true`, `[]`, `{}`, `-1`, `-0.001`, `1e3`, `1.2345`, `1234567890123`, ``, `.5`, `1.`, `1.-5`, `+1`, ` 1`} {
		var m millis
		if err := m.UnmarshalJSON([]byte(s)); err == nil {
			t.Errorf("%s became %d ms", s, m)
		}
	}
}

func BenchmarkTokensMint(b *testing.B) {
	tokens, a := newTokens(b, secretA), someAdmission()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Mint(a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTokensVerify(b *testing.B) {
	tokens := newTokens(b, secretA)
	raw := mint(b, tokens, someAdmission())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(raw, clockAt(usableAt), epochs); err != nil {
			b.Fatal(err)
		}
	}
}
