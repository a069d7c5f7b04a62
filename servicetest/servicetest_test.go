package servicetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachCallHasItsOwnSchema(t *testing.T) {
	a, b := MySQL(t), MySQL(t)
	if a == b || !strings.Contains(a, "/sluice_test_") {
		t.Fatalf("schemas %q and %q", a, b)
	}
}

func TestRedisAnswers(t *testing.T) {
	if url := Redis(t); !strings.HasPrefix(url, "redis") {
		t.Fatalf("URL %q", url)
	}
}

func TestMissingServerIsNoted(t *testing.T) {
	note := filepath.Join(t.TempDir(), "missing")
	t.Setenv("SLUICE_TEST_MISSING", note)
	t.Setenv("SLUICE_REQUIRE_SERVICES", "")
	t.Run("skips", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		}()
		missing(t, "Somebase", errors.New("refused"))
	})
	text, err := os.ReadFile(note)
	if err != nil || !strings.Contains(string(text), "Somebase") {
		t.Fatalf("note %q, %v", text, err)
	}
}

func TestOwnRedisIsEmptyAndOfTheTest(t *testing.T) {
	t.Parallel()
	one, other := OwnRedis(t).URL, OwnRedis(t).URL
	if one == other {
		t.Errorf("both are %s", one)
	}
	// The port of one that ended may be another's by now.
	if err := answers(t.Context(), strings.TrimPrefix(one, "redis://"), 1); err == nil {
		t.Error("another process's Redis was taken for the test's own")
	}
}

func TestOwnMariaDB(t *testing.T) {
	t.Parallel()
	m := OwnMariaDB(t)
	m.Stop()
	if err := exec(m.config, "DO 1"); err == nil {
		t.Error("it answers after it was stopped")
	}
	m.Start()
	if err := exec(m.config, "USE sluice_test_own"); err != nil {
		t.Error(err)
	}
}
