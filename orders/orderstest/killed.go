package orderstest

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
)

// KillAfter starts a process, kills it as soon as it has printed n lines, and returns
// all that it printed before it died.
func KillAfter(t testing.TB, cmd *exec.Cmd, n int) (lines []string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewReader(out)
	for {
		line, err := printed.ReadString('\n')
		if err != nil {
			break // a part of a line was not printed to its end: not acknowledged
		}
		lines = append(lines, strings.TrimSpace(line))
		if len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("kill: %v", err)
			}
		}
	}
	_ = cmd.Wait() // it was killed: that is its error
	if len(lines) < n {
		t.Fatalf("the process ended by itself after %d lines", len(lines))
	}
	return lines
}
