package web

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// settingsJSON is what an operator has said about a line.
type settingsJSON struct {
	State        string
	Paused       bool
	Message      string
	Mode         string
	RateOverride *float64 `json:"rate_override"`
	MaxActive    int64    `json:"max_active"`
	MaxLength    int64    `json:"max_length"`
	SoldOut      bool     `json:"sold_out"`
	Weight       int64
	PollBudget   *float64 `json:"poll_budget"`
	OpensAt      *string  `json:"opens_at"`
	ClosesAt     *string  `json:"closes_at"`
	SeedSHA256   *string  `json:"seed_sha256"`
	Revision     int64
}

func TestPatchLine(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		patch := func(body string) (l settingsJSON) {
			t.Helper()
			f.admin("PATCH", "/admin/api/lines/default", body, jsonType).want(200).into(&l)
			return l
		}
		got := patch(`{"paused":true,"message":"Hello","mode":"passthrough","rate_override":12.5,"max_active":5,"max_length":7,"sold_out":true,
			"weight":3,"poll_budget":250.5,"opens_at":"2030-01-02T03:04:05.6789+01:00","closes_at":"2030-01-03T00:00:00Z"}`)
		if !got.Paused || got.Message != "Hello" || got.Mode != "passthrough" || got.RateOverride == nil || *got.RateOverride != 12.5 ||
			got.MaxActive != 5 || got.MaxLength != 7 || !got.SoldOut || got.Weight != 3 || got.PollBudget == nil || *got.PollBudget != 250.5 ||
			got.OpensAt == nil || *got.OpensAt != "2030-01-02T02:04:05.678Z" || got.ClosesAt == nil || *got.ClosesAt != "2030-01-03T00:00:00.000Z" ||
			got.SeedSHA256 == nil || len(*got.SeedSHA256) != 64 || got.State != "scheduled" || got.Revision == 0 {
			t.Errorf("%+v", got)
		}
		if same := patch(`{}`); same.Revision != got.Revision {
			t.Error("an empty patch is a change")
		}
		if part := patch(`{"rate_override":0}`); part.RateOverride == nil || *part.RateOverride != 0 || part.MaxActive != 5 || part.OpensAt == nil {
			t.Errorf("%+v", part)
		}
		cleared := patch(`{"paused":null,"message":null,"mode":null,"rate_override":null,"max_active":null,"max_length":null,"sold_out":null,
			"weight":null,"poll_budget":null,"opens_at":null,"closes_at":null}`)
		if cleared.Revision <= got.Revision {
			t.Error("the revision did not rise")
		}
		// Whoever announced a draw keeps its seed.
		if cleared.Revision, cleared.SeedSHA256 = 0, nil; cleared != (settingsJSON{State: "open", Mode: "normal", Weight: 1}) {
			t.Errorf("%+v", cleared)
		}
	})
}

func TestPatchesRefused(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for body, details := range map[string][]string{
			"": {"object"}, "{": {"well-formed"}, `{"wait":1}`: {`"/wait" is not known`}, `{"paused":"yes"}`: {`"/paused" must be true or false`},
			`{"paused":1}`: {"true or false"}, `{"message":1}`: {"a string"}, `{"mode":"quick"}`: {"mode must be"}, `{"mode":1}`: {"a string"},
			`{"rate_override":-1}`: {"between 0"}, `{"rate_override":"1"}`: {"a number"}, `{"rate_override":1e999}`: {"a number"},
			`{"max_active":-1,"max_length":-1}`: {"max_active must not be negative; max_length"}, `{"max_active":1.5}`: {"a whole number"},
			`{"paused":true,"paused":false}`: {"twice"}, `{"paused":true} x`: {"well-formed"},
			`{"paused":true,}`: {"well-formed"}, `{"paused":null,}`: {"well-formed"}, `{,}`: {"well-formed"}, "{\"message\":\"\xff\"}": {"well-formed"},
			`{"message":"\ud800"}`: {"well-formed"}, `{"weight":01}`: {"well-formed"}, `{"Paused":true}`: {`"/Paused" is not known`},
			`{"message":"` + strings.Repeat("x", queue.MaxMessage+1) + `"}`: {"at most 1000 bytes"},
			`{"weight":0}`: {"weight must be"}, `{"weight":1.5}`: {"a whole number"}, `{"poll_budget":0}`: {"poll_budget must be"},
			`{"opens_at":1}`: {"a string"}, `{"opens_at":"tomorrow"}`: {"opens_at must be a time like 20"}, `{"closes_at":""}`: {"closes_at must be a time like 20"},
			`{"opens_at":"1999-01-01T00:00:00Z"}`: {"opens_at must be a time from"},
			// Every mistake, also those that only show in the line.
			`{"weight":0,"opens_at":"soon","closes_at":"late"}`:                                        {"weight must be", "opens_at must be a time like", "closes_at must be a time like"},
			`{"weight":0,"opens_at":"2030-01-02T00:00:00Z","closes_at":"2030-01-01T00:00:00Z"}`:        {"weight must be", "closes_at must be"},
			`{"opens_at":"2030-01-02T00:00:00Z","closes_at":"2030-01-02T00:00:00.000Z","weight":null}`: {"closes_at must be"},
		} {
			a := f.admin("PATCH", "/admin/api/lines/default", body, jsonType).problem(400, "invalid_request")
			for _, detail := range details {
				if !strings.Contains(strings.ReplaceAll(a.body, `\"`, `"`), detail) {
					t.Errorf("%.90s: %s does not say %q", body, a.body, detail)
				}
			}
		}
		if got := must(f.line.Snapshot(context.Background()))(t).Settings; got.Revision != 0 {
			t.Errorf("a refused patch changed %+v", got)
		}
	})
}

// A time is judged with the other one as it is now, also when another instance
// set that a moment ago; and nothing keeps an operator from pausing.
func TestTimesAreJudgedTogether(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		at := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
		opens, closes := &at, new(at.Add(-time.Hour))
		must(f.line.Configure(context.Background(), queue.Patch{OpensAt: &opens}))(t)
		a := f.admin("PATCH", "/admin/api/lines/default", `{"closes_at":"2030-01-01T23:59:59Z"}`, jsonType).problem(400, "invalid_request")
		if !strings.Contains(a.body, "closes_at") {
			t.Error(a.body)
		}
		f.admin("PATCH", "/admin/api/lines/default", `{"closes_at":"2030-01-02T00:00:01Z"}`, jsonType).want(200)
		must(f.line.Configure(context.Background(), queue.Patch{ClosesAt: &closes}))(t) // two instances at once
		f.admin("PATCH", "/admin/api/lines/default", `{"paused":true}`, jsonType).want(200)
		f.admin("PATCH", "/admin/api/lines/default", `{"closes_at":null}`, jsonType).want(200)
	})
}

func TestAnOpeningThatBeganIsNotPutOff(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.enter()
		f.admin("PATCH", "/admin/api/lines/default", `{"opens_at":"2030-01-02T00:00:00Z"}`, jsonType).problem(409, "line_started")
		f.admin("PUT", "/admin/api/lines/default", `{"opens_at":"2030-01-02T00:00:00Z"}`, jsonType).problem(409, "line_started")
	})
}

func TestPutLine(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		var l settingsJSON
		f.admin("PUT", "/admin/api/lines/vip", `{"weight":7,"message":"Hello"}`, jsonType).want(201).into(&l)
		if l.Weight != 7 || l.Message != "Hello" {
			t.Errorf("%+v", l)
		}
		f.public("POST", "/queue/enter?line=vip", "").want(201)
		f.admin("PUT", "/admin/api/lines/vip", `{"weight":2}`, jsonType).want(200).into(&l)
		if l.Weight != 2 || l.Message != "Hello" {
			t.Errorf("%+v", l)
		}
		f.admin("PUT", "/admin/api/lines/bare", ``, jsonType).want(201)
		f.admin("PUT", "/admin/api/lines/bare", `{}`, jsonType).want(200)
		for _, id := range []string{"UPPER", "a_b", "a%20b", strings.Repeat("a", 33), "%00"} {
			f.admin("PUT", "/admin/api/lines/"+id, `{}`, jsonType).problem(400, "invalid_request")
		}
		f.admin("PUT", "/admin/api/lines/new", `{"weight":0}`, jsonType).problem(400, "invalid_request")
		f.admin("PUT", "/admin/api/lines/new", `{"opens_at":"2030-01-02T00:00:00Z","closes_at":"2030-01-01T00:00:00Z"}`, jsonType).problem(400, "invalid_request")
		f.admin("GET", "/admin/api/lines/new", "").problem(404, "line_not_found")
		for _, line := range f.server.lines.all() {
			if !strings.Contains(f.admin("GET", "/metrics", "").want(200).body, `sluice_line_waiting{line="`+line.id+`"}`) {
				t.Errorf("no metrics of the line %s", line.id)
			}
		}
	})
	for name, tc := range map[string]struct {
		create error
		status int
		code   string
	}{
		"there are too many":  {ErrTooManyLines, 409, "too_many_lines"},
		"the store is away":   {queue.ErrUnavailable, 503, "queue_unavailable"},
		"it takes too long":   {context.DeadlineExceeded, 503, "queue_unavailable"},
		"something is broken": {errors.New("broken"), 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup{config: func(c *Config) {
				c.Create = func(context.Context, string, queue.Patch) (bool, error) { return false, tc.create }
			}}, func(t *testing.T, f *fixture) {
				f.admin("PUT", "/admin/api/lines/vip", `{}`, jsonType).problem(tc.status, tc.code)
			})
		})
	}
	t.Run("nobody can", func(t *testing.T) {
		inBubble(t, setup{config: func(c *Config) { c.Create = nil }}, func(t *testing.T, f *fixture) {
			f.admin("PUT", "/admin/api/lines/default", `{}`, jsonType).problem(404, "not_found")
		})
	})
}
