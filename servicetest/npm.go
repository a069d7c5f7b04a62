package servicetest

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"
	"time"
)

// npmPatience bounds the installation of what a lock file names.
const npmPatience = 2 * time.Minute

// NPM installs what the package-lock.json of a folder names, unless it is there, and
// returns the folder of a package.
func NPM(t testing.TB, folder, name string) string {
	t.Helper()
	installed := filepath.Join(folder, "node_modules", name)
	// Written last, and newer than the lock file where it says the same.
	mark, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	lock, lockErr := os.Stat(filepath.Join(folder, "package-lock.json"))
	if lockErr != nil {
		t.Fatal(lockErr)
	}
	if err == nil && !mark.ModTime().Before(lock.ModTime()) {
		return installed
	}
	npm := Program(t, "npm")
	ctx, cancel := context.WithTimeout(t.Context(), npmPatience)
	defer cancel()
	install := osexec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		missing(t, name+" from npm", fmt.Errorf("%w: %s", err, out))
	}
	return installed
}
