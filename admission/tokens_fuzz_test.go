package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// FuzzTokenVerify: whatever comes, only what was minted is accepted. The one
// token that was is the only string that can pass.
func FuzzTokenVerify(f *testing.F) {
	tokens := newTokens(f, secretA)
	raw := mint(f, tokens, someAdmission())
	f.Add(raw)
	f.Add(raw + "=")
	f.Add(raw[:len(raw)-1])
	f.Add(strings.Replace(raw, ".", "\n.", 1))
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add(genuine(f).raw(f)[:100])
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tokens.Verify(s, clockAt(usableAt), epochs)
		if err == nil && s != raw {
			t.Fatalf("accepted %q: %+v", s, got)
		}
		if err != nil && (!errors.Is(err, ErrTokenInvalid) || got != (Claims{})) {
			t.Fatalf("%q: %v, %+v", s, err, got)
		}
	})
}

// FuzzTokenRoundTrip: any record comes back exactly, or as what JSON makes of
// text that is not UTF-8.
func FuzzTokenRoundTrip(f *testing.F) {
	f.Add("visitor", "ticket", int64(0), int64(1_767_323_046_519), uint16(1))
	f.Add("ünïcode \x00 \u2028 \xff", "t", int64(1)<<53, int64(1), uint16(65535))
	tokens := newTokens(f, secretA)
	text := func(s string) string {
		b, _ := json.Marshal(s)
		_ = json.Unmarshal(b, &s)
		return s
	}
	f.Fuzz(func(t *testing.T, subject, ticketID string, epoch, nbf int64, ttl uint16) {
		a := queue.Admission{
			Line: "sale", Epoch: epoch, Subject: subject, TicketID: ticketID, AdmittedAt: time.UnixMilli(1),
			NotBefore: time.UnixMilli(nbf), ExpiresAt: time.UnixMilli(nbf).Add(time.Duration(ttl) * time.Millisecond),
		}
		raw, err := tokens.Mint(a)
		if err != nil || len(raw) > maxToken || nbf > 999_999_999_999_999 {
			t.Skip()
		}
		got, err := tokens.Verify(raw, clockAt(a.NotBefore), func(string) (int64, bool) { return epoch, true })
		want := Claims{
			Line: "sale", Subject: text(subject), TicketID: text(ticketID), Epoch: epoch,
			NotBefore: a.NotBefore.UTC(), ExpiresAt: a.ExpiresAt.UTC(),
		}
		if err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// FuzzMillis: every time within the range is read back to the millisecond, and
// what is read is written the same again.
func FuzzMillis(f *testing.F) {
	f.Add(int64(1_767_323_045_678))
	f.Add(int64(0))
	f.Add(int64(999_999_999_999_999))
	f.Fuzz(func(t *testing.T, ms int64) {
		if ms < 0 || ms > 999_999_999_999_999 {
			t.Skip()
		}
		text, err := millis(ms).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back millis
		if err := json.Unmarshal(text, &back); err != nil || int64(back) != ms {
			t.Fatalf("%d ms became %s became %d ms: %v", ms, text, back, err)
		}
		if want := fmt.Sprintf("%d.%03d", ms/1000, ms%1000); string(text) != want {
			t.Fatalf("%d ms became %s, want %s", ms, text, want)
		}
	})
}

// FuzzMillisText: of what is read, the text that would be written is the same time.
func FuzzMillisText(f *testing.F) {
	for _, s := range []string{"0", "1767323045.678", "1.5", "000000000001.1", "1e3", "-1", "1.2345", "\"1\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var m, back millis
		if m.UnmarshalJSON([]byte(s)) != nil {
			return
		}
		text, err := m.MarshalJSON()
		if err != nil || m < 0 || back.UnmarshalJSON(text) != nil || back != m {
			t.Fatalf("%q is %d ms, written as %s, read as %d ms: %v", s, m, text, back, err)
		}
	})
}

// FuzzTamperedToken: one byte changed anywhere, and it is no token any more.
func FuzzTamperedToken(f *testing.F) {
	f.Add(0, byte(1))
	f.Add(60, byte(0x20))
	f.Add(300, byte(4))
	tokens := newTokens(f, secretA)
	raw := mint(f, tokens, someAdmission())
	f.Fuzz(func(t *testing.T, at int, change byte) {
		if at < 0 || at >= len(raw) || change == 0 {
			t.Skip()
		}
		bent := []byte(raw)
		bent[at] ^= change
		if got, err := tokens.Verify(string(bent), clockAt(usableAt), epochs); !errors.Is(err, ErrTokenInvalid) || got != (Claims{}) {
			t.Fatalf("byte %d changed by %#x: %+v, %v", at, change, got, err)
		}
	})
}
