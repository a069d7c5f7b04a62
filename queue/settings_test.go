package queue

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

func TestPatchValidate(t *testing.T) {
	for _, c := range []struct {
		name  string
		patch Patch
		want  []string // parts of the error; none is valid
	}{
		{"nothing", Patch{}, nil},
		{"everything", Patch{
			Paused: ptr(true), Message: ptr("soon"), Mode: ptr(ModePassthrough), RateOverride: ptr(ptr(120.0)),
			MaxActive: ptr(int64(500)), MaxLength: ptr(int64(0)), SoldOut: ptr(true),
			Weight: ptr(int64(MaxWeight)), PollBudget: ptr(ptr(float64(MaxPollBudget))),
			OpensAt: ptr(ptr(firstTime)), ClosesAt: ptr(ptr(lastTime.Add(-time.Nanosecond))),
		}, nil},
		{"what can be cleared, cleared", Patch{PollBudget: ptr[*float64](nil), OpensAt: ptr[*time.Time](nil), ClosesAt: ptr[*time.Time](nil)}, nil},
		{"the least weight and budget", Patch{Weight: ptr(int64(1)), PollBudget: ptr(ptr(0.001))}, nil},
		{"no weight", Patch{Weight: ptr(int64(0))}, []string{"weight"}},
		{"a negative weight", Patch{Weight: ptr(int64(-1))}, []string{"weight"}},
		{"too much weight", Patch{Weight: ptr(int64(MaxWeight + 1))}, []string{"weight"}},
		{"a budget of nothing", Patch{PollBudget: ptr(ptr(0.0))}, []string{"poll_budget"}},
		{"a negative budget", Patch{PollBudget: ptr(ptr(-1.0))}, []string{"poll_budget"}},
		{"too large a budget", Patch{PollBudget: ptr(ptr(MaxPollBudget + 1.0))}, []string{"poll_budget"}},
		{"an infinite budget", Patch{PollBudget: ptr(ptr(math.Inf(1)))}, []string{"poll_budget"}},
		{"a budget of no number", Patch{PollBudget: ptr(ptr(math.NaN()))}, []string{"poll_budget"}},
		{"an opening long ago", Patch{OpensAt: ptr(ptr(firstTime.Add(-time.Nanosecond)))}, []string{"opens_at"}},
		{"a closing in another age", Patch{ClosesAt: ptr(ptr(lastTime))}, []string{"closes_at"}},
		{"times of no time", Patch{OpensAt: ptr(ptr(time.Time{})), ClosesAt: ptr(ptr(time.Time{}))}, []string{"opens_at", "closes_at"}},
		{"a cleared override", Patch{RateOverride: ptr[*float64](nil)}, nil},
		{"an override of nothing", Patch{RateOverride: ptr(ptr(0.0))}, nil},
		{"the highest override", Patch{RateOverride: ptr(ptr(float64(MaxRate)))}, nil},
		{"the longest message", Patch{Message: ptr(strings.Repeat("x", MaxMessage))}, nil},
		{"too long a message", Patch{Message: ptr(strings.Repeat("x", MaxMessage+1))}, []string{"message"}},
		{"a message that is no text", Patch{Message: ptr("\xff")}, []string{"message"}},
		{"an unknown mode", Patch{Mode: ptr(Mode("fast"))}, []string{"mode"}},
		{"an empty mode", Patch{Mode: ptr(Mode(""))}, []string{"mode"}},
		{"a negative override", Patch{RateOverride: ptr(ptr(-1.0))}, []string{"rate_override"}},
		{"too high an override", Patch{RateOverride: ptr(ptr(MaxRate + 1.0))}, []string{"rate_override"}},
		{"an override of no number", Patch{RateOverride: ptr(ptr(math.NaN()))}, []string{"rate_override"}},
		{"an infinite override", Patch{RateOverride: ptr(ptr(math.Inf(1)))}, []string{"rate_override"}},
		{"negative limits", Patch{MaxActive: ptr(int64(-1)), MaxLength: ptr(int64(-1))}, []string{"max_active", "max_length"}},
		{"every mistake at once", Patch{
			Message: ptr("\xff"), Mode: ptr(Mode("x")), RateOverride: ptr(ptr(-1.0)), MaxActive: ptr(int64(-1)), MaxLength: ptr(int64(-1)),
			Weight: ptr(int64(0)), PollBudget: ptr(ptr(0.0)), OpensAt: ptr(ptr(lastTime)), ClosesAt: ptr(ptr(lastTime)),
		}, []string{"message", "mode", "rate_override", "max_active", "max_length", "weight", "poll_budget", "opens_at", "closes_at"}},
	} {
		err := c.patch.Validate()
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: taken", c.name)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(c.want) {
			t.Errorf("%s: %d mistakes told, want %d: %v", c.name, n, len(c.want), err)
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not told in: %v", c.name, part, err)
			}
		}
	}
}

var someTime = rapid.Custom(func(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(firstTime.UnixMilli(), lastTime.UnixMilli()-1).Draw(t, "ms")).UTC()
})

var someSettings = rapid.Custom(func(t *rapid.T) Settings {
	return Settings{
		Revision:     rapid.Int64().Draw(t, "revision"),
		Paused:       rapid.Bool().Draw(t, "paused"),
		Message:      rapid.String().Draw(t, "message"),
		Mode:         rapid.SampledFrom([]Mode{ModeNormal, ModePassthrough}).Draw(t, "mode"),
		RateOverride: rapid.Ptr(rapid.Float64Range(0, MaxRate), true).Draw(t, "rate"),
		MaxActive:    rapid.Int64Range(0, 1e6).Draw(t, "max active"),
		MaxLength:    rapid.Int64Range(0, 1e6).Draw(t, "max length"),
		SoldOut:      rapid.Bool().Draw(t, "sold out"),
		Weight:       rapid.Int64Range(1, MaxWeight).Draw(t, "weight"),
		PollBudget:   rapid.Ptr(rapid.Float64Range(0.1, MaxPollBudget), true).Draw(t, "poll budget"),
		OpensAt:      rapid.Ptr(someTime, true).Draw(t, "opens at"),
		ClosesAt:     rapid.Ptr(someTime, true).Draw(t, "closes at"),
	}
})

// patchTo is the patch that makes any settings into s, apart from what no operator
// sets: revision, seed and hash of the tickets.
func patchTo(s Settings) Patch {
	return Patch{
		Paused: &s.Paused, Message: &s.Message, Mode: &s.Mode, RateOverride: &s.RateOverride,
		MaxActive: &s.MaxActive, MaxLength: &s.MaxLength, SoldOut: &s.SoldOut,
		Weight: &s.Weight, PollBudget: &s.PollBudget, OpensAt: &s.OpensAt, ClosesAt: &s.ClosesAt,
	}
}

func TestApply(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := someSettings.Draw(rt, "a"), someSettings.Draw(rt, "b")
		if got := a.Apply(Patch{}); !reflect.DeepEqual(got, a) {
			rt.Fatalf("an empty patch changed %+v to %+v", a, got)
		}
		want := b
		want.Revision = a.Revision
		if got := a.Apply(patchTo(b)); !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// Each field of a patch changes the field of its name and no other. Fields are
// found by reflection, so that one added to Patch is not forgotten in Apply.
func TestApplyChangesOnlyWhatIsNamed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := someSettings.Draw(rt, "a"), someSettings.Draw(rt, "b")
		full := reflect.ValueOf(patchTo(b))
		for i := range full.NumField() {
			name := full.Type().Field(i).Name
			var patch Patch
			if full.Field(i).IsNil() {
				rt.Fatalf("patchTo leaves %s out", name)
			}
			reflect.ValueOf(&patch).Elem().Field(i).Set(full.Field(i))
			want := a
			reflect.ValueOf(&want).Elem().FieldByName(name).Set(reflect.ValueOf(b).FieldByName(name))
			if got := a.Apply(patch); !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s alone: got %+v, want %+v", name, got, want)
			}
		}
	})
}

// A schedule is kept in whole milliseconds of UTC, as every store can.
func TestApplyKeepsWholeMilliseconds(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123_456_789, time.FixedZone("KST", 9*3600))
	want := time.Date(2026, 5, 5, 22, 8, 9, 123_000_000, time.UTC)
	given := at
	got := Settings{}.Apply(Patch{OpensAt: ptr(&given), ClosesAt: ptr(&given)})
	if !reflect.DeepEqual(got.OpensAt, &want) || !reflect.DeepEqual(got.ClosesAt, &want) {
		t.Errorf("kept %s and %s, want %s", got.OpensAt, got.ClosesAt, want)
	}
	if given = given.Add(time.Hour); !got.OpensAt.Equal(want) {
		t.Error("the settings change with the caller's variable")
	}
}

func TestSettingsValidate(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Millisecond)
	hash := strings.Repeat("0aF", 21) + "0"
	good := Settings{Mode: ModeNormal, Weight: 1}
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   []string
	}{
		{"the least", func(*Settings) {}, nil},
		{"a schedule", func(s *Settings) { s.OpensAt, s.ClosesAt = &noon, &later }, nil},
		{"an opening alone", func(s *Settings) { s.OpensAt = &noon }, nil},
		{"a closing alone", func(s *Settings) { s.ClosesAt = &noon }, nil},
		{"closing as it opens", func(s *Settings) { s.OpensAt, s.ClosesAt = &noon, &noon }, []string{"closes_at must be after opens_at"}},
		{"closing before it opens", func(s *Settings) { s.OpensAt, s.ClosesAt = &later, &noon }, []string{"closes_at must be after opens_at"}},
		{"a draw", func(s *Settings) { s.Seed, s.TicketsSHA256 = hash, hash }, nil},
		{"half a seed", func(s *Settings) { s.Seed = hash[:32] }, []string{"seed"}},
		{"a hash of no hex", func(s *Settings) { s.TicketsSHA256 = strings.Repeat("x", 64) }, []string{"hash of the tickets"}},
		{"no weight", func(s *Settings) { s.Weight = 0 }, []string{"weight"}},
		{"everything", func(s *Settings) { *s = Settings{OpensAt: &later, ClosesAt: &noon, Seed: "x"} }, []string{"mode", "weight", "seed", "closes_at"}},
	} {
		s := good
		c.change(&s)
		err := s.Validate()
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not told in: %v", c.name, part, err)
			}
		}
	}
	// What two operators may have made together stops no process from starting.
	never := good
	never.OpensAt, never.ClosesAt = &later, &noon
	if err := (Remembered{Settings: never}).validate(); err != nil {
		t.Errorf("a line that never opens cannot be remembered: %v", err)
	}
	o := DefaultOptions()
	o.Initial = never
	if err := o.Validate(); err == nil {
		t.Error("a line may be born never to open")
	}
}

func TestPhase(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	one := noon.Add(time.Hour)
	const ms = time.Millisecond
	for _, c := range []struct {
		name          string
		opens, closes *time.Time
		at            time.Time
		want          Phase
	}{
		{"no schedule", nil, nil, noon, PhaseOpen},
		{"before the opening", &noon, &one, noon.Add(-ms), PhaseScheduled},
		{"at the opening", &noon, &one, noon, PhaseOpen},
		{"before the closing", &noon, &one, one.Add(-ms), PhaseOpen},
		{"at the closing", &noon, &one, one, PhaseClosed},
		{"long after", &noon, &one, one.Add(1000 * time.Hour), PhaseClosed},
		{"only an opening, before", &noon, nil, noon.Add(-time.Hour), PhaseScheduled},
		{"only an opening, after", &noon, nil, one, PhaseOpen},
		{"only a closing, before", nil, &noon, noon.Add(-ms), PhaseOpen},
		{"only a closing, after", nil, &noon, noon, PhaseClosed},
		{"closes before it opens: before both", &one, &noon, noon.Add(-ms), PhaseScheduled},
		{"closes before it opens: between", &one, &noon, noon, PhaseClosed},
		{"closes before it opens: after both", &one, &noon, one, PhaseClosed},
	} {
		s := Settings{OpensAt: c.opens, ClosesAt: c.closes}
		if got := s.Phase(c.at); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := (Snapshot{Settings: s, At: c.at}).Phase(); got != c.want {
			t.Errorf("%s: the snapshot says %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRecovering(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		hold time.Time
		want bool
	}{{time.Time{}, false}, {now.Add(-time.Second), false}, {now, false}, {now.Add(time.Millisecond), true}} {
		if got := (Snapshot{At: now, HoldUntil: c.hold}).Recovering(); got != c.want {
			t.Errorf("held until %s at %s: %v", c.hold, now, got)
		}
	}
}

func TestDefaultOptionsAreValid(t *testing.T) {
	if err := DefaultOptions().Validate(); err != nil {
		t.Error(err)
	}
}

func TestOptionsValidateTellsEveryMistake(t *testing.T) {
	o := Options{
		Tick: time.Millisecond, Jitter: -1, AdmissionTTL: 25 * time.Hour, TicketTTL: 0,
		KeepPlace: -1, Grace: 2 * time.Minute, RecoveryHold: MaxHold + 1,
		Initial: Settings{Mode: "fast", MaxActive: -1}, Known: &Remembered{Epoch: -1, Longest: -1},
	}
	err := o.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, part := range []string{"tick ", "jitter", "admission_ttl", "ticket_ttl", "mode", "max_active", "keep_place", "grace", "recovery_hold", "epoch", "remembered interval"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told in: %v", part, err)
		}
	}
	if err := (Options{}).Validate(); err == nil {
		t.Error("the zero value is no set of options")
	}
}
