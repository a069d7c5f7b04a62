package web

import (
	"errors"
	"math/rand/v2"
	"mime"
	"net/url"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
	"sluice/web/pages"
)

// The waiting page for whoever runs no scripts: rendered here from the ticket in the
// cookie, asking again by itself, with forms in place of buttons. It enters, looks up
// and leaves as the API does, by the same limits.

// plainPolicy is that of a page that runs nothing.
const plainPolicy = "default-src 'none'; style-src 'self'; img-src 'self' http: https: data:; font-src 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

const (
	// turnAgain is how often the page of somebody admitted says anew how long there is.
	turnAgain = 30 * time.Second
	// closedAgain is how often a place in a closed line is looked at: it may open again.
	closedAgain = time.Minute

	// keptMark is in the address behind a form that took a place: without the cookie
	// there now, the browser keeps none.
	keptMark = "kept"
)

// plain shows where the visitor stands.
func (s *Server) plain(c *fiber.Ctx) error {
	p := s.plainPage(c)
	l, subject, err := s.plainAsked(c)
	if err != nil {
		return s.plainTrouble(c, p, err)
	}
	standing, _, err := s.lookUp(c, l, subject)
	if err != nil {
		return s.plainTrouble(c, p, err)
	}
	if err := s.plainStanding(c, &p, l, standing); err != nil {
		return err
	}
	return s.showPlain(c, p)
}

// plainDo does what a form of the page asks for, and leads back to it.
func (s *Server) plainDo(c *fiber.Ctx) error {
	if err := s.welcome(c); err != nil {
		return err
	}
	p := s.plainPage(c)
	l, subject, err := s.plainAsked(c)
	if err != nil {
		return s.plainTrouble(c, p, err)
	}
	wanted, err := decodeForm(c)
	if err != nil {
		return err
	}
	mark := ""
	switch wanted.Get("do") {
	case "enter":
		mark = keptMark
		_, _, err = s.takePlace(c, l, subject)
	case "leave":
		if err = s.giveUp(c, l, subject); errors.Is(err, errTicketMissing) {
			err = nil // it is given up already
		}
	default:
		return explain(errInvalidRequest, `The form must say do=enter or do=leave.`)
	}
	if err != nil {
		return s.plainTrouble(c, p, err)
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderLocation, pages.PlainAddress(l.id, p.Asked, mark))
	c.Status(fiber.StatusSeeOther)
	return nil
}

// decodeForm reads the body of a plain HTML form.
func decodeForm(c *fiber.Ctx) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if err != nil || kind != fiber.MIMEApplicationForm || c.Get(fiber.HeaderContentEncoding) != "" {
		return nil, explain(errMediaType, "The body must be "+fiber.MIMEApplicationForm+".")
	}
	form, err := url.ParseQuery(string(c.Request().Body()))
	if err != nil {
		return nil, explain(errInvalidRequest, "The form is not well-formed.")
	}
	return form, nil
}

// plainPage is a page in the visitor's language.
func (s *Server) plainPage(c *fiber.Ctx) pages.Plain {
	p := pages.Plain{Line: s.shownLine(c)}
	asked := c.Query("lang")
	p.Language = s.pages.Choose(asked, c.Get(fiber.HeaderAcceptLanguage))
	if asked != "" { // and is kept as what it led to: the request shows nowhere
		p.Asked = p.Language
	}
	return p
}

// plainAsked is [Server.asked], once the process has its stores.
func (s *Server) plainAsked(c *fiber.Ctx) (*line, string, error) {
	if len(s.cfg.Start.Missing()) > 0 {
		return nil, "", errAwaitsLine
	}
	return s.asked(c)
}

// plainStanding fills a page with where its visitor stands.
func (s *Server) plainStanding(c *fiber.Ctx, p *pages.Plain, l *line, st queue.Standing) error {
	view, _ := l.watch.View()
	p.State, p.InLine = pages.State(st.State), st.State.Live()
	c.Set(headerState, string(st.State))
	switch st.State {
	case queue.Waiting:
		p.Position, p.Length, p.Reason = st.Position, st.Length, l.reason(&view)
		if e, ok := view.Estimate(st.Position); ok {
			p.Range = [2]time.Duration{e.Low, e.High}
		}
		p.Message, p.Again = view.Settings.Message, s.plainAgain(l, view, st)
	case queue.Scheduled:
		p.Length, p.OpensIn = st.Length, l.opensIn(&view)
		if at := view.Settings.OpensAt; at != nil {
			p.OpensAt = *at
		}
		p.Message, p.Again = view.Settings.Message, s.plainAgain(l, view, st)
	case queue.Closed:
		p.Message, p.Again = view.Settings.Message, closedAgain+rand.N(closedAgain/4)
	case queue.Admitted:
		token, err := s.cfg.Tokens.Mint(st.Admission)
		if err != nil {
			return err
		}
		now := l.watch.Now()
		p.Token, p.UsableIn, p.ExpiresIn = token, max(0, st.Admission.NotBefore.Sub(now)), st.Admission.ExpiresAt.Sub(now)
		if p.Again = p.UsableIn; p.UsableIn == 0 {
			p.Again = min(turnAgain, p.ExpiresIn+time.Second)
		}
	}
	return nil
}

// plainAgain is when the page asks again, in the whole seconds that a browser counts.
func (s *Server) plainAgain(l *line, view queue.View, st queue.Standing) time.Duration {
	again := time.Duration(ceilSeconds(s.pollAfter(l, &view, st))) * time.Second
	s.told(l, st, again)
	return again
}

// plainTrouble shows what keeps the visitor from standing anywhere, where it is
// something that a page can say; anything else stays an error.
func (s *Server) plainTrouble(c *fiber.Ctx, p pages.Plain, err error) error {
	problem, known := problemOf(err)
	if !known {
		return err
	}
	asking := c.Method() != fiber.MethodPost // else trying again is to press the button again
	p.InLine = c.Cookies(cookieName(p.Line)) != ""
	status := problem.status
	switch problem.code {
	case "ticket_missing":
		p.State, p.NoCookie, status = pages.None, c.Query(keptMark) != "", fiber.StatusOK
	case "ticket_invalid", "ticket_expired":
		p.State, status = pages.Old, fiber.StatusOK
	case "identity_missing":
		p.State, p.Scripted = pages.Login, s.cfg.Identity == IdentityJWT
		c.Set(fiber.HeaderWWWAuthenticate, challenge(problem.code))
	case "line_not_found":
		p.State = pages.Unknown
	case "line_closed":
		p.State = pages.State(queue.Closed)
		p.Message = s.message(p.Line)
	case "queue_full":
		p.State, p.RetryIn = pages.Full, problem.retry
	case "proof_required":
		p.State = pages.Proof
	case "rate_limited":
		p.State, p.RetryIn = pages.Hasty, problem.retry
	case "queue_unavailable":
		p.State, p.RetryIn = pages.Blocked, problem.retry
		p.Message = s.message(p.Line)
	default:
		return err
	}
	if asking && p.InLine && p.RetryIn > 0 {
		p.Again, p.RetryIn = p.RetryIn, 0
	}
	if problem.retry > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(ceilSeconds(problem.retry), 10))
	}
	if status != fiber.StatusOK {
		s.noteProblem(c, "public", problem, err)
	}
	c.Status(status)
	return s.showPlain(c, p)
}

// message is what the operator says to those of a line.
func (s *Server) message(id string) string {
	l := s.lines.get(id)
	if l == nil {
		return ""
	}
	view, _ := l.watch.View()
	return view.Settings.Message
}

func (s *Server) showPlain(c *fiber.Ctx, p pages.Plain) error {
	body, err := s.pages.Plain(p)
	if err != nil {
		return err
	}
	policy := plainPolicy
	if target := s.pages.FormTarget(); target != "" {
		policy += " " + target
	}
	pageHeaders(c, policy)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderVary, "Cookie, Accept-Language")
	c.Set(fiber.HeaderContentLanguage, p.Language)
	c.Context().SetContentType(fiber.MIMETextHTMLCharsetUTF8)
	c.Response().SetBody(body)
	return nil
}
