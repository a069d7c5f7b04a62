package web

import (
	"errors"

	"github.com/gofiber/fiber/v2"

	"sluice/identity"
	"sluice/queue"
)

// Ways of telling a visitor from another.
const (
	// IdentityAnonymous: the server names visitors, and their ticket alone says who
	// they are.
	IdentityAnonymous = "anonymous"
	// IdentityHeader: a trusted proxy names them in X-User-Id.
	IdentityHeader = "header"
	// IdentityJWT: the shop's login token names them.
	IdentityJWT = "jwt"
)

const headerUserID = "X-User-Id"

var (
	errIdentityMissing = errors.New("web: nobody says who is asking")
	errOtherVisitor    = errors.New("web: the token is another visitor's")
)

// visitor is who asks, by the word of the shop; empty where visitors are anonymous.
func (s *Server) visitor(c *fiber.Ctx, l *line) (subject string, err error) {
	switch s.cfg.Identity {
	case IdentityHeader:
		if subject, err = s.named(c); err != nil {
			return "", err
		}
	case IdentityJWT:
		raw, err := bearer(c)
		if err != nil {
			return "", explain(errIdentityMissing, "A login token is needed: Authorization: Bearer <token>.")
		}
		if subject, err = s.cfg.Logins.Subject(raw, l.watch.Now()); err != nil {
			return "", whyRefused(err)
		}
	default:
		return "", nil
	}
	if !queue.ValidSubject(subject) {
		return "", explain(errIdentityMissing, "The name of the visitor must be 1 to %d bytes of UTF-8 without control characters.", queue.MaxSubject)
	}
	return subject, nil
}

// named is who a trusted proxy says is asking. Of two names one may be the visitor's
// own invention, which the proxy failed to remove: neither is believed.
func (s *Server) named(c *fiber.Ctx) (string, error) {
	if !s.trusts(remote(c)) {
		return "", explain(errIdentityMissing, "Who is asking is told by the proxy in front, and this request did not come through it.")
	}
	names := c.Request().Header.PeekAll(headerUserID)
	if len(names) != 1 {
		return "", explain(errIdentityMissing, "The proxy in front must name the visitor once, in X-User-Id.")
	}
	return string(names[0]), nil
}

// whyRefused tells those who wrote the shop's login what is wrong with its token.
func whyRefused(err error) error {
	if why := (*identity.Refusal)(nil); errors.As(err, &why) {
		return explain(errIdentityMissing, "The login token is refused: %s.", why.Reason)
	}
	return err
}

// sameVisitor refuses a token that is another's than the visitor whom the proxy
// names. On order routes identity is not asked for otherwise: the token says it.
func (s *Server) sameVisitor(c *fiber.Ctx, subject string) error {
	if s.cfg.Identity != IdentityHeader || !s.trusts(remote(c)) {
		return nil
	}
	for _, name := range c.Request().Header.PeekAll(headerUserID) {
		if len(name) > 0 && string(name) != subject {
			return errOtherVisitor
		}
	}
	return nil
}
