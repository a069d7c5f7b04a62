package web

import (
	"cmp"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// wireTime is RFC 3339 in UTC with milliseconds.
const wireTime = "2006-01-02T15:04:05.000Z07:00"

// Names and values of headers as the HTTP library keeps them, for what every poll has.
var (
	nameTicket       = []byte(headerTicket)
	nameState        = []byte(headerState)
	nameCacheControl = []byte(fiber.HeaderCacheControl)
	nameVary         = []byte(fiber.HeaderVary)
	nameRetryAfter   = []byte(fiber.HeaderRetryAfter)
	uncacheable      = []byte("no-store")
	varyTicket       = []byte("Cookie, X-Queue-Ticket")
)

// standingAnswer answers where a visitor stands. ticket, when not empty, is a
// signed ticket that they should present from now on.
//
// A crowd asks for this all day, so it is appended into one buffer that lives
// on the stack; only what is rare (a message, an admission) costs more.
func (s *Server) standingAnswer(c *fiber.Ctx, l *line, st queue.Standing, ticket string) error {
	var space [1024]byte
	b := append(space[:0], `{"line":"`...)
	b = append(b, l.id...) // a valid id needs no escaping
	b = append(b, `","state":"`...)
	b = append(b, st.State...)
	b = append(b, '"')

	switch st.State {
	case queue.Waiting:
		b = s.appendWaiting(b, c, l, st)
	case queue.Scheduled:
		b = s.appendScheduled(b, c, l, st)
	case queue.Closed:
		b = appendMessage(b, &l.watch.Latest().Settings)
	case queue.Admitted:
		token, err := s.cfg.Tokens.Mint(st.Admission)
		if err != nil {
			return err
		}
		b = appendAdmitted(b, st.Admission, token, l.watch.Now())
	}
	if ticket != "" {
		b = append(b, `,"ticket":"`...)
		b = append(b, ticket...) // base64url and dots
		b = append(b, '"')
	}
	b = append(b, '}')

	h := &c.Response().Header
	var state [16]byte
	h.SetCanonical(nameState, append(state[:0], st.State...))
	h.SetCanonical(nameCacheControl, uncacheable)
	h.SetCanonical(nameVary, varyTicket)
	h.SetContentType(fiber.MIMEApplicationJSON)
	c.Response().SetBody(b)
	return nil
}

func (s *Server) appendWaiting(b []byte, c *fiber.Ctx, l *line, st queue.Standing) []byte {
	view := l.watch.Latest() // before the first reading it has no estimate
	b = append(b, `,"position":`...)
	if st.Position > 0 {
		b = strconv.AppendInt(b, st.Position, 10)
	} else { // nobody knows
		b = append(b, `null`...)
	}
	b = append(b, `,"waiting":`...)
	b = strconv.AppendInt(b, st.Length, 10)
	e, ok := view.Estimate(st.Position)
	b = appendEstimate(b, e, ok)

	poll := s.pollAfter(l, view, st)
	b = appendPoll(b, c, poll)
	s.told(l, st, poll)
	if r := l.reason(view); r != "" {
		b = append(b, `,"reason":"`...)
		b = append(b, r...)
		b = append(b, '"')
	}
	b = appendMessage(b, &view.Settings)
	return l.appendTimes(b, st)
}

// appendScheduled tells somebody in the draw when the line opens, and nothing of
// their place.
func (s *Server) appendScheduled(b []byte, c *fiber.Ctx, l *line, st queue.Standing) []byte {
	view := l.watch.Latest()
	b = append(b, `,"opens_at":`...)
	b = appendOptionalTime(b, view.Settings.OpensAt) // null if there was a schedule a moment ago: ask again soon
	b = append(b, `,"waiting":`...)
	b = strconv.AppendInt(b, st.Length, 10)
	poll := s.pollAfter(l, view, st)
	b = appendPoll(b, c, poll)
	s.told(l, st, poll)
	b = appendMessage(b, &view.Settings)
	return l.appendTimes(b, st)
}

// pollAfter is when whoever waits, or is in the draw, should ask next. While nobody
// knows a place they ask as if behind all others, and before the opening is known soon.
func (s *Server) pollAfter(l *line, view *queue.View, st queue.Standing) time.Duration {
	budget := s.cfg.PollBudget(l.id)
	if st.State == queue.Scheduled {
		return queue.PollScheduled(l.opensIn(view), st.Length, budget, rand.Float64())
	}
	return queue.PollAfter(cmp.Or(st.Position, st.Length), st.Length, view.Soonest(st.Position), budget, rand.Float64())
}

// opensIn is how long it is until the line opens; 0 where no opening is known.
func (l *line) opensIn(view *queue.View) time.Duration {
	if at := view.Settings.OpensAt; at != nil {
		return at.Sub(l.watch.Now())
	}
	return 0
}

// told notes that a visitor was told when to ask next.
func (s *Server) told(l *line, st queue.Standing, poll time.Duration) {
	l.attendance.Polled(st.Ticket.Subject, st.Position, poll)
	s.limits.told(st.Ticket.ID, poll)
}

// reason is why nothing moves, or why waiting may be in vain; empty without one.
func (l *line) reason(view *queue.View) string {
	switch override := view.Settings.RateOverride; {
	case view.Settings.Paused, override != nil && *override == 0 && view.Settings.Mode != queue.ModePassthrough:
		return "paused"
	case view.Recovering(), l.mode(view).Bypassed():
		return "degraded"
	case view.Settings.SoldOut:
		return "sold_out"
	}
	return ""
}

// appendPoll tells when to ask next, in the body and in the header.
func appendPoll(b []byte, c *fiber.Ctx, poll time.Duration) []byte {
	var seconds [20]byte
	c.Response().Header.SetCanonical(nameRetryAfter, strconv.AppendInt(seconds[:0], ceilSeconds(poll), 10))
	b = append(b, `,"poll_after_ms":`...)
	return strconv.AppendInt(b, ceilMS(poll), 10)
}

func appendMessage(b []byte, s *queue.Settings) []byte {
	if s.Message == "" {
		return b
	}
	b = append(b, `,"message":`...)
	return appendString(b, s.Message)
}

func (l *line) appendTimes(b []byte, st queue.Standing) []byte {
	b = append(b, `,"entered_at":`...)
	b = appendTime(b, st.Ticket.EnteredAt)
	b = append(b, `,"server_time":`...)
	return appendTime(b, l.watch.Now())
}

// appendTime appends a time as [wireTime] writes it, without reading that layout each time.
func appendTime(b []byte, t time.Time) []byte {
	const (
		perDay    = 24 * 60 * 60 * 1000
		year10000 = 253_402_300_800_000 // in ms
	)
	ms := t.UnixMilli()
	number := ms / perDay
	if ms < 0 || ms >= year10000 { // rounded the other way, or not of four digits
		return append(t.UTC().AppendFormat(append(b, '"'), wireTime), '"')
	}
	d := lastDay.Load()
	if d == nil || d.number != number {
		d = &day{number, t.UTC().Format(`"2006-01-02T`)}
		lastDay.Store(d)
	}
	of := int(ms % perDay)
	b = append(b, d.text...)
	b = appendTwo(b, of/3_600_000)
	b = appendTwo(append(b, ':'), of/60_000%60)
	b = appendTwo(append(b, ':'), of/1000%60)
	b = append(b, '.', byte('0'+of/100%10))
	return append(appendTwo(b, of%100), 'Z', '"')
}

// lastDay is the date that was written last, since nearly all are of today.
var lastDay atomic.Pointer[day]

type day struct {
	number int64 // since 1970
	text   string
}

// appendTwo appends n in two digits.
func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// appendEstimate appends the wait as a figure and a range, null while nothing
// is known of it.
func appendEstimate(b []byte, e queue.Estimate, known bool) []byte {
	if !known {
		return append(b, `,"estimated_wait_ms":null,"estimated_wait_range_ms":null`...)
	}
	b = append(b, `,"estimated_wait_ms":`...)
	b = strconv.AppendInt(b, e.Expected.Milliseconds(), 10)
	b = append(b, `,"estimated_wait_range_ms":[`...)
	b = strconv.AppendInt(b, e.Low.Milliseconds(), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, ceilMS(e.High), 10)
	return append(b, ']')
}

// appendAdmitted appends a token and its times. usable_in_ms is rounded up: a
// visitor who waits as told must never be too early.
func appendAdmitted(b []byte, a queue.Admission, token string, now time.Time) []byte {
	b = append(b, `,"token":"`...)
	b = append(b, token...)
	b = append(b, `","usable_in_ms":`...)
	b = strconv.AppendInt(b, max(0, ceilMS(a.NotBefore.Sub(now))), 10)
	b = append(b, `,"expires_in_ms":`...)
	b = strconv.AppendInt(b, max(0, a.ExpiresAt.Sub(now).Milliseconds()), 10)
	return b
}

// reply answers with v as JSON.
func reply(c *fiber.Ctx, status int, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	c.Context().SetContentType(fiber.MIMEApplicationJSON)
	c.Status(status).Response().SetBody(b)
	return nil
}

func noContent(c *fiber.Ctx) error {
	c.Status(fiber.StatusNoContent)
	return nil
}
