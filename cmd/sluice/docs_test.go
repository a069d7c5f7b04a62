package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	namesOfTests = regexp.MustCompile("`([a-z/]+)`: (Test\\w+(?:, Test\\w+)*)")
	aTest        = regexp.MustCompile(`Test\w+`)
)

// Every fault that the operator is told of has a test that is there.
func TestFaultsHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := tableAfter(string(text), "### Every fault, and what shows it")
	if len(rows) < 10 {
		t.Fatalf("%d rows in the table of faults", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if len(cells) != 6 {
			t.Errorf("%d cells instead of 6: %s", len(cells), row)
			continue
		}
		named := 0
		for _, found := range namesOfTests.FindAllStringSubmatch(cells[5], -1) {
			for _, name := range strings.Split(found[2], ", ") {
				named++
				if !hasTest(t, found[1], name) {
					t.Errorf("%s: there is no %s in %s", strings.TrimSpace(cells[0]), name, found[1])
				}
			}
		}
		if all := len(aTest.FindAllString(cells[5], -1)); named == 0 || named != all {
			t.Errorf("%s: %d tests in %q, and %d said where", strings.TrimSpace(cells[0]), all, cells[5], named)
		}
	}
}

// tableAfter are the rows of the first table under a heading, without its head.
func tableAfter(text, heading string) (rows []string) {
	_, text, _ = strings.Cut(text, heading+"\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			rows = append(rows, line)
		} else if len(rows) > 0 {
			break
		}
	}
	return rows[min(2, len(rows)):]
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
