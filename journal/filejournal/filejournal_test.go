package filejournal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sluice/journal"
	"sluice/journal/journaltest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("FILEJOURNAL_TEST_WRITER"); path != "" {
		writer(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// writer adds entries, and says of each when it is acknowledged, until it is killed.
func writer(path string) {
	j, err := Open(path)
	for n := 0; err == nil; n++ {
		if err = j.Add(nil, journaltest.Entry(n)); err == nil { //nolint:staticcheck // SA1012: a file needs no context
			_, err = fmt.Println(n)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		current := open(t, path)
		return current, func() journal.Journal { // after another start
			if err := current.Close(); err != nil {
				t.Fatal(err)
			}
			current = open(t, path)
			return current
		}
	})
}

// A process that is killed right after an acknowledgement has lost nothing of what it
// acknowledged, also when it was about to begin another file.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, kill := range []int{3, journal.Most - 1, journal.Most, journal.Most + 1} {
		t.Run(fmt.Sprint("after ", kill), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "FILEJOURNAL_TEST_WRITER="+path)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			acknowledged := -1
			lines := bufio.NewScanner(out)
			for acknowledged < kill && lines.Scan() {
				acknowledged++
			}
			_ = cmd.Process.Kill()
			for lines.Scan() { // what it said before it died
				acknowledged++
			}
			_ = cmd.Wait() // says that it was killed
			if acknowledged < kill {
				t.Fatalf("it died by itself after %d", acknowledged)
			}
			j := open(t, path)
			got, _ := j.Latest(t.Context(), journal.Most)
			if len(got) < min(journal.Most, acknowledged+1) {
				t.Fatalf("%d entries, %d acknowledged", len(got), acknowledged+1)
			}
			there := map[string]bool{}
			for _, e := range got {
				there[e.ID] = true
			}
			for n := max(0, acknowledged-journal.Most+2); n <= acknowledged; n++ {
				if !there[journaltest.Entry(n).ID] {
					t.Fatalf("entry %d of %d is lost", n, acknowledged)
				}
			}
		})
	}
}

// A line that a crash has left half written costs itself alone.
func TestHalfALine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := open(t, path)
	for n := range 2 {
		if err := j.Add(t.Context(), journaltest.Entry(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-7], 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	if err := j.Add(t.Context(), journaltest.Entry(2)); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	got, _ := open(t, path).Latest(t.Context(), 9)
	if len(got) != 2 || got[0].ID != journaltest.Entry(2).ID || got[1].ID != journaltest.Entry(0).ID {
		t.Errorf("%+v", got)
	}
}

// A folder that takes nothing is told, and taken again when it does.
func TestFolderThatIsGone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	j := open(t, filepath.Join(folder, "journal.jsonl"))
	for n := range journal.Most { // the next needs another file
		if err := j.Add(t.Context(), journaltest.Entry(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := j.Add(t.Context(), journaltest.Entry(journal.Most)); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("added to nowhere: %v", err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Add(t.Context(), journaltest.Entry(journal.Most)); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "journal.jsonl"))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%q, %v", text, err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Add(t.Context(), journaltest.Entry(journal.Most+1)); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("added after the end: %v", err)
	}
}
