package configs

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// linesKey is the section whose keys nobody can list beforehand: each key in it
// is the id of a line, with a section of its own.
const linesKey = "lines"

// lineKeys are what can be set of one line under lines.
func lineKeys(id string, s *FirstSettings) []key {
	at := func(name string) string { return linesKey + delimiter + id + delimiter + name }
	return []key{
		optional(&s.Weight, func(p *int64) key { return whole(at("weight"), p, 1, maxWeight) }),
		optional(&s.MaxLength, func(p *int64) key { return whole(at("max_length"), p, 0, maxPeople) }),
		optional(&s.MaxActive, func(p *int64) key { return whole(at("max_active"), p, 0, maxPeople) }),
		optional(&s.PollBudget, func(p *float64) key { return number(at("poll_budget"), p, 0.001, maxPolls) }),
		optional(&s.OpensAt, func(p *time.Time) key { return moment(at("opens_at"), p) }),
		optional(&s.ClosesAt, func(p *time.Time) key { return moment(at("closes_at"), p) }),
		optional(&s.Message, func(p *string) key { return text(at("message"), p, message) }),
		optional(&s.Mode, func(p *string) key { return text(at("mode"), p, oneOf("normal", "passthrough", "block", "bypass")) }),
		optional(&s.Paused, func(p *bool) key { return truth(at("paused"), p) }),
		optional(&s.SoldOut, func(p *bool) key { return truth(at("sold_out"), p) }),
		optional(&s.RateOverride, func(p *float64) key { return number(at("rate_override"), p, 0, maxRate) }),
	}
}

// optional binds a field that stays nil until the key is set.
func optional[T any](p **T, bind func(*T) key) key {
	value := *p
	if value == nil {
		value = new(T)
	}
	bound := bind(value)
	k := bound
	k.set = func(raw any) error {
		if err := bound.set(raw); err != nil {
			return err
		}
		*p = value
		return nil
	}
	k.get = func() any {
		if *p == nil {
			return nil
		}
		return bound.get()
	}
	return k
}

// lineList binds the lines as the environment gives them, ids alone, which adds
// to those of the file; and as they are printed. The file's sections are bound
// key by key, so that a mistake has its own line.
func lineList(path string, p *map[string]*FirstSettings) key {
	return key{
		path: path,
		set: func(raw any) error {
			if _, sections := raw.(map[string]any); sections {
				return nil
			}
			var ids []string
			if err := list(path, &ids, lineID).set(raw); err != nil {
				return err
			}
			for _, id := range ids {
				addLine(p, id)
			}
			return nil
		},
		get: func() any {
			if len(*p) == 0 {
				return nil
			}
			printed := make(map[string]map[string]any, len(*p))
			for id, settings := range *p {
				printed[id] = map[string]any{}
				for _, k := range lineKeys(id, settings) {
					if v := k.get(); v != nil {
						printed[id][k.path[strings.LastIndex(k.path, delimiter)+1:]] = v
					}
				}
			}
			return printed
		},
		show: showPlain,
	}
}

// addLine finds the settings of a line, or puts in new ones.
func addLine(p *map[string]*FirstSettings, id string) *FirstSettings {
	if *p == nil {
		*p = map[string]*FirstSettings{}
	}
	if (*p)[id] == nil {
		(*p)[id] = &FirstSettings{}
	}
	return (*p)[id]
}

var lineIDs = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

func lineID(s string) error {
	if !lineIDs.MatchString(s) {
		return errors.New("must be ids of lines: 1 to 32 of a to z, 0 to 9 and -")
	}
	return nil
}

func message(s string) error {
	if len(s) > maxMessage || !utf8.ValidString(s) {
		return fmt.Errorf("must be UTF-8 of at most %d bytes", maxMessage)
	}
	return nil
}

func truth(path string, p *bool) key {
	return key{
		path: path,
		set: func(raw any) error {
			switch v := raw.(type) {
			case bool:
				*p = v
				return nil
			case string: // of the environment
				if v == "true" || v == "false" {
					*p = v == "true"
					return nil
				}
			}
			return fmt.Errorf("must be true or false, not %s", kind(raw))
		},
		get:  func() any { return *p },
		show: showPlain,
	}
}

// Times outside of these are slips of the pen.
var (
	firstTime = time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

const momentForm = "2006-01-02T15:04:05.000Z07:00"

func moment(path string, p *time.Time) key {
	const form = "must be a time such as 2026-11-27T09:00:00Z or 2026-11-27T18:00:00+09:00"
	return key{
		path: path,
		set: func(raw any) error {
			s, ok := raw.(string)
			if !ok {
				return fmt.Errorf("%s, not %s", form, kind(raw))
			}
			at, err := time.Parse(time.RFC3339, s)
			if err != nil {
				return errors.New(form)
			}
			if at.Before(firstTime) || !at.Before(lastTime) {
				return fmt.Errorf("must be in the years %d to %d", firstTime.Year(), lastTime.Year()-1)
			}
			*p = time.UnixMilli(at.UnixMilli()).UTC()
			return nil
		},
		get:  func() any { return p.Format(momentForm) },
		show: showPlain,
	}
}

// crossedLines are the rules between the keys of lines.
func (c Config) crossedLines(must func(holds bool, rule string, keys ...string)) {
	count := len(c.Lines)
	if _, named := c.Lines[defaultLine]; !named {
		count++
	}
	must(count <= MaxLines, fmt.Sprintf("must be at most %d with the default line, and they are %d", MaxLines, count), linesKey)
	for _, id := range slices.Sorted(maps.Keys(c.Lines)) {
		s, at := c.Lines[id], linesKey+delimiter+id+delimiter
		must(s.OpensAt == nil || s.ClosesAt == nil || s.OpensAt.Before(*s.ClosesAt),
			"must be after opens_at, or the line never opens", at+"closes_at", at+"opens_at")
	}
}

// defaultLine is there also when no one names it.
const defaultLine = "default"
