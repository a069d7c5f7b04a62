// Package filejournal is the journal in a file of the data folder, for a process that
// has no Redis: an entry a line, in JSON, appended and brought to the disk before it
// counts. It is for one process at a time.
package filejournal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"sluice/journal"
)

// Journal is the journal in a file. See [journal.Journal] for its contract.
//
// Once the file has [journal.Most] lines it becomes the one before, path with ".1", in
// place of the last of those: so the two hold at least the latest and at most twice as
// many, and a crash at any moment loses no line.
type Journal struct {
	path string

	mu     sync.Mutex
	latest []journal.Entry // oldest first, at most journal.Most; guarded by mu
	lines  int             // in the file; guarded by mu
	file   *os.File        // nil once closed, or while it could not be opened; guarded by mu
	closed bool            // guarded by mu
}

var _ journal.Journal = (*Journal)(nil)

// Open reads what there is and makes the file where there is none.
func Open(path string) (*Journal, error) {
	j := &Journal{path: path}
	for _, name := range []string{j.before(), path} {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("filejournal: reading it: %w", err)
		}
		j.lines = 0
		for line := range bytes.Lines(text) {
			j.lines++
			var e journal.Entry
			if json.Unmarshal(line, &e) == nil {
				j.remember(e)
			}
		}
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("filejournal: %w", err)
	}
	return j, nil
}

func (j *Journal) before() string { return j.path + ".1" }

// Close gives the file back; nothing is added afterwards.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return j.drop()
}

// Add implements [journal.Journal].
func (j *Journal) Add(_ context.Context, e journal.Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("filejournal: writing an entry: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fmt.Errorf("%w: it is closed", journal.ErrUnavailable)
	}
	if j.has(e.ID) {
		return nil
	}
	if err := j.append(append(text, '\n')); err != nil {
		// What is half written must not be the beginning of the next line.
		return fmt.Errorf("%w: adding an entry: %w", journal.ErrUnavailable, errors.Join(err, j.drop()))
	}
	j.remember(e)
	return nil
}

// append brings a line to the disk. The caller holds mu.
func (j *Journal) append(line []byte) error {
	if j.lines >= journal.Most {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if err := j.open(); err != nil {
		return err
	}
	if _, err := j.file.Write(line); err != nil {
		return err
	}
	j.lines++
	return j.file.Sync()
}

func (j *Journal) rotate() error {
	if err := j.drop(); err != nil {
		return err
	}
	if err := os.Rename(j.path, j.before()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	j.lines = 0
	return nil
}

// open opens the file to append to, if it is not, and sees to it that it ends with a
// whole line and is found in its folder after a crash. The caller holds mu.
func (j *Journal) open() error {
	if j.file != nil {
		return nil
	}
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(endLine(file), syncFolder(j.path)); err != nil {
		return errors.Join(err, file.Close())
	}
	j.file = file
	return nil
}

// endLine ends a line that a crash has left half written.
func endLine(file *os.File) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = file.WriteString("\n")
	return err
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// drop closes the file; the next entry opens it again. The caller holds mu.
func (j *Journal) drop() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

func (j *Journal) has(id string) bool {
	return slices.ContainsFunc(j.latest, func(e journal.Entry) bool { return e.ID == id })
}

// remember puts an entry behind those that are not later. The caller holds mu, or is
// alone.
func (j *Journal) remember(e journal.Entry) {
	if j.has(e.ID) {
		return // a write of which nobody knew that it had succeeded, and that was made again
	}
	i := len(j.latest)
	for i > 0 && j.latest[i-1].At.After(e.At) {
		i--
	}
	j.latest = slices.Insert(j.latest, i, e)
	j.latest = j.latest[max(0, len(j.latest)-journal.Most):]
}

// Latest implements [journal.Journal]. It does not fail.
func (j *Journal) Latest(_ context.Context, n int) ([]journal.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := slices.Clone(j.latest[len(j.latest)-min(max(n, 0), len(j.latest)):])
	slices.Reverse(last)
	return last, nil
}
