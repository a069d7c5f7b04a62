//go:build !linux

package servicetest

import (
	osexec "os/exec"
	"syscall"
)

func bind(*osexec.Cmd, syscall.Signal) {}
