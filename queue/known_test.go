package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// What is known of a ticket is told for exactly its bytes, for its line, and until it
// expires.
func TestKnownTickets(t *testing.T) {
	tickets := newTickets(t, secretA)
	raw := sign(t, tickets, someTicket())
	first, err := tickets.Verify(raw, "sale", signed)
	if err != nil || tickets.known.find(raw) == nil {
		t.Fatal(err, "a genuine ticket is not remembered")
	}
	if again, err := tickets.Verify(raw, "sale", signed); err != nil || again != first {
		t.Errorf("%+v, %v the second time, %+v the first", again, err, first)
	}
	if got, err := tickets.Verify(raw, "sale", signed.Add(time.Hour)); !errors.Is(err, ErrTicketExpired) || got.ID != first.ID {
		t.Errorf("%+v, %v when it has expired", got, err)
	}
	if got, err := tickets.Verify(raw, "other", signed); !errors.Is(err, ErrTicketInvalid) || got != (Ticket{}) {
		t.Errorf("%+v, %v for another line", got, err)
	}
	for _, bent := range []string{raw[:len(raw)-1], raw + "A", "A" + raw[1:], raw[:len(raw)-1] + "=", ""} {
		hash, bucket := tickets.known.bucket(bent)
		bucket[2].hash.Store(hash) // as if the two had the same
		bucket[2].ticket.Store(&knownTicket{raw, first})
		if got, err := tickets.Verify(bent, "sale", signed); !errors.Is(err, ErrTicketInvalid) || got != (Ticket{}) {
			t.Errorf("%q: %+v, %v", bent, got, err)
		}
	}
}

// What is refused is not remembered, nor is what is longer than tickets are.
func TestNotKnown(t *testing.T) {
	tickets := newTickets(t, secretA)
	long := someTicket()
	long.Subject = strings.Repeat("\u00fc", MaxSubject)
	for _, raw := range []string{sign(t, newTickets(t, secretB), someTicket()), sign(t, tickets, long), ""} {
		_, _ = tickets.Verify(raw, "sale", signed)
		if tickets.known.find(raw) != nil {
			t.Errorf("remembered: %q", raw)
		}
	}
}

// All that is known is bounded, and most of what still fits is known.
func TestKnownTicketsAreBounded(t *testing.T) {
	k := newKnown()
	found := func(n int) (share float64) {
		for i := range n {
			if got := k.find(padded(i)); got != nil && got.Subject == fmt.Sprint("subject ", i) && got.ID == fmt.Sprint("id ", i) {
				share += 1 / float64(n)
			}
		}
		return share
	}
	for i := range 3 * knownBuckets {
		k.add(padded(i), Ticket{Subject: fmt.Sprint("subject ", i), ID: fmt.Sprint("id ", i)})
	}
	if share := found(3 * knownBuckets); share < 0.75 {
		t.Errorf("%.2f of the tickets are known, though all would fit", share)
	}
	for i := range 40 * knownBuckets {
		k.add(padded(i), Ticket{})
	}
	filled := 0
	for b := range k.buckets {
		for i := range k.buckets[b] {
			if k.buckets[b][i].ticket.Load() != nil {
				filled++
			}
		}
	}
	if filled != knownBuckets*knownEach {
		t.Errorf("%d are known", filled)
	}
}

// padded is as long as a ticket's signature at least.
func padded(i int) string { return fmt.Sprintf("%0*d", 2*macLength, i) }

// A request's bytes are another request's a moment later.
func TestKnownTicketsAreCopies(t *testing.T) {
	tickets := newTickets(t, secretA)
	raw := sign(t, tickets, someTicket())
	buffer := []byte(raw)
	if _, err := tickets.Verify(unsafe.String(&buffer[0], len(buffer)), "sale", signed); err != nil {
		t.Fatal(err)
	}
	clear(buffer)
	if tickets.known.find(raw) == nil {
		t.Error("it is forgotten with the bytes that it was read from")
	}
}
