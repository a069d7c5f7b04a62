package queue

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// seal signs and verifies tickets with one HS256 key as the JWT library would, byte for
// byte, without reading any JSON before it is known to be ours: a crowd presents a ticket
// with every poll, and nearly each of those is exactly what we wrote. What it does not
// know is for the library. Safe for concurrent use.
type seal struct {
	header string // encoded, with its dot
	work   sync.Pool
}

// sealing is what one use of a seal needs.
type sealing struct {
	mac               hash.Hash
	text, claims, sum []byte
}

// macLength is the length of an encoded HS256 signature.
const macLength = 43

// seals of the HS256 keys, the first of which signs.
func (k *Keyring) seals(typ string) ([]*seal, error) {
	var all []*seal
	for id, key := range k.byID {
		secret, ok := key.sign.([]byte)
		if !ok {
			continue
		}
		header, err := json.Marshal(map[string]any{"alg": string(HS256), "kid": id, "typ": typ})
		if err != nil {
			return nil, fmt.Errorf("queue: a header: %w", err)
		}
		s := &seal{header: base64.RawURLEncoding.EncodeToString(header) + "."}
		s.work.New = func() any { return &sealing{mac: hmac.New(sha256.New, secret)} }
		if all = append(all, s); id == k.signing {
			all[0], all[len(all)-1] = s, all[0]
		}
	}
	return all, nil
}

// of is the signature of a text.
func (w *sealing) of(text []byte) []byte {
	w.mac.Reset()
	_, _ = w.mac.Write(text) // never fails, by its contract
	w.sum = w.mac.Sum(w.sum[:0])
	return w.sum
}

// sign makes a ticket of plain claims.
func (s *seal) sign(c *ticketClaims) string {
	w, _ := s.work.Get().(*sealing)
	defer s.work.Put(w)
	w.claims = c.appendTo(w.claims[:0])
	w.text = base64.RawURLEncoding.AppendEncode(append(w.text[:0], s.header...), w.claims)
	mac := w.of(w.text)
	w.text = base64.RawURLEncoding.AppendEncode(append(w.text, '.'), mac)
	return string(w.text)
}

// open reads a ticket of a line if this key has signed it, in the one spelling that sign
// has. Its false says nothing.
func (s *seal) open(raw, line string, c *ticketClaims) bool {
	end := len(raw) - macLength - 1
	if !strings.HasPrefix(raw, s.header) || end < len(s.header) || raw[end] != '.' {
		return false
	}
	w, _ := s.work.Get().(*sealing)
	defer s.work.Put(w)
	// The signature that would be right is spelt out, and compared in constant time: what
	// only decodes to the same bytes is not the same.
	w.text = append(w.text[:0], raw...)
	right := base64.RawURLEncoding.AppendEncode(w.claims[:0], w.of(w.text[:end]))
	w.claims = right
	if subtle.ConstantTimeCompare(right, w.text[end+1:]) != 1 {
		return false
	}
	var err error
	w.claims, err = base64.RawURLEncoding.AppendDecode(w.claims[:0], w.text[len(s.header):end])
	return err == nil && c.scan(w.claims, line)
}
