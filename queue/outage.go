package queue

import (
	"log/slog"
	"time"
)

// Outage notices when something that is called again and again goes away and
// comes back, so that each is logged once and not with every call between. The
// zero value is ready; it is for one goroutine at a time.
type Outage struct {
	since time.Time // zero while calls succeed
}

// Note takes in the outcome of a call and logs a change: began as a warning with
// the error, ended with how long it was away. A call that was cut off because its
// caller stopped says nothing and is not to be noted.
func (o *Outage) Note(log *slog.Logger, err error, began, ended string) {
	switch down := !o.since.IsZero(); {
	case err != nil && !down:
		o.since = time.Now()
		log.Warn(began, "error", err)
	case err == nil && down:
		log.Info(ended, "away", time.Since(o.since))
		o.since = time.Time{}
	}
}
