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
		}, nil},
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
		}, []string{"message", "mode", "rate_override", "max_active", "max_length"}},
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
	}
})

// patchTo is the patch that makes any settings into s, its revision apart.
func patchTo(s Settings) Patch {
	return Patch{
		Paused: &s.Paused, Message: &s.Message, Mode: &s.Mode, RateOverride: &s.RateOverride,
		MaxActive: &s.MaxActive, MaxLength: &s.MaxLength, SoldOut: &s.SoldOut,
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

func TestDefaultOptionsAreValid(t *testing.T) {
	if err := DefaultOptions().Validate(); err != nil {
		t.Error(err)
	}
}

func TestOptionsValidateTellsEveryMistake(t *testing.T) {
	o := Options{
		Tick: time.Millisecond, Jitter: -1, AdmissionTTL: 25 * time.Hour, TicketTTL: 0,
		Initial: Settings{Mode: "fast", MaxActive: -1},
	}
	err := o.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, part := range []string{"tick ", "jitter", "admission_ttl", "ticket_ttl", "mode", "max_active"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told in: %v", part, err)
		}
	}
	if err := (Options{}).Validate(); err == nil {
		t.Error("the zero value is no set of options")
	}
}
