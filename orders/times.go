package orders

import (
	"context"
	"time"
)

// Times are where the time of an order went: it came to the pool, a worker took it, the
// worker was done with all of its group. What did not happen to it is zero:
// an order that was refused while it waited has only arrived.
type Times struct{ Arrived, Begun, Done time.Time }

// Timed returns a context with which [Service.Place] notes the times of the order in t
// before it returns. Of an order that was found, or that another call has made, it notes
// nothing.
func Timed(ctx context.Context, t *Times) context.Context {
	return context.WithValue(ctx, timesKey{}, t)
}

type timesKey struct{}

func timesOf(ctx context.Context) *Times {
	t, _ := ctx.Value(timesKey{}).(*Times)
	return t
}

// note is called once the submission is over: then nobody writes to it any more.
func (t *Times) note(s *submission) {
	t.Arrived = s.arrived
	if s.group != nil {
		t.Begun, t.Done = s.group.begun, time.Now()
	}
}
