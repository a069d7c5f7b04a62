package queue

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Told is the longest interval that this process told anybody to wait before
// the next poll in the last two minutes: twice what an interval can be at most.
// Whoever wants to know who is silent, or who can have come back after a loss,
// has to give everybody that long. The zero value is ready; safe for concurrent
// use.
type Told struct {
	longest atomic.Int64 // STUB: no window yet
}

// Note takes in an interval that was told.
func (t *Told) Note(d time.Duration) {
	if t != nil && int64(d) > t.longest.Load() {
		t.longest.Store(int64(d))
	}
}

// Longest is the longest interval noted in the last two minutes; 0 of a nil Told.
func (t *Told) Longest() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.longest.Load())
}

// Attendance is who polled a line at this process lately. A process that answers
// polls runs one per line; it tells the line once a second, in one call, whom of
// those near the head it heard, and has the line mark those nobody heard. It also
// seals the draw once the line has opened.
type Attendance struct {
	line Line
	told *Told
	log  *slog.Logger
}

// NewAttendance makes one that tells the line once it runs.
func NewAttendance(line Line, told *Told, log *slog.Logger) *Attendance {
	return &Attendance{line: line, told: told, log: log.With("line", line.ID())}
}

// Polled notes that a waiting subject polled from a position and was told when
// to ask next. It is on the hot path: whoever is far from the head costs two
// loads. It keeps the subject, which must not be part of a request's buffer.
func (a *Attendance) Polled(subject string, position int64, told time.Duration) {
	a.told.Note(told) // STUB
}

// Run tells the line once a second until ctx ends; then it returns nil.
func (a *Attendance) Run(ctx context.Context) error {
	<-ctx.Done() // STUB
	return nil
}
