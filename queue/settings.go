package queue

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Mode is how the line lets people in.
type Mode string

// The modes an operator can choose.
const (
	ModeNormal      Mode = "normal"      // wait, then be admitted at the rate
	ModePassthrough Mode = "passthrough" // no waiting, still tokens
	ModeBlock       Mode = "block"       // nobody is let in, or told where they stand
	ModeBypass      Mode = "bypass"      // let in by each instance at its part of the rate, without the line
)

// Bypassed reports whether the line itself lets nobody in: visitors meet what stands
// in front of it.
func (m Mode) Bypassed() bool { return m == ModeBlock || m == ModeBypass }

func (m Mode) valid() bool {
	return m == ModeNormal || m == ModePassthrough || m.Bypassed()
}

// MaxMessage bounds an operator's message, in bytes.
const MaxMessage = 1000

// MaxRate bounds the rate, in admissions per second: with the longest tick it
// is the largest batch a line's store is asked for in one step.
const MaxRate = 10_000

// ValidRate refuses what is no rate: below 0, infinite, or not a number.
func ValidRate(perSecond float64) error {
	if !(perSecond >= 0) || math.IsInf(perSecond, 1) {
		return fmt.Errorf("queue: %v is not a rate", perSecond)
	}
	return nil
}

// MaxWeight bounds a line's weight.
const MaxWeight = 1000

// MaxPollBudget bounds a line's poll budget, in polls per second and instance.
const MaxPollBudget = 1_000_000

// Phase is where a line is in its schedule.
type Phase string

// The phases, in order. A line without a schedule is open.
const (
	PhaseScheduled Phase = "scheduled"
	PhaseOpen      Phase = "open"
	PhaseClosed    Phase = "closed"
)

// Settings are what an operator decides about a line while it runs. They live
// in the line's store, so that every process obeys within a second.
type Settings struct {
	// Revision orders changes; the settings a line is born with have 0.
	Revision int64
	// Paused lets nobody in.
	Paused bool
	// Message is shown to those who wait.
	Message string
	Mode    Mode
	// RateOverride replaces the measured rate, in admissions per second; nil
	// is no override, 0 lets nobody in.
	RateOverride *float64
	// MaxActive bounds how many hold a live admission at once; 0 is no bound.
	MaxActive int64
	// MaxLength bounds how many wait; 0 is no bound.
	MaxLength int64
	// SoldOut is told to those who wait; it stops nothing by itself.
	SoldOut bool
	// Weight is the line's share of the capacity beside other lines in which
	// somebody waits: 1 to MaxWeight.
	Weight int64
	// PollBudget is how many polls per second each instance should get from
	// this line; nil leaves it to the instance's own budget.
	PollBudget *float64
	// OpensAt and ClosesAt are in whole milliseconds; nil is no such time. Who
	// arrives before OpensAt takes part in the draw. A line whose ClosesAt is
	// not after its OpensAt never opens.
	OpensAt, ClosesAt *time.Time
	// Seed is that of the draw, 64 hex digits; empty without a draw. It is made
	// by the line, and secret until the line opens.
	Seed string
	// TicketsSHA256 is the hash of the set of early tickets, in hex; empty until
	// [Line.Seal] has fixed it.
	TicketsSHA256 string
}

// Validate reports every mistake at once: those of the fields, and a closing time
// that is not after the opening. Whoever changes both, or one beside the other,
// applies the patch first and asks then.
func (s Settings) Validate() error {
	err := s.validate()
	if s.OpensAt != nil && s.ClosesAt != nil && !s.ClosesAt.After(*s.OpensAt) {
		return errors.Join(err, errors.New("closes_at must be after opens_at"))
	}
	return err
}

// validate reports the mistakes of single fields. What is read back is held to
// these alone: two operators who each set one of the times at the same moment may
// have made a line that never opens, which must not keep a process from starting.
func (s Settings) validate() error {
	err := Patch{
		Message: &s.Message, Mode: &s.Mode, RateOverride: &s.RateOverride, MaxActive: &s.MaxActive,
		MaxLength: &s.MaxLength, Weight: &s.Weight, PollBudget: &s.PollBudget, OpensAt: &s.OpensAt, ClosesAt: &s.ClosesAt,
	}.Validate()
	if s.Seed != "" && !isHash(s.Seed) || s.TicketsSHA256 != "" && !isHash(s.TicketsSHA256) {
		return errors.Join(err, errors.New("the seed and the hash of the tickets must be 64 hex digits each"))
	}
	return err
}

// isHash reports whether s is 256 bits in hex.
func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

// Phase is the phase of the schedule at a time of the store's.
func (s Settings) Phase(at time.Time) Phase {
	switch {
	case s.ClosesAt != nil && !at.Before(*s.ClosesAt):
		return PhaseClosed
	case s.OpensAt != nil && at.Before(*s.OpensAt):
		return PhaseScheduled
	}
	return PhaseOpen
}

// Patch is a partial change of Settings: a nil field stays as it is.
type Patch struct {
	Paused  *bool
	Message *string
	Mode    *Mode
	// RateOverride set to a pointer to nil clears the override.
	RateOverride **float64
	MaxActive    *int64
	MaxLength    *int64
	SoldOut      *bool
	Weight       *int64
	// PollBudget, OpensAt and ClosesAt set to a pointer to nil clear what is set.
	PollBudget        **float64
	OpensAt, ClosesAt **time.Time
}

// Validate reports every mistake in the patch at once.
func (p Patch) Validate() error {
	var errs []error
	if p.Message != nil && (len(*p.Message) > MaxMessage || !utf8.ValidString(*p.Message)) {
		errs = append(errs, fmt.Errorf("message must be UTF-8 of at most %d bytes", MaxMessage))
	}
	if p.Mode != nil && !p.Mode.valid() {
		errs = append(errs, fmt.Errorf("mode must be %q, %q, %q or %q", ModeNormal, ModePassthrough, ModeBlock, ModeBypass))
	}
	if p.RateOverride != nil && *p.RateOverride != nil {
		if r := **p.RateOverride; ValidRate(r) != nil || r > MaxRate {
			errs = append(errs, fmt.Errorf("rate_override must be between 0 and %d per second, or null", MaxRate))
		}
	}
	if p.MaxActive != nil && *p.MaxActive < 0 {
		errs = append(errs, errors.New("max_active must not be negative"))
	}
	if p.MaxLength != nil && *p.MaxLength < 0 {
		errs = append(errs, errors.New("max_length must not be negative"))
	}
	if p.Weight != nil && (*p.Weight < 1 || *p.Weight > MaxWeight) {
		errs = append(errs, fmt.Errorf("weight must be between 1 and %d", MaxWeight))
	}
	if p.PollBudget != nil && *p.PollBudget != nil {
		if b := **p.PollBudget; !(b > 0) || b > MaxPollBudget {
			errs = append(errs, fmt.Errorf("poll_budget must be above 0 and at most %d per second, or null", MaxPollBudget))
		}
	}
	for _, at := range []struct {
		name  string
		value **time.Time
	}{{"opens_at", p.OpensAt}, {"closes_at", p.ClosesAt}} {
		if at.value != nil && *at.value != nil && ((**at.value).Before(firstTime) || !(**at.value).Before(lastTime)) {
			errs = append(errs, fmt.Errorf("%s must be a time from %d to %d, or null", at.name, firstTime.Year(), lastTime.Year()-1))
		}
	}
	return errors.Join(errs...)
}

// Times outside of these are slips of the pen; drawn places are below the first.
var (
	firstTime = time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Apply returns s with the patch's fields in it; the revision is unchanged.
func (s Settings) Apply(p Patch) Settings {
	if p.Paused != nil {
		s.Paused = *p.Paused
	}
	if p.Message != nil {
		s.Message = *p.Message
	}
	if p.Mode != nil {
		s.Mode = *p.Mode
	}
	if p.RateOverride != nil {
		s.RateOverride = *p.RateOverride
	}
	if p.MaxActive != nil {
		s.MaxActive = *p.MaxActive
	}
	if p.MaxLength != nil {
		s.MaxLength = *p.MaxLength
	}
	if p.SoldOut != nil {
		s.SoldOut = *p.SoldOut
	}
	if p.Weight != nil {
		s.Weight = *p.Weight
	}
	if p.PollBudget != nil {
		s.PollBudget = *p.PollBudget
	}
	if p.OpensAt != nil {
		s.OpensAt = wholeMS(*p.OpensAt)
	}
	if p.ClosesAt != nil {
		s.ClosesAt = wholeMS(*p.ClosesAt)
	}
	return s
}

// wholeMS is a time as settings keep it.
func wholeMS(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	ms := time.UnixMilli(t.UnixMilli()).UTC()
	return &ms
}
