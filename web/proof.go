package web

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// A proof of work makes a newcomer's browser search for a while before it may
// enter. It stops nobody who means it; it makes a million places cost a million
// times as much as one, to whoever takes them and not to us.
//
// The proof is CHALLENGE:NONCE, such that the SHA-256 of the whole begins with so
// many zero bits. The challenge is ours by its signature, so none is kept; what is
// kept is which were used. The whole fits into one block of SHA-256.

const (
	headerProof = "X-Queue-Proof"
	// MaxProofBits is the most that may be asked for: about 17 million attempts.
	MaxProofBits = 24
	// proofTime is how long a challenge is good: a slow phone takes a minute over
	// the longest search.
	proofTime = 2 * time.Minute
	// proofSlack is for instances whose idea of the store's time differs a little.
	proofSlack = time.Second

	// A challenge is its end in ms, something random, and a signature.
	challengeEnds = 6
	challengeBody = challengeEnds + 8
	challengeSize = challengeBody + 16
	maxNonce      = 14 // characters; with challenge and colon 55 bytes, which is one block

	// usedSets hold 262,144 used challenges, 7 MB. Chance fills some sets before others,
	// where the oldest are forgotten, and could be used once more: of 500 newcomers a
	// second 1 in 300, of 1,000 1 in 30, of 2,100 1 in 5.
	usedSets = 1 << 16
)

// challengeLength is that of a challenge in base64url.
var challengeLength = base64.RawURLEncoding.EncodedLen(challengeSize)

// Proofs asks for proofs of work and checks them.
type Proofs struct {
	bits int
	keys [][]byte // the first signs
	used *pacer   // by the signed part of a challenge: once within its time
}

// NewProofs derives the keys of challenges from the secrets. A proof has so many
// leading zero bits, 1 to [MaxProofBits]; 0 asks for none, and Proofs is nil.
func NewProofs(secrets [][]byte, zeroBits int) (*Proofs, error) {
	if zeroBits == 0 {
		return nil, nil
	}
	if zeroBits < 0 || zeroBits > MaxProofBits {
		return nil, fmt.Errorf("web: a proof of work has 1 to %d bits, not %d", MaxProofBits, zeroBits)
	}
	if len(secrets) == 0 {
		return nil, errors.New("web: no secret given")
	}
	p := &Proofs{bits: zeroBits, used: newPacer(1, usedSets)}
	for i, secret := range secrets {
		if len(secret) < queue.MinSecret {
			return nil, fmt.Errorf("web: secret %d has %d bytes, at least %d are needed", i+1, len(secret), queue.MinSecret)
		}
		key, err := hkdf.Key(sha256.New, secret, nil, "sluice challenge", 32)
		if err != nil {
			return nil, fmt.Errorf("web: deriving the challenge key: %w", err)
		}
		p.keys = append(p.keys, key)
	}
	return p, nil
}

// check asks for the proof that the request presents; a proof is good once. Nil
// Proofs ask for none. Errors: [errProof], with a new challenge to answer.
func (p *Proofs) check(c *fiber.Ctx, l *line) error {
	if p == nil {
		return nil
	}
	why := p.judge(c.Get(headerProof), l.id, l.watch.Now())
	if why == "" {
		return nil
	}
	return &explained{error: errProof, detail: why,
		more: `,"challenge":"` + p.challenge(l.id, l.watch.Now()) + `","bits":` + strconv.Itoa(p.bits)}
}

// judge says what is wrong with a proof; nothing of a good one, which is used up
// then. What costs least is looked at first.
func (p *Proofs) judge(proof, line string, now time.Time) string {
	if proof == "" {
		return "A proof of work is needed: find a nonce such that the SHA-256 of challenge:nonce begins with that many zero bits, and send challenge:nonce as X-Queue-Proof."
	}
	challenge, nonce, ok := strings.Cut(proof, ":")
	if !ok || len(challenge) != challengeLength || len(nonce) < 1 || len(nonce) > maxNonce {
		return "The proof is not one of challenge:nonce."
	}
	if sum := sha256.Sum256([]byte(proof)); bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) < p.bits {
		return "The proof has too few zero bits."
	}
	var raw [challengeSize]byte
	if n, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(challenge)); err != nil || n != len(raw) || !p.signed(raw[:], line) {
		return "The challenge is not one of this line."
	}
	var ends [8]byte
	copy(ends[8-challengeEnds:], raw[:challengeEnds])
	if left := int64(binary.BigEndian.Uint64(ends[:])) - now.UnixMilli(); left <= 0 || left > (proofTime+proofSlack).Milliseconds() {
		return "The challenge has expired."
	}
	if p.used.take(p.used.key(string(raw[:challengeBody])), proofTime+proofSlack) > 0 {
		return "The proof has been used."
	}
	return ""
}

// challenge makes one for a line.
func (p *Proofs) challenge(line string, now time.Time) string {
	var raw [challengeSize]byte
	var ends [8]byte
	binary.BigEndian.PutUint64(ends[:], uint64(now.Add(proofTime).UnixMilli()))
	copy(raw[:], ends[8-challengeEnds:])
	rand.Read(raw[challengeEnds:challengeBody]) // never fails, by its contract
	copy(raw[challengeBody:], sign(p.keys[0], raw[:challengeBody], line))
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func (p *Proofs) signed(raw []byte, line string) bool {
	good := false
	for _, key := range p.keys {
		good = hmac.Equal(raw[challengeBody:], sign(key, raw[:challengeBody], line)) || good
	}
	return good
}

// sign is half of an HMAC-SHA256, of a challenge for a line.
func sign(key, body []byte, line string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	mac.Write([]byte(line))
	return mac.Sum(nil)[:challengeSize-challengeBody]
}
