package servicetest

import (
	osexec "os/exec"
	"syscall"
)

func bind(cmd *osexec.Cmd, sent syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: sent}
}
