package admission

import (
	"log/slog"
	"time"
)

// outage notices when a store goes away and comes back, so that each is logged
// once and not with every call between.
type outage struct {
	since time.Time // zero while the store answers
}

// note takes in the outcome of a call and logs a change with its message.
func (o *outage) note(log *slog.Logger, err error, began, ended string) {
	switch down := !o.since.IsZero(); {
	case err != nil && !down:
		o.since = time.Now()
		log.Warn(began, "error", err)
	case err == nil && down:
		log.Info(ended, "away", time.Since(o.since))
		o.since = time.Time{}
	}
}
