package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sluice/servicetest"
)

// What the waiting page reckons; testdata/reckon.test.js says what must hold.
func TestWaitingPageReckons(t *testing.T) {
	t.Parallel()
	underNode(t, "reckon.test.js", "reckon.js", "handover.js")
}

// How a shop takes a turn and presents it; testdata/turn.test.js says what must hold.
func TestShopTakesItsTurn(t *testing.T) {
	t.Parallel()
	underNode(t, "turn.test.js", "turn.js", "api.js", "coupons.js")
}

// underNode runs a test of testdata, which finds the assets beside it, without a browser.
func underNode(t *testing.T, test string, assets ...string) {
	t.Helper()
	node := servicetest.Program(t, "node")
	dir := t.TempDir()
	put := func(name string, body []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("package.json", []byte(`{"type":"module"}`))
	for _, from := range append([]string{"testdata/" + test}, prefixed("assets/", assets)...) {
		body, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Base(from), body)
	}
	out, err := exec.CommandContext(t.Context(), node, "--test", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func prefixed(prefix string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + name
	}
	return all
}
