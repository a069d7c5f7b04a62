package servicetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const startsBound = "SLUICE_TEST_STARTS_BOUND"

// TestStartsBound is the process of TestBound: it starts a program, and waits for its end.
func TestStartsBound(t *testing.T) {
	if os.Getenv(startsBound) == "" {
		t.Skip("only as TestBound starts it")
	}
	cmd := osexec.CommandContext(t.Context(), "sleep", "600")
	wait, err := Bound(cmd)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Println(cmd.Process.Pid)
	_ = wait()
}

// A program ends with the process that has started it, which has no chance to say so.
func TestBound(t *testing.T) {
	t.Parallel()
	starter := osexec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestStartsBound$")
	starter.Env = append(os.Environ(), startsBound+"=1")
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadString('\n')
	_ = starter.Process.Kill()
	_ = starter.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(said))
	if err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	await(t, "without the program of one that was killed", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}
