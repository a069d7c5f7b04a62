package web

import (
	"crypto/ed25519"
	"encoding/base64"

	"github.com/gofiber/fiber/v2"
)

// jwksCache is how long others may keep our public keys. Whoever changes the secret
// waits longer than that before the new one signs (docs/operations.md).
const jwksCache = "public, max-age=300"

// jwk is a public Ed25519 key (RFC 8037).
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

func newJWK(id string, key ed25519.PublicKey) jwk {
	return jwk{Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key), ID: id, Algorithm: "EdDSA", Use: "sig"}
}

// jwks are the keys that somebody else verifies admission tokens with. There is
// nothing to verify with, and no such page, unless tokens are signed with EdDSA.
func (s *Server) jwks(c *fiber.Ctx) error {
	public := s.cfg.Tokens.PublicKeys()
	if len(public) == 0 {
		return explain(errNotFound, "Admission tokens are not signed with EdDSA here; see admission.algorithms.")
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{make([]jwk, len(public))}
	for i, p := range public {
		set.Keys[i] = newJWK(p.ID, p.Key)
	}
	c.Set(fiber.HeaderCacheControl, jwksCache)
	return reply(c, fiber.StatusOK, set)
}
