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
	// KeepPlace is how long somebody away keeps their place after the head has
	// passed it.
	KeepPlace time.Duration
	// Grace is how much later than told a poll may come before its visitor counts
	// as silent: what a slow network and a busy phone cost.
	Grace time.Duration
	// RecoveryHold is how long admission waits after a loss, beyond the longest
	// interval that anybody was told.
	RecoveryHold time.Duration
	// Told is the longest interval this process told anybody; nil is none.
	Told *Told
	// Initial are the settings the line is born with (revision 0).
	Initial Settings
	// Known is what this process remembers of the line from before; nil if it
	// never knew it. Its settings win over Initial if an operator made them.
	Known *Remembered
}

const (
	// MaxHold is the longest that admission is held after a loss.
	MaxHold = 10 * time.Minute
	// MinZone is the least number of positions from the head in which silence
	// matters.
	MinZone = 100
	// MaxZone is the greatest.
	MaxZone = 5000
)

// StallAfter is how long a line must have given no batch for the time to count as a
// stall: its store, or everybody who asks it, was away.
const StallAfter = time.Second

// MaxTick is the longest time between two batches.
const MaxTick = 200 * time.Millisecond

// DefaultOptions are the documented defaults.
func DefaultOptions() Options {
	return Options{
		Tick:         100 * time.Millisecond,
		Jitter:       2 * time.Second,
		AdmissionTTL: 3 * time.Minute,
		TicketTTL:    12 * time.Hour,
		KeepPlace:    30 * time.Minute,
		Grace:        4 * time.Second,
		RecoveryHold: 15 * time.Second,
		Initial:      Settings{Mode: ModeNormal, Weight: 1},
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
		{"keep_place", o.KeepPlace, 0, 30 * 24 * time.Hour},
		{"grace", o.Grace, 0, time.Minute},
		{"recovery_hold", o.RecoveryHold, 0, MaxHold},
	} {
		if d.value < d.min || d.value > d.max {
			errs = append(errs, fmt.Errorf("%s must be between %s and %s, not %s", d.name, d.min, d.max, d.value))
		}
	}
	if err := o.Initial.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Known != nil {
		if err := o.Known.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
