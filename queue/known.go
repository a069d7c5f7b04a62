package queue

import (
	"crypto/subtle"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

// knownBuckets times knownEach tickets are known at most, each of which takes 600 bytes,
// and its bucket's share of a cache line.
const (
	knownBuckets = 1 << 14
	knownEach    = 4
)

// knownLongest is the longest that is remembered, in bytes; a ticket of an anonymous
// visitor has 300, and all that has to be known of one has to be bounded.
const knownLongest = 512

// known are tickets that were found genuine, by their bytes: a visitor presents the same
// ones with each poll. Whether a ticket has expired is not part of it. Safe for
// concurrent use, without a lock: whoever finds something halfway put there compares it,
// and finds that it is another one.
type known struct {
	seed    maphash.Seed
	buckets [][knownEach]knownSlot
}

type knownSlot struct {
	hash   atomic.Uint64
	ticket atomic.Pointer[knownTicket]
}

type knownTicket struct {
	raw string
	Ticket
}

func newKnown() *known {
	return &known{seed: maphash.MakeSeed(), buckets: make([][knownEach]knownSlot, knownBuckets)}
}

func (k *known) bucket(raw string) (hash uint64, b *[knownEach]knownSlot) {
	hash = maphash.String(k.seed, raw)
	return hash, &k.buckets[hash%knownBuckets]
}

// find is the ticket of these bytes, nil if it is not known. What a ticket says is no
// secret; how long it takes does not tell how much of a signature was guessed right.
func (k *known) find(raw string) *Ticket {
	said := len(raw) - macLength
	hash, b := k.bucket(raw)
	for i := range b {
		if b[i].hash.Load() != hash {
			continue
		}
		if t := b[i].ticket.Load(); t != nil && len(t.raw) == len(raw) && said > 0 && t.raw[:said] == raw[:said] &&
			subtle.ConstantTimeCompare([]byte(t.raw[said:]), []byte(raw[said:])) == 1 {
			return &t.Ticket
		}
	}
	return nil
}

// add remembers a genuine ticket, in place of any other of its bucket: one is as likely
// to come again as another.
func (k *known) add(raw string, t Ticket) {
	if len(raw) > knownLongest {
		return
	}
	text := raw + t.Subject + t.ID // beside each other, as they are read
	t.Subject, t.ID = text[len(raw):len(raw)+len(t.Subject)], text[len(raw)+len(t.Subject):]
	hash, b := k.bucket(raw)
	slot := &b[rand.IntN(knownEach)]
	for i := range b {
		if b[i].ticket.Load() == nil {
			slot = &b[i]
			break
		}
	}
	slot.hash.Store(hash)
	slot.ticket.Store(&knownTicket{text[:len(raw)], t})
}
