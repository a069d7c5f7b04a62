package web

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/journal"
	"sluice/queue"
)

const (
	journalTimeout = 2 * time.Second // of reading it
	journalLimit   = 100             // entries, where nobody asks for another number
	// maxDetail bounds the detail of an entry, and maxQuoted a text in it, in runes: a
	// message may have a thousand bytes.
	maxDetail, maxQuoted = 1000, 200
)

func (s *Server) routeAdminJournal(r *router) {
	r.get("/admin/api/me", s.operator(s.me))
	r.get("/admin/api/journal", s.operator(s.readJournal))
}

// me tells an operator as whom they are known.
func (s *Server) me(c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, struct {
		Who string `json:"who"`
	}{who(c)})
}

type entryJSON struct {
	At     string  `json:"at"`
	Who    string  `json:"who"`
	From   string  `json:"from"`
	Line   *string `json:"line"` // null: it concerns no line
	What   string  `json:"what"`
	Detail string  `json:"detail"`
}

// readJournal tells the last changes of operators, of all instances, newest first.
func (s *Server) readJournal(c *fiber.Ctx) error {
	limit := journalLimit
	if text := c.Query("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > journal.Most {
			return explain(errInvalidRequest, "limit must be a whole number from 1 to %d.", journal.Most)
		}
		limit = n
	}
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	entries, err := s.cfg.Journal.Latest(ctx, limit)
	if err != nil {
		return fmt.Errorf("web: reading the journal: %w", err)
	}
	out := struct {
		Entries []entryJSON `json:"entries"`
	}{make([]entryJSON, len(entries))}
	for i, e := range entries {
		out.Entries[i] = entryJSON{e.At.UTC().Format(wireTime), e.Who, e.From, optional(e.Line), e.What, e.Detail}
	}
	return reply(c, fiber.StatusOK, out)
}

// note puts what an operator has just changed into the journal. It is called once the
// change is in force, and before it is acknowledged.
func (s *Server) note(c *fiber.Ctx, line, what, format string, args ...any) {
	s.cfg.Journal.Note(context.Background(), journal.Entry{
		ID: queue.NewID(), At: s.now(DefaultLine), Who: who(c), From: s.client(c).String(),
		Line: strings.Clone(line), What: what, Detail: clip(fmt.Sprintf(format, args...), maxDetail),
	})
}

// setting is a field of a change and how its values are written in the journal.
type setting struct {
	name  string
	asked func(patchRequest) bool
	value func(queue.Settings) string
}

var settings = []setting{
	{"paused", func(r patchRequest) bool { return r.Paused.set }, func(s queue.Settings) string { return strconv.FormatBool(s.Paused) }},
	{"message", func(r patchRequest) bool { return r.Message.set }, func(s queue.Settings) string { return strconv.Quote(clip(s.Message, maxQuoted)) }},
	{"mode", func(r patchRequest) bool { return r.Mode.set }, func(s queue.Settings) string { return string(s.Mode) }},
	{"rate_override", func(r patchRequest) bool { return r.RateOverride.set }, func(s queue.Settings) string { return numberOrNull(s.RateOverride) }},
	{"max_active", func(r patchRequest) bool { return r.MaxActive.set }, func(s queue.Settings) string { return strconv.FormatInt(s.MaxActive, 10) }},
	{"max_length", func(r patchRequest) bool { return r.MaxLength.set }, func(s queue.Settings) string { return strconv.FormatInt(s.MaxLength, 10) }},
	{"sold_out", func(r patchRequest) bool { return r.SoldOut.set }, func(s queue.Settings) string { return strconv.FormatBool(s.SoldOut) }},
	{"weight", func(r patchRequest) bool { return r.Weight.set }, func(s queue.Settings) string { return strconv.FormatInt(s.Weight, 10) }},
	{"poll_budget", func(r patchRequest) bool { return r.PollBudget.set }, func(s queue.Settings) string { return numberOrNull(s.PollBudget) }},
	{"opens_at", func(r patchRequest) bool { return r.OpensAt.set }, func(s queue.Settings) string { return timeOrNull(s.OpensAt) }},
	{"closes_at", func(r patchRequest) bool { return r.ClosesAt.set }, func(s queue.Settings) string { return timeOrNull(s.ClosesAt) }},
}

// noteSettings puts a change of a line's settings into the journal, under the name of
// what was changed, or as "settings" if that is more than one of them.
func (s *Server) noteSettings(c *fiber.Ctx, line string, req patchRequest, before, after queue.Settings) {
	what, changes := req.changes(before, after)
	s.note(c, line, what, "%s", strings.Join(changes, "; "))
}

// changes are those of the fields that were asked for, and the word for them together.
func (r patchRequest) changes(before, after queue.Settings) (what string, changes []string) {
	for _, f := range settings {
		if f.asked(r) {
			what = f.name
			changes = append(changes, fmt.Sprintf("%s: %s → %s", f.name, f.value(before), f.value(after)))
		}
	}
	switch {
	case r.Paused.set && after.Paused: // often together with a message
		what = "pause"
	case r.Paused.set:
		what = "resume"
	case len(changes) > 1:
		what = "settings"
	}
	return what, changes
}

// values are what the fields that were asked for are now.
func (r patchRequest) values(now queue.Settings) (all []string) {
	for _, f := range settings {
		if f.asked(r) {
			all = append(all, f.name+": "+f.value(now))
		}
	}
	return all
}

func numberOrNull(f *float64) string {
	if f == nil {
		return "null"
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func timeOrNull(t *time.Time) string {
	if t == nil {
		return "null"
	}
	return t.UTC().Format(wireTime)
}

// clip keeps a text to n runes.
func clip(s string, n int) string {
	runes := []rune(strings.ToValidUTF8(s, "\ufffd"))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n]) + "…"
}
