//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the machine.
func cpuTime() cpu {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return cpu{}
	}
	return cpu{User: time.Duration(used.Utime.Nano()), System: time.Duration(used.Stime.Nano())}
}
