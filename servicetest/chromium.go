package servicetest

import (
	"os"
	osexec "os/exec"
	"testing"
)

// Chromium is the path of a browser that speaks the DevTools protocol: the one that
// SLUICE_TEST_CHROMIUM names, or the first that is installed.
func Chromium(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if given := os.Getenv("SLUICE_TEST_CHROMIUM"); given != "" {
		names = []string{given}
	}
	var first error
	for _, name := range names {
		path, err := osexec.LookPath(name)
		if err == nil {
			return path
		}
		if first == nil {
			first = err
		}
	}
	missing(t, "Chromium", first)
	return ""
}
