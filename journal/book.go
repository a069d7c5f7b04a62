package journal

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// addTimeout bounds what an operator waits for the journal.
	addTimeout = time.Second
	// againEvery is how often entries that could not be written are tried again.
	againEvery = time.Second
	// mostPending bounds how many of those are remembered.
	mostPending = 100
)

// Book writes a process's entries into a journal. One that cannot be written undoes
// nothing: it is in the log, whole, and is written when the journal answers again, as
// long as the process lives and there are no more than 100 of them.
type Book struct {
	Journal
	log *slog.Logger

	mu      sync.Mutex
	pending []Entry // oldest first; guarded by mu
}

// NewBook starts nothing.
func NewBook(j Journal, log *slog.Logger) *Book { return &Book{Journal: j, log: log} }

// Note logs an entry and writes it, and returns once it will outlive this process, or
// nothing more can be done for it here: a second later at most, and at once while others
// still wait to be written.
func (b *Book) Note(ctx context.Context, e Entry) {
	b.log.Info("an operator's change", "entry", e)
	err := ErrUnavailable
	if b.left() == 0 {
		err = b.add(ctx, e)
	}
	if err == nil {
		return
	}
	b.log.Error("an operator's change is not in the journal; it is tried again", "entry", e, "error", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending = append(b.pending, e); len(b.pending) > mostPending {
		b.log.Error("an operator's change will not be in the journal: too many wait to be written", "entry", b.pending[0])
		b.pending = slices.Delete(b.pending, 0, 1)
	}
}

func (b *Book) add(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	return b.Add(ctx, e)
}

// Run writes what could not be written before, again and again until ctx ends; then
// once more, and returns nil.
func (b *Book) Run(ctx context.Context) error {
	ticks := time.NewTicker(againEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			b.again(context.WithoutCancel(ctx))
			if left := b.left(); left > 0 {
				b.log.Error("changes of operators are in the log alone: the journal does not answer", "left", left)
			}
			return nil
		case <-ticks.C:
			b.again(ctx)
		}
	}
}

// again writes what is left, the oldest first, until one fails.
func (b *Book) again(ctx context.Context) {
	written := 0
	for e, ok := b.oldest(); ok && b.add(ctx, e) == nil; e, ok = b.oldest() {
		b.written(e)
		written++
	}
	if written > 0 {
		b.log.Info("changes of operators are in the journal after all", "written", written, "left", b.left())
	}
}

func (b *Book) oldest() (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return Entry{}, false
	}
	return b.pending[0], true
}

func (b *Book) written(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = slices.DeleteFunc(b.pending, func(p Entry) bool { return p.ID == e.ID })
}

func (b *Book) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}
