package queue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// FuzzTicketVerify: of all strings only the one that was signed passes.
func FuzzTicketVerify(f *testing.F) {
	tickets := newTickets(f, secretA)
	ticket := someTicket()
	ticket.ID = "id"
	raw := sign(f, tickets, ticket)
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add(strings.ToUpper(raw))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tickets.Verify(s, "sale", signed)
		if err == nil && s != raw {
			t.Fatalf("accepted %q: %+v", s, got)
		}
		if err != nil && !errors.Is(err, ErrTicketInvalid) {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

// FuzzTicketRoundTrip: any subject comes back as it was signed, or as what JSON
// makes of text that is not UTF-8.
func FuzzTicketRoundTrip(f *testing.F) {
	f.Add("visitor", int64(1), int64(0))
	f.Add("ünïcode \x00 \u2028 \xff", int64(1)<<62, int64(1)<<53)
	tickets := newTickets(f, secretA)
	f.Fuzz(func(t *testing.T, subject string, place, epoch int64) {
		if subject == "" || len(subject) > 200 || place <= 0 || epoch < 0 {
			t.Skip()
		}
		text, _ := json.Marshal(subject)
		var want string
		_ = json.Unmarshal(text, &want)
		if len(text) > 500 {
			t.Skip()
		}
		raw := sign(t, tickets, Ticket{Line: "sale", Epoch: epoch, Subject: subject, ID: "id", Place: place})
		got, err := tickets.Verify(raw, "sale", signed)
		if err != nil || got.Subject != want || got.Place != place || got.Epoch != epoch {
			t.Fatalf("%q, place %d, epoch %d: %+v, %v", subject, place, epoch, got, err)
		}
	})
}

// FuzzEarlyTicket: an early ticket keeps its time to the millisecond, and has no place.
func FuzzEarlyTicket(f *testing.F) {
	f.Add(int64(1_767_323_045_678))
	f.Add(int64(1))
	tickets := newTickets(f, secretA)
	f.Fuzz(func(t *testing.T, ms int64) {
		if ms <= 0 || ms > 1<<50 {
			t.Skip()
		}
		raw := sign(t, tickets, Ticket{Line: "sale", Subject: "s", ID: "id", EnteredAt: time.UnixMilli(ms)})
		got, err := tickets.Verify(raw, "sale", signed)
		if err != nil || !got.Early() || got.EnteredAt.UnixMilli() != ms {
			t.Fatalf("given at %d ms: %+v, %v", ms, got, err)
		}
	})
}

// FuzzTamperedTicket: one byte changed anywhere, and it is no ticket any more, neither
// of its line nor of another.
func FuzzTamperedTicket(f *testing.F) {
	f.Add(0, byte(1))
	f.Add(40, byte(0x20))
	f.Add(250, byte(4))
	tickets := newTickets(f, secretA)
	raw := sign(f, tickets, someTicket())
	f.Fuzz(func(t *testing.T, at int, change byte) {
		if at < 0 || at >= len(raw) || change == 0 {
			t.Skip()
		}
		bent := []byte(raw)
		bent[at] ^= change
		for _, line := range []string{"sale", "default"} {
			if got, err := tickets.Verify(string(bent), line, signed); !errors.Is(err, ErrTicketInvalid) || got != (Ticket{}) {
				t.Fatalf("byte %d changed by %#x: %+v, %v", at, change, got, err)
			}
		}
	})
}
