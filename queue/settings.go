package queue

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Mode is how the line lets people in.
type Mode string

// The modes an operator can choose.
const (
	ModeNormal      Mode = "normal"      // wait, then be admitted at the rate
	ModePassthrough Mode = "passthrough" // no waiting, still tokens
)

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
}

// Validate reports every mistake in the patch at once.
func (p Patch) Validate() error {
	var errs []error
	if p.Message != nil && (len(*p.Message) > MaxMessage || !utf8.ValidString(*p.Message)) {
		errs = append(errs, fmt.Errorf("message must be UTF-8 of at most %d bytes", MaxMessage))
	}
	if p.Mode != nil && *p.Mode != ModeNormal && *p.Mode != ModePassthrough {
		errs = append(errs, fmt.Errorf("mode must be %q or %q", ModeNormal, ModePassthrough))
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
	return errors.Join(errs...)
}

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
	return s
}
