//go:build linux

package load

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

// thisMachine says where everything runs.
func thisMachine(t *testing.T, s *stores) machine {
	t.Helper()
	m := machine{Processor: "unknown processor", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if all, err := fs.CPUInfo(); err == nil && len(all) > 0 && all[0].ModelName != "" {
			m.Processor = all[0].ModelName
		}
		if memory, err := fs.Meminfo(); err == nil && memory.MemTotalBytes != nil {
			m.Memory = *memory.MemTotalBytes
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", Linux " + strings.TrimSpace(string(release))
	}
	db := s.database.Connect()
	defer func() { _ = db.Close() }()
	var database, flush string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION(), @@innodb_flush_log_at_trx_commit").Scan(&database, &flush); err != nil {
		t.Fatal(err)
	}
	m.Versions = []string{
		said(t, filepath.Join(*programs, "sluice"), "version"), runtime.Version(),
		"Redis " + strings.TrimPrefix(said(t, "redis-server", "--version"), "Redis server v="), "database " + database + ", innodb_flush_log_at_trx_commit=" + flush,
	}
	return m
}

// said is the first line of what a program says, as far as a reader wants it.
func said(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := osexec.CommandContext(t.Context(), program, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	first, _, _ = strings.Cut(first, " sha=")
	return first
}
