package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sluice/servicetest"
)

// What the waiting page reckons without a browser, run by node: testdata/reckon.test.mjs
// says what must hold.
func TestWaitingPageReckons(t *testing.T) {
	t.Parallel()
	node := servicetest.Program(t, "node")
	// Node takes a file for a module by its name alone.
	dir := t.TempDir()
	for from, to := range map[string]string{
		"assets/reckon.js": "reckon.mjs", "assets/handover.js": "handover.mjs", "testdata/reckon.test.mjs": "reckon.test.mjs",
	} {
		body, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), node, "--test", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}
