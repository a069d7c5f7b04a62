package journal

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gone is a journal that answers once it is told to.
type gone struct {
	back  bool
	added []string
}

func (g *gone) Add(_ context.Context, e Entry) error {
	if !g.back {
		return ErrUnavailable
	}
	g.added = append(g.added, e.ID)
	return nil
}

func (g *gone) Latest(context.Context, int) ([]Entry, error) { return nil, ErrUnavailable }

// What waits to be written is bounded: the oldest give way, and the log has them. A stop
// writes what can be written, and says what could not.
func TestPendingEntries(t *testing.T) {
	for name, back := range map[string]bool{"back before the stop": true, "never back": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				g := &gone{}
				b := NewBook(g, slog.New(slog.NewTextHandler(&log, nil)))
				for n := range mostPending + 2 {
					b.Note(t.Context(), Entry{ID: fmt.Sprint(n), Detail: fmt.Sprintf("detail %d.", n)})
				}
				g.back = back
				ctx, stop := context.WithCancel(t.Context())
				stop()
				if err := b.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if back && (len(g.added) != mostPending || g.added[0] != "2" || b.left() != 0) {
					t.Errorf("written: %v, left %d", g.added, b.left())
				}
				said := log.String()
				if lost := strings.Count(said, "will not be in the journal"); lost != 2 {
					t.Errorf("%d are said to be lost", lost)
				}
				if alone := strings.Contains(said, "in the log alone"); alone == back {
					t.Errorf("the log at the end: %s", said[max(0, len(said)-500):])
				}
				for n := range mostPending + 2 {
					if !strings.Contains(said, fmt.Sprintf("detail %d.", n)) {
						t.Errorf("entry %d is not in the log", n)
					}
				}
			})
		})
	}
}

// A journal that answers has an entry before Note returns.
func TestNote(t *testing.T) {
	g := &gone{back: true}
	b := NewBook(g, slog.New(slog.DiscardHandler))
	b.Note(t.Context(), Entry{ID: "a", At: time.Unix(1, 0)})
	if len(g.added) != 1 || b.left() != 0 {
		t.Errorf("%v, %d left", g.added, b.left())
	}
}
