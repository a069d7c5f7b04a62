package configs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is not set under a line stays nil, so that every line's values count; the
// environment adds lines to those of the file. What is printed reads back.
func TestLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	yaml := `
lines:
  vip: {weight: 3, max_length: 0, opens_at: 2026-11-27T18:00:00.0009+09:00, message: '', mode: passthrough, rate_override: 0, paused: false}
  sale:
`
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, []string{"SLUICE_LINES=default, vip,early-1,"}, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	opens := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	want := map[string]*FirstSettings{
		"vip": {
			Weight: new(int64(3)), MaxLength: new(int64(0)), OpensAt: &opens, Mode: new("passthrough"),
			RateOverride: new(0.0), Paused: new(false),
		},
		"sale": {}, "default": {}, "early-1": {},
	}
	if !reflect.DeepEqual(got.Lines, want) {
		t.Errorf("got  %v\nwant %v", got.Lines, want)
	}

	var printed bytes.Buffer
	if err := got.WriteYAML(&printed); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, printed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, nil, "--config", file)
	if err != nil || !reflect.DeepEqual(again.Lines, want) {
		t.Errorf("printed as\n%s\nread back as %v, %v", printed.String(), again.Lines, err)
	}
}

func TestTooManyLines(t *testing.T) {
	t.Parallel()
	ids := make([]string, MaxLines)
	for i := range ids {
		ids[i] = fmt.Sprintf("line-%d", i)
	}
	_, err := load(t, []string{"SLUICE_LINES=" + strings.Join(ids, ",")})
	if want := "lines: must be at most 100 with the default line, and they are 101"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	ids[0] = "default"
	if _, err := load(t, []string{"SLUICE_LINES=" + strings.Join(ids, ",")}); err != nil {
		t.Errorf("%d with the default line: %v", MaxLines, err)
	}
}

// The example's commented line is one that can be used as it stands, and shows
// every key that there is.
func TestExampleLine(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(raw), "lines: {}\n")
	if !ok {
		t.Fatal("the example has no lines: {}")
	}
	section, _, _ = strings.Cut(section, "\n\n")
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("lines:\n"+strings.ReplaceAll(section, "#  ", "  ")), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, nil, "--config", file)
	if err != nil || got.Lines["vip"] == nil {
		t.Fatal(err, got.Lines)
	}
	for _, k := range lineKeys("vip", got.Lines["vip"]) {
		if k.get() == nil {
			t.Errorf("the example lacks %s", k.path)
		}
	}
}
