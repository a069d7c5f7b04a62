//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"syscall"
)

// wantedFiles carries 10,000 visitors' connections, the stores', and some air.
const wantedFiles = 12_000

// raiseFiles raises the soft limit on open files to the hard one, and says so
// when that is too low for a crowd: every connection is a file.
func raiseFiles(log *slog.Logger) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("the limit on open files is unknown", "error", err)
		return
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
			limit = raised
		}
	}
	if limit.Cur < wantedFiles {
		log.Warn(fmt.Sprintf("at most %d files may be open, so about as many connections are served at once; "+
			"for 10,000 visitors raise the hard limit to %d (ulimit -Hn, LimitNOFILE= under systemd)", limit.Cur, wantedFiles))
	}
}
