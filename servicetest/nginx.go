package servicetest

import (
	"context"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NginxServer is an nginx of a test's own.
type NginxServer struct {
	// Address it listens at.
	Address string
	// Process is its master; the workers are children of it.
	Process *os.Process
}

var (
	nginxListen    = regexp.MustCompile(`(?m)^(\s+listen) 8080\b`)
	nginxInstances = regexp.MustCompile(`(?m)^(\s+server) 127\.0\.0\.1:8081 (.+;)\n\s+server 127\.0\.0\.1:8082 .+;\n`)
	nginxPID       = regexp.MustCompile(`(?m)^pid .+;`)
	nginxLog       = regexp.MustCompile(`(?m)^error_log \S+`)
)

// Nginx starts one with a configuration of ours in front of the instances at these
// addresses. Of the file only its own address, those of the instances, and where it
// writes are changed. It ends with the test.
func Nginx(t testing.TB, file string, instances ...string) *NginxServer {
	t.Helper()
	program := nginxProgram(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &NginxServer{Address: Address(t)}
	var servers strings.Builder
	for _, at := range instances {
		servers.WriteString("${1} " + at + " ${2}\n")
	}
	changed := string(text)
	for _, c := range []struct {
		what *regexp.Regexp
		by   string
	}{
		{nginxListen, "${1} " + n.Address}, {nginxInstances, servers.String()},
		{nginxPID, "pid " + filepath.Join(dir, "nginx.pid") + ";"}, {nginxLog, "error_log stderr"},
	} {
		if len(c.what.FindAllString(changed, -1)) != 1 {
			t.Fatalf("%s has not one %s", file, c.what)
		}
		changed = c.what.ReplaceAllString(changed, c.by)
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := osexec.CommandContext(t.Context(), program, "-t", "-c", conf).CombinedOutput()
	if strings.Contains(string(out), `unknown directive "stream"`) {
		missing(t, "nginx's stream module", err)
	}
	if err != nil {
		t.Fatalf("nginx refuses %s: %v\n%s", file, err, out)
	}
	n.start(t, program, conf)
	return n
}

func (n *NginxServer) start(t testing.TB, program, conf string) {
	t.Helper()
	var log strings.Builder // read once the process has ended
	cmd := osexec.CommandContext(context.WithoutCancel(t.Context()), program, "-c", conf, "-g", "daemon off;")
	cmd.Stderr = &log
	cmd.WaitDelay = patience // a worker that hangs holds the other end of the log
	wait, err := boundBy(cmd, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	n.Process = cmd.Process
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its workers
		_ = wait()
		if t.Failed() {
			t.Logf("nginx's log:\n%s", &log)
		}
	})
	await(t, "nginx listens", func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", n.Address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// nginxProgram is its path: many systems keep it where only root looks.
func nginxProgram(t testing.TB) string {
	t.Helper()
	path, err := osexec.LookPath("nginx")
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if err != nil {
			path, err = osexec.LookPath(filepath.Join(folder, "nginx"))
		}
	}
	if err != nil {
		missing(t, "nginx", err)
	}
	return path
}
