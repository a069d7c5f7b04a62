//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"syscall"
)

// wantedFiles carries 10,000 visitors' connections, the stores', and some air.
const wantedFiles = 12_000

// warnOfFewFiles says so when the limit on open files is too low for a crowd:
// every connection is a file. Go's runtime has raised the soft limit to the hard
// one by now.
func warnOfFewFiles(log *slog.Logger) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("the limit on open files is unknown", "error", err)
		return
	}
	if limit.Cur < wantedFiles {
		log.Warn(fmt.Sprintf("at most %d files may be open, so about as many connections are served at once; "+
			"for 10,000 visitors raise the hard limit to %d (ulimit -Hn, LimitNOFILE= under systemd)", limit.Cur, wantedFiles))
	}
}
