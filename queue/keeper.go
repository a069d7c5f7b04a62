package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// keepEvery is how soon a change reaches the disk.
const keepEvery = 250 * time.Millisecond

// Remembered is what a process must know of a line after its own restart: an
// operator's word still holds, and a ticket of an ended sale stays dead, also
// when the line's store has forgotten both. It is the embedded line's only home.
type Remembered struct {
	Epoch    int64
	Settings Settings
}

// Recall reads what was kept at path; ok is false if nothing was.
func Recall(path string) (r Remembered, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Remembered{}, false, nil
	}
	if err != nil {
		return Remembered{}, false, fmt.Errorf("queue: recalling the line: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Remembered{}, false, fmt.Errorf("queue: %s is damaged; remove it to start the line anew: %w", path, err)
	}
	return r, true, nil
}

// Keeper writes what is to be remembered of a watched line to a file.
type Keeper struct {
	path  string
	watch *Watch
	log   *slog.Logger
	kept  Remembered
	ok    bool // kept is what the file says
}

// NewKeeper makes a keeper that writes to path once it runs.
func NewKeeper(path string, watch *Watch, log *slog.Logger) *Keeper {
	return &Keeper{path: path, watch: watch, log: log}
}

// Run writes each change, and the last one when ctx ends; then it returns nil.
// A disk that cannot be written is logged when that changes, and tried again.
func (k *Keeper) Run(ctx context.Context) error {
	ticks := time.NewTicker(keepEvery)
	defer ticks.Stop()
	failing := false
	for {
		_, err := k.runOnce()
		if err != nil && !failing {
			k.log.Error("the line's settings cannot be kept for the next start", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			_, _ = k.runOnce()
			return nil
		case <-ticks.C:
		}
	}
}

// runOnce writes the file if there is something new, and reports whether it did.
func (k *Keeper) runOnce() (wrote bool, err error) {
	view, ok := k.watch.View()
	if !ok {
		return false, nil
	}
	now := Remembered{Epoch: view.Epoch, Settings: view.Settings}
	if k.ok && now.Epoch == k.kept.Epoch && now.Settings.Revision == k.kept.Settings.Revision {
		return false, nil
	}
	if err := now.keep(k.path); err != nil {
		return false, err
	}
	k.kept, k.ok = now, true
	return true, nil
}

// keep replaces the file in one step, so that a crash leaves the old or the new.
func (r Remembered) keep(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("queue: keeping the line: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("queue: keeping the line: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already when all went well
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("queue: keeping the line: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("queue: keeping the line: %w", err)
	}
	return nil
}
