// Package journal is who changed what, and when: the changes that operators make. It
// knows nothing of what was changed.
package journal

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// ErrUnavailable means that the journal's store did not answer. Nothing is known about
// what it did; every method is safe to call again.
var ErrUnavailable = errors.New("journal: its store is unavailable")

// Most is how many entries a journal keeps, the latest ones.
const Most = 1000

// Entry is one change. It never holds a secret.
type Entry struct {
	// ID tells the entry from every other: added again, it is there once.
	ID string `json:"id"`
	// At is when the change was made, on the clock of the lines.
	At time.Time `json:"at"`
	// Who made it, as the operator's token names them, and From which address.
	Who  string `json:"who"`
	From string `json:"from"`
	// Line is the id of the line that was changed; empty for what concerns none.
	Line string `json:"line,omitempty"`
	// What is a stable word for the kind of change, Detail a short text of it.
	What   string `json:"what"`
	Detail string `json:"detail,omitempty"`
}

// LogValue is the whole entry.
func (e Entry) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", e.ID), slog.Time("at", e.At), slog.String("who", e.Who), slog.String("from", e.From),
		slog.String("line", e.Line), slog.String("what", e.What), slog.String("detail", e.Detail))
}

// Journal keeps the latest [Most] entries. Methods are safe for concurrent use by all
// that share a store; one that gets no answer before the context ends returns an error
// that wraps [ErrUnavailable].
type Journal interface {
	// Add puts an entry in, and returns once it will outlive this process. One of the
	// same ID is there once. An entry that is older than all of a full journal is not
	// kept.
	Add(ctx context.Context, e Entry) error
	// Latest are the last n entries by their times, newest first. What cannot be read,
	// say since a later version wrote it, is left out.
	Latest(ctx context.Context, n int) ([]Entry, error)
}
