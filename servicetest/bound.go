package servicetest

import (
	osexec "os/exec"
	"runtime"
	"syscall"
)

// Bound starts a program that does not outlive this process, where the system has means
// for that: a test that runs into its time limit ends in a panic, and nothing is cleaned
// up. wait, for one caller, is in place of the command's own Wait.
func Bound(cmd *osexec.Cmd) (wait func() error, err error) {
	return boundBy(cmd, syscall.SIGKILL)
}

// boundBy is for a program that must end others when it ends.
func boundBy(cmd *osexec.Cmd, sent syscall.Signal) (wait func() error, err error) {
	bind(cmd, sent)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// What the program is bound to is not the process but the thread that starts it,
		// which must live as long as the program.
		runtime.LockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() error { return <-ended }, nil
}
