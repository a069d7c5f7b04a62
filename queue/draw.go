package queue

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"
)

// The draw: who arrives before a line opens is put in an order that neither
// visitors nor operators can steer. The seed is made before anybody arrives and
// its hash published at once; ticket ids are made by the server; both together
// give the places; the seed is published once the line is open.

// drawBits is how much of the HMAC a drawn place is: as a time in µs it is before
// 2006, so that every drawn place is in front of every other.
const drawBits = 50

// MaxDrawn is the largest place that can be drawn.
const MaxDrawn = 1<<drawBits - 1

// NewSeed returns 256 random bits as 64 hex digits.
func NewSeed() string {
	var b [32]byte
	rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// HashSeed is the SHA-256 of the seed's 64 hex digits as they stand, in hex: what
// is published when a draw is announced.
func HashSeed(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return hex.EncodeToString(sum[:])
}

// DrawPlace is the place of an early ticket: the first 50 bits of
// HMAC-SHA256(seed, ticket id), the seed's hex digits as they stand being the
// key. It is never 0, which means no place.
func DrawPlace(seed, ticketID string) int64 {
	mac := hmac.New(sha256.New, []byte(seed))
	mac.Write([]byte(ticketID))
	var sum [sha256.Size]byte
	first := binary.BigEndian.Uint64(mac.Sum(sum[:0]))
	return max(1, int64(first>>(64-drawBits)))
}

// HashTickets is the SHA-256 over the sorted ticket ids, each followed by a
// newline, in hex. It sorts ids.
func HashTickets(ids []string) string {
	slices.Sort(ids)
	h := sha256.New()
	for _, id := range ids {
		_, _ = io.WriteString(h, id) // a hash takes everything
		_, _ = io.WriteString(h, "\n")
	}
	return hex.EncodeToString(h.Sum(nil))
}
