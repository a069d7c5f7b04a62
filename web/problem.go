package web

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"sluice/admission"
	"sluice/identity"
	"sluice/journal"
	"sluice/orders"
	"sluice/queue"
)

// Errors of this package; the domain packages have their own.
var (
	errInvalidRequest = errors.New("web: invalid request")
	errTicketMissing  = errors.New("web: no ticket")
	errTokenMissing   = errors.New("web: no token")
	errOriginRefused  = errors.New("web: origin refused")
	errNotFound       = errors.New("web: not found")
	errLineNotFound   = errors.New("web: no such line")
	errMethod         = errors.New("web: method not allowed")
	errTimeout        = errors.New("web: the request took too long to arrive")
	errBodyTooLarge   = errors.New("web: body too large")
	errMediaType      = errors.New("web: unsupported media type")
	errHeaderTooLarge = errors.New("web: header too large")
	errRateLimited    = errors.New("web: too often")
	errProof          = errors.New("web: a proof of work is needed")
)

// ErrTooManyLines is what Config.Create says when there may be no more lines.
var ErrTooManyLines = errors.New("web: too many lines")

// problem is what an error means on the wire. detail is for those who call the
// API; retry, where set, is when trying again makes sense. routine is a 503
// that a crowd or a stop explains: nothing is broken that should be logged.
type problem struct {
	err     error
	status  int
	code    string
	detail  string
	retry   time.Duration
	routine bool
	more    string // further members of the problem, in JSON, each after a comma
}

// problems is the one place that decides status and code. The first match wins.
var problems = []problem{
	{err: errInvalidRequest, status: 400, code: "invalid_request", detail: "The request is not understood."},
	{err: orders.ErrInvalid, status: 400, code: "invalid_request", detail: "The request breaks a rule."},

	{err: errTicketMissing, status: 401, code: "ticket_missing", detail: "A ticket is needed: the cookie of the line or the header X-Queue-Ticket."},
	{err: queue.ErrTicketInvalid, status: 401, code: "ticket_invalid", detail: "The ticket is not one of this line."},
	{err: queue.ErrTicketExpired, status: 401, code: "ticket_expired", detail: "The ticket has expired."},
	{err: queue.ErrEpoch, status: 401, code: "ticket_expired", detail: "The line was started anew after this ticket was given out."},
	{err: errTokenMissing, status: 401, code: "token_missing", detail: "A token is needed: Authorization: Bearer <token>."},
	{err: admission.ErrTokenInvalid, status: 401, code: "token_invalid", detail: "The token is not valid."},
	{err: admission.ErrTokenExpired, status: 401, code: "token_expired", detail: "The token has expired."},

	{err: errIdentityMissing, status: 401, code: "identity_missing", detail: "It must be known who is asking."},

	{err: orders.ErrDeclined, status: 402, code: "payment_declined", detail: "The payment was declined. It may be tried again."},

	{err: orders.ErrOtherLine, status: 403, code: "token_other_line", detail: "This is for visitors of another line."},
	{err: errOtherVisitor, status: 403, code: "token_other_visitor", detail: "The token is another visitor's."},
	{err: orders.ErrOrderOfAnother, status: 403, code: "order_of_another", detail: "The order was made with another token."},
	{err: errOriginRefused, status: 403, code: "origin_refused", detail: "The request comes from a place that may not make it."},
	{err: errProof, status: 403, code: "proof_required", detail: "A proof of work is needed."},

	{err: errNotFound, status: 404, code: "not_found", detail: "There is nothing here."},
	{err: errLineNotFound, status: 404, code: "line_not_found", detail: "There is no such line."},
	{err: orders.ErrProductNotFound, status: 404, code: "product_not_found", detail: "There is no such product."},
	{err: orders.ErrCouponNotFound, status: 404, code: "coupon_not_found", detail: "There is no such coupon."},
	{err: orders.ErrNoProvider, status: 404, code: "not_found", detail: "Payments are not taken here."},
	{err: orders.ErrOrderNotFound, status: 404, code: "order_not_found", detail: "There is no such order."},

	{err: errMethod, status: 405, code: "method_not_allowed", detail: "The method is not allowed here."},
	{err: errTimeout, status: 408, code: "request_timeout", detail: "The request did not arrive in time."},
	{err: errBodyTooLarge, status: 413, code: "body_too_large", detail: "The body may have 64 KiB at most."},
	{err: errMediaType, status: 415, code: "unsupported_media_type", detail: "The body must be application/json."},
	{err: errHeaderTooLarge, status: 431, code: "header_too_large", detail: "The header may have 16 KiB at most."},

	{err: orders.ErrSoldOut, status: 409, code: "sold_out", detail: "There is not enough left. The token is still good."},
	{err: orders.ErrTokenSpent, status: 409, code: "token_spent", detail: "The token has made another order."},
	{err: queue.ErrClosed, status: 409, code: "line_closed", detail: "The line has closed."},
	{err: queue.ErrStarted, status: 409, code: "line_started", detail: "The line has started: its opening cannot be put off any more."},
	{err: ErrTooManyLines, status: 409, code: "too_many_lines", detail: "There are as many lines as there may be."},
	{err: orders.ErrCouponInvalid, status: 409, code: "coupon_invalid", detail: "The coupon code is not valid. The token is still good."},
	{err: orders.ErrCouponSpent, status: 409, code: "coupon_spent", detail: "The coupon has been used. The token is still good."},
	{err: orders.ErrOrderState, status: 409, code: "order_state", detail: "The order is cancelled."},

	{err: admission.ErrTokenTooEarly, status: 425, code: "token_too_early", detail: "The token is not usable yet.", retry: time.Second},

	{err: errRateLimited, status: 429, code: "rate_limited", detail: "Too often. Tickets stay good, and the place is kept.", retry: time.Second},

	{err: orders.ErrOverloaded, status: 503, code: "overloaded", detail: "Too much to do at once; nothing was done and the token is still good.", retry: time.Second, routine: true},
	{err: orders.ErrStopping, status: 503, code: "shutting_down", detail: "This server is stopping; nothing was done and the token is still good.", retry: time.Second, routine: true},
	{err: admission.ErrBlocked, status: 503, code: "queue_unavailable", detail: "Nobody is let in right now. Tickets stay good.", retry: leastBlocked, routine: true},
	{err: journal.ErrUnavailable, status: 503, code: "queue_unavailable", detail: "The journal does not answer right now.", retry: 2 * time.Second},
	{err: queue.ErrUnavailable, status: 503, code: "queue_unavailable", detail: "The line does not answer right now. Tickets stay good.", retry: 2 * time.Second},
	{err: identity.ErrUnavailable, status: 503, code: "queue_unavailable", detail: "Who is asking cannot be told right now. Tickets stay good.", retry: 2 * time.Second},
	{err: errAwaitsLine, status: 503, code: "queue_unavailable", detail: "This server is starting and does not reach its stores yet. Tickets stay good.", retry: 2 * time.Second, routine: true},
	{err: errAwaitsDatabase, status: 503, code: "database_unavailable", detail: "This server is starting and does not reach its stores yet. Tokens stay good.", retry: 2 * time.Second, routine: true},
	{err: admission.ErrUnknownLine, status: 503, code: "queue_unavailable", detail: "The token's line is not known here yet. The token is still good.", retry: time.Second},
	{err: queue.ErrFull, status: 503, code: "queue_full", detail: "The line is full.", retry: 5 * time.Second, routine: true},
	{err: orders.ErrDatabase, status: 503, code: "database_unavailable", detail: "The database does not answer right now. The token is still good.", retry: 2 * time.Second},
}

var internal = problem{status: 500, code: "internal_error", detail: "Something went wrong here. It has been noted."}

// explained is an error with a text or a time that is safe and useful to show
// in place of the table's, or with more to show.
type explained struct {
	error
	detail string
	retry  time.Duration
	more   string
}

func (e *explained) Unwrap() error { return e.error }

func explain(err error, format string, args ...any) error {
	return &explained{error: err, detail: fmt.Sprintf(format, args...)}
}

func retryAfter(err error, d time.Duration) error {
	return &explained{error: err, retry: d}
}

// problemOf finds what an error means.
func problemOf(err error) (p problem, known bool) {
	err = fromFiber(err)
	for _, p := range problems {
		if !errors.Is(err, p.err) {
			continue
		}
		p.retry = spread(p.retry)
		if errors.Is(err, orders.ErrInvalid) || errors.Is(err, orders.ErrDeclined) {
			// The domain's text says which rule, or the provider's reason; both are
			// written to be shown.
			_, why, _ := strings.Cut(err.Error(), p.err.Error()+": ")
			p.detail = cmp.Or(oneLine(why), p.detail)
		}
		if e := (*explained)(nil); errors.As(err, &e) {
			p.detail = cmp.Or(e.detail, p.detail)
			p.retry = cmp.Or(e.retry, p.retry)
			p.more = e.more
		}
		return p, true
	}
	return internal, false
}

// oneLine makes one sentence of several mistakes that were joined.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// fromFiber translates the errors that Fiber's router makes.
func fromFiber(err error) error {
	f := (*fiber.Error)(nil)
	if !errors.As(err, &f) {
		return err
	}
	switch f.Code {
	case fiber.StatusNotFound:
		return errNotFound
	case fiber.StatusMethodNotAllowed:
		return errMethod
	}
	return err
}

// unreadable translates what fasthttp says of a request that it could not read.
// Its own texts quote the request, so none of them is passed on.
func unreadable(err error) error {
	netErr := net.Error(nil)
	switch {
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		return errHeaderTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case errors.As(err, &netErr) && netErr.Timeout():
		return errTimeout
	}
	return explain(errInvalidRequest, "The request is not well-formed HTTP, or ended too early.")
}

// spread adds up to half of d, so that those who were refused together do not
// come back together.
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + time.Duration(rand.Int64N(int64(d)/2+1))
}

// fail answers with the problem that err means, and returns its code.
func (s *Server) fail(c *fiber.Ctx, route *routeMetrics, err error) (code string) {
	p, known := problemOf(err)
	if !known {
		s.logCause(c, slog.LevelError, "internal error", err)
	}
	s.noteProblem(c, route.app, p, err)
	writeProblem(c, p)
	return p.code
}

// noteProblem counts a problem, and logs the cause of one that is ours to mend: a store that
// does not answer. (Of an error that nobody foresaw, the client gets the request id to
// ask with.)
func (s *Server) noteProblem(c *fiber.Ctx, app string, p problem, err error) {
	s.metrics.problems(app).count(p.code)
	if p.status != fiber.StatusServiceUnavailable || p.routine {
		return
	}
	if leftOut, due := s.causes.due(p.code, time.Now()); due {
		s.logCause(c, slog.LevelWarn, "not available", err, slog.String("code", p.code), slog.Int("left_out", leftOut))
	}
}

// writeProblem writes an RFC 9457 problem. The type is about:blank, so the
// title is the status's own phrase and the code tells problems apart.
func writeProblem(c *fiber.Ctx, p problem) {
	b := make([]byte, 0, 256)
	b = append(b, `{"type":"about:blank","title":`...)
	b = appendString(b, http.StatusText(p.status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	b = append(b, `,"detail":`...)
	b = appendString(b, p.detail)
	b = append(b, `,"code":"`...)
	b = append(b, p.code...)
	b = append(b, '"')
	if p.retry > 0 {
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, ceilMS(p.retry), 10)
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(ceilSeconds(p.retry), 10))
	}
	b = append(b, p.more...)
	b = append(b, '}')
	if p.status == fiber.StatusUnauthorized {
		c.Set(fiber.HeaderWWWAuthenticate, challenge(p.code))
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Status(p.status)
	c.Response().SetBody(b)
	c.Context().SetContentType("application/problem+json")
}

// challenge is the WWW-Authenticate of a refusal. Tickets have no registered
// scheme; the name at least says what is asked for.
func challenge(code string) string {
	switch {
	case strings.HasPrefix(code, "ticket_"):
		return `Sluice-Ticket realm="sluice"`
	case code == "token_missing", code == "identity_missing":
		return `Bearer realm="sluice"`
	}
	return `Bearer realm="sluice", error="invalid_token"`
}

// appendString appends s as a JSON string; bytes that are no UTF-8 come out as
// replacement characters.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\ufffd")) // then it cannot fail
	return b
}

// ceilMS and ceilSeconds round up: a wait told too short is a wasted request.
func ceilMS(d time.Duration) int64      { return ceil(d, time.Millisecond) }
func ceilSeconds(d time.Duration) int64 { return ceil(d, time.Second) }

func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
