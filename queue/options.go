package queue

import (
	"errors"
	"fmt"
	"time"
)

// Options are what a line is made with. The zero value of a field is not a
// default: start from [DefaultOptions].
type Options struct {
	// Tick is the time between two batches.
	Tick time.Duration
	// Jitter is the window over which the not-before times of one batch are
	// spread, so that a batch reaches the order API as a stream.
	Jitter time.Duration
	// AdmissionTTL is how long an admission is good after its not-before.
	AdmissionTTL time.Duration
	// TicketTTL is how long a ticket is good after it was signed, and how long
	// the end of a ticket is remembered.
	TicketTTL time.Duration
	// Epoch is the highest one this process remembers of the line; 0 if none.
	Epoch int64
	// Initial are the settings the line is born with (revision 0), or those that
	// this process remembers of it.
	Initial Settings
}

// MaxTick is the longest time between two batches.
const MaxTick = 200 * time.Millisecond

// DefaultOptions are the documented defaults.
func DefaultOptions() Options {
	return Options{
		Tick:         100 * time.Millisecond,
		Jitter:       2 * time.Second,
		AdmissionTTL: 3 * time.Minute,
		TicketTTL:    12 * time.Hour,
		Initial:      Settings{Mode: ModeNormal},
	}
}

// Validate reports every mistake at once.
func (o Options) Validate() error {
	var errs []error
	for _, d := range []struct {
		name     string
		value    time.Duration
		min, max time.Duration
	}{
		{"tick", o.Tick, 10 * time.Millisecond, MaxTick},
		{"jitter", o.Jitter, 0, 10 * time.Minute},
		{"admission_ttl", o.AdmissionTTL, time.Millisecond, 24 * time.Hour},
		{"ticket_ttl", o.TicketTTL, time.Second, 30 * 24 * time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			errs = append(errs, fmt.Errorf("%s must be between %s and %s, not %s", d.name, d.min, d.max, d.value))
		}
	}
	if o.Epoch < 0 {
		errs = append(errs, errors.New("epoch must not be negative"))
	}
	s := o.Initial
	if err := (Patch{Mode: &s.Mode, RateOverride: &s.RateOverride, MaxActive: &s.MaxActive, MaxLength: &s.MaxLength}).Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
