package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/queue"
)

// patchRequest is a change of a line's settings; null puts a field back to what
// it is without an operator.
type patchRequest struct {
	Paused       change[bool]       `json:"paused"`
	Message      change[string]     `json:"message"`
	Mode         change[queue.Mode] `json:"mode"`
	RateOverride change[float64]    `json:"rate_override"`
	MaxActive    change[int64]      `json:"max_active"`
	MaxLength    change[int64]      `json:"max_length"`
	SoldOut      change[bool]       `json:"sold_out"`
	Weight       change[int64]      `json:"weight"`
	PollBudget   change[float64]    `json:"poll_budget"`
	OpensAt      change[string]     `json:"opens_at"`
	ClosesAt     change[string]     `json:"closes_at"`
}

// patch reads the request; the error names the times in it that are none.
func (r patchRequest) patch() (queue.Patch, error) {
	opensAt, opensErr := timeChange("opens_at", r.OpensAt)
	closesAt, closesErr := timeChange("closes_at", r.ClosesAt)
	return queue.Patch{
		Paused:       r.Paused.or(false),
		Message:      r.Message.or(""),
		Mode:         r.Mode.or(queue.ModeNormal),
		RateOverride: r.RateOverride.orNone(),
		MaxActive:    r.MaxActive.or(0),
		MaxLength:    r.MaxLength.or(0),
		SoldOut:      r.SoldOut.or(false),
		Weight:       r.Weight.or(1),
		PollBudget:   r.PollBudget.orNone(),
		OpensAt:      opensAt,
		ClosesAt:     closesAt,
	}, errors.Join(opensErr, closesErr)
}

func timeChange(name string, c change[string]) (**time.Time, error) {
	read := change[time.Time]{set: c.set}
	if c.value != nil {
		at, err := time.Parse(time.RFC3339, *c.value)
		if err != nil {
			return nil, fmt.Errorf("%s must be a time like 2026-01-02T03:04:05.678Z, or null", name)
		}
		read.value = &at
	}
	return read.orNone(), nil
}

// patchFor is what a request changes of a line, or of a new one where l is nil; a
// refusal tells every mistake. A change of one of the two times is judged with the
// other as it is now, also where another instance has just changed it. Any other
// change is judged alone: an operator can always pause.
func patchFor(ctx context.Context, l *line, req patchRequest) (queue.Patch, error) {
	patch, err := req.patch()
	if patch.OpensAt == nil && patch.ClosesAt == nil {
		err = errors.Join(err, patch.Validate())
	} else {
		settings := queue.DefaultOptions().Initial
		if l != nil {
			if err := l.watch.Refresh(ctx); err != nil {
				return patch, queueError("reading a line before its change", err)
			}
			view, _ := l.watch.View()
			settings = view.Settings
		}
		err = errors.Join(err, settings.Apply(patch).Validate())
	}
	if err != nil {
		return patch, explain(errInvalidRequest, "%s", oneLine(err.Error()))
	}
	return patch, nil
}
