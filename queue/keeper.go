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
	"sync"
	"time"
)

// keepEvery is how soon a change reaches the disk.
const keepEvery = 250 * time.Millisecond

// longestStep is by how much the longest interval told must have grown to be
// written by itself: a hold has many times that to spare.
const longestStep = time.Second

// Remembered is what a process must know of a line after its own restart: an
// operator's word still holds, and a ticket of an ended sale stays dead, also
// when the line's store has forgotten both. It is the embedded line's only home.
type Remembered struct {
	Epoch int64
	// Created is the incarnation of the store in which the line was last seen
	// ([Snapshot].Created).
	Created  time.Time
	Settings Settings
	// Longest is the longest interval that was told lately ([Told]), when this was
	// written or up to a second less.
	Longest time.Duration
	// Quiet is true after a clean stop at which nobody waited or was away.
	Quiet bool
}

func (r Remembered) validate() error {
	var errs []error
	if r.Epoch < 0 {
		errs = append(errs, errors.New("the remembered epoch must not be negative"))
	}
	if r.Longest < 0 {
		errs = append(errs, errors.New("the remembered interval must not be negative"))
	}
	return errors.Join(append(errs, r.Settings.validate())...)
}

// Recall reads what was kept at path; ok is false if nothing was. What an earlier
// version did not keep is zero, but for the weight, which is 1.
func Recall(path string) (r Remembered, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Remembered{}, false, nil
	}
	if err != nil {
		return Remembered{}, false, fmt.Errorf("queue: recalling the line: %w", err)
	}
	if err = json.Unmarshal(text, &r); err == nil {
		if r.Settings.Weight == 0 {
			r.Settings.Weight = 1
		}
		err = r.validate()
	}
	if err != nil {
		return Remembered{}, false, fmt.Errorf("queue: %s is damaged; remove it to start the line anew: %w", path, err)
	}
	return r, true, nil
}

// Keeper writes what is to be remembered of a watched line to a file.
type Keeper struct {
	path  string
	watch *Watch
	told  *Told
	log   *slog.Logger

	mu   sync.Mutex
	kept Remembered // guarded by mu
	ok   bool       // guarded by mu; kept is what the file says
}

// NewKeeper makes a keeper that writes to path. told is what this process told
// those who poll the line; nil if it answers no polls. It takes in what the
// process before this one told, whose visitors may still be counting: it is kept
// on, and nobody is taken for silent or gone too early. A file that cannot be read
// is for whoever opens the line to report ([Recall]).
func NewKeeper(path string, watch *Watch, told *Told, log *slog.Logger) *Keeper {
	if before, ok, _ := Recall(path); ok {
		told.Note(before.Longest)
	}
	return &Keeper{path: path, watch: watch, told: told, log: log}
}

// Run writes each change until ctx ends, and then once more, after a last look at
// the line: whether anybody waited. Its caller lets it come to that only at a clean
// stop, with polls no longer answered. It returns nil. A disk that cannot be
// written is logged when that changes, and tried again.
func (k *Keeper) Run(ctx context.Context) error {
	ticks := time.NewTicker(keepEvery)
	defer ticks.Stop()
	failing := false
	for {
		err := k.Keep()
		if err != nil && !failing {
			k.log.Error("the line's settings cannot be kept for the next start", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			if err := k.stop(context.WithoutCancel(ctx)); err != nil {
				k.log.Error("how the line stopped cannot be kept for the next start", "error", err)
			}
			return nil
		case <-ticks.C:
		}
	}
}

// stop writes the last word, at most a second later. A store that does not answer
// may hold people.
func (k *Keeper) stop(ctx context.Context) error {
	fresh := k.watch.Refresh(ctx) == nil
	k.mu.Lock()
	defer k.mu.Unlock()
	view, ok := k.watch.View()
	if !ok {
		return nil
	}
	last := k.remember(view)
	last.Quiet = fresh && view.Waiting == 0 && view.Away == 0
	return k.write(last)
}

// Keep writes what the watch has seen, if it is news. Whoever changes the line
// and refreshes its watch calls it before acknowledging the change: the embedded
// line has no other memory. Safe for concurrent use.
//
// The first call of a process writes always: from then on a crash is no clean
// stop.
func (k *Keeper) Keep() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	view, ok := k.watch.View()
	if !ok {
		return nil
	}
	now := k.remember(view)
	if k.ok && now.Epoch == k.kept.Epoch && now.Settings.Revision == k.kept.Settings.Revision &&
		now.Created.Equal(k.kept.Created) && now.Longest <= k.kept.Longest+longestStep {
		return nil
	}
	return k.write(now)
}

// remember is what there is to write; the caller holds mu. Epoch and settings
// never go back: a store that has just lost its memory has nothing to teach.
func (k *Keeper) remember(view View) Remembered {
	now := Remembered{Epoch: view.Epoch, Created: view.Created, Settings: view.Settings, Longest: k.told.Longest()}
	if !k.ok {
		return now
	}
	if now.Epoch < k.kept.Epoch || now.Settings.Revision < k.kept.Settings.Revision {
		now.Created = k.kept.Created
	}
	now.Epoch = max(now.Epoch, k.kept.Epoch)
	if now.Settings.Revision < k.kept.Settings.Revision {
		now.Settings = k.kept.Settings
	}
	return now
}

// write replaces what is kept; the caller holds mu.
func (k *Keeper) write(now Remembered) error {
	if err := now.keep(k.path); err != nil {
		return fmt.Errorf("queue: keeping the line: %w", err)
	}
	k.kept, k.ok = now, true
	return nil
}

// keep replaces the file in one step, so that a crash leaves the old or the new,
// and returns when the disk has it.
func (r Remembered) keep(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := path + ".new"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
