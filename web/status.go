package web

import (
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

var cacheable = []byte(publicCache)

// status tells what everybody may know of a line. Whoever watches asks for it without a
// ticket, as often as they like, so it is appended as the answer to a poll is.
func (s *Server) status(c *fiber.Ctx) error {
	l, err := s.line(c)
	if err != nil {
		return err
	}
	s.span(c).Text("sluice.line", l.id)
	view, err := l.view()
	if err != nil {
		return err
	}
	var space [1024]byte
	b := append(space[:0], `{"line":"`...)
	b = append(b, l.id...) // a valid id needs no escaping
	b = append(b, `","state":"`...)
	b = append(b, l.state(view)...)
	b = append(b, `","mode":`...)
	b = appendString(b, string(l.mode(&view)))
	b = append(b, `,"opens_at":`...)
	b = appendOptionalTime(b, view.Settings.OpensAt)
	b = append(b, `,"closes_at":`...)
	b = appendOptionalTime(b, view.Settings.ClosesAt)
	b = append(b, `,"waiting":`...)
	b = strconv.AppendInt(b, view.Waiting, 10)
	b = append(b, `,"admitted_per_second":`...)
	b = strconv.AppendFloat(b, round(view.Movement.AdmittedPerSecond), 'f', -1, 64)
	b = append(b, `,"limited_by":`...)
	b = appendOptional(b, l.limitedBy(view))
	b = append(b, `,"estimated_wait_ms":`...) // of a newcomer
	if e, ok := l.newcomer(view); ok {
		b = strconv.AppendInt(b, e.Expected.Milliseconds(), 10)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"reason":`...)
	b = appendOptional(b, l.reason(&view))
	b = append(b, `,"message":`...)
	b = appendString(b, view.Settings.Message)
	b = appendDraw(b, view)
	b = append(b, '}')

	c.Response().Header.SetCanonical(nameCacheControl, cacheable)
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	c.Response().SetBody(b)
	return nil
}

// newcomer is the wait of a visitor who enters now; ok is false while nobody knows it.
func (l *line) newcomer(view queue.View) (e queue.Estimate, ok bool) {
	mode := l.mode(&view)
	if mode.Bypassed() { // there is no line, or nobody can see it
		return queue.Estimate{}, false
	}
	if e, ok = view.Estimate(view.Waiting + 1); ok {
		return e, true
	}
	return queue.Estimate{}, mode == queue.ModePassthrough && l.state(view) == stateOpen && !view.Recovering()
}

// appendDraw appends the line's draw, if it has one, so that anybody can check it: the seed
// is null before the opening, and the hash of the tickets until it is fixed after that.
func appendDraw(b []byte, view queue.View) []byte {
	set := view.Settings
	if set.Seed == "" {
		return b
	}
	var seed, tickets string
	if drawn(view) {
		seed, tickets = set.Seed, set.TicketsSHA256
	}
	b = append(b, `,"draw":{"seed_sha256":"`...)
	b = append(b, queue.HashSeed(set.Seed)...)
	b = append(b, `","seed":`...)
	b = appendOptional(b, seed)
	b = append(b, `,"tickets_sha256":`...)
	b = appendOptional(b, tickets)
	return append(b, '}')
}

// drawn reports whether the draw is no secret any more. That is judged by the
// store's own time of the reading, never by this process's idea of it, and by the
// opening alone: a line that was closed before it opened may still be given
// another time.
func drawn(view queue.View) bool {
	at := view.Settings.OpensAt
	return at == nil || !view.At.Before(*at)
}

// appendOptional and appendOptionalTime append null for what is empty or not set.
func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, `null`...)
	}
	return appendString(b, s)
}

func appendOptionalTime(b []byte, t *time.Time) []byte {
	if t == nil {
		return append(b, `null`...)
	}
	return appendTime(b, *t)
}
