package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's: one for the whole process, for good, keeps the text of the
		// Date header; one for each server sleeps up to 10 s before it notices
		// that the server has stopped.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// command runs a command that ends by itself.
func command(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, out, _ := command(t, nil, "version")
	if code != exitOK || !strings.HasPrefix(out, "sluice ") {
		t.Errorf("exit %d, %q", code, out)
	}
}

func TestBadUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"sevre"}, {"serve", "--nonsense"}, {"serve", "extra"}, {"version", "extra"}} {
		code, out, errs := command(t, nil, args...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "sluice: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, []string{"SLUICE_ADMIN_TOKEN=hunter2"}, "check-config")
	if code != exitOK || errs != "" {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
	if !strings.Contains(out, "tick: 100ms\n") || !strings.Contains(out, "token: '***'\n") {
		t.Errorf("printed:\n%s", out)
	}

	code, out, errs = command(t, []string{"SLUICE_LINE_TICK=5ms", "SLUICE_LINE_TIKC=5ms"}, "check-config", "--role", "queue")
	want := `sluice: warning: SLUICE_LINE_TIKC is not a variable of Sluice; did you mean SLUICE_LINE_TICK?
sluice: 2 mistakes in the configuration:
  line.tick = "5ms" (SLUICE_LINE_TICK): must be between 10ms and 10s
  redis: must be set when role is queue: the halves meet in it
`
	if code != exitUsage || errs != want {
		t.Errorf("exit %d, stderr:\n%s\nwant:\n%s", code, errs, want)
	}
	if !strings.Contains(out, "role: queue\n") {
		t.Errorf("the configuration is not printed beside its mistakes:\n%s", out)
	}
}

func TestServeFailsToStart(t *testing.T) {
	t.Parallel()
	secret := "SLUICE_SECRET=" + strings.Repeat("k", 32)
	taken := serveEmbedded(t)
	for name, c := range map[string]struct {
		environ []string
		code    int
		says    string
	}{
		"bad configuration": {[]string{"SLUICE_ROLE=both"}, exitUsage, "role"},
		"no Redis there":    {[]string{secret, "SLUICE_REDIS=redis://:hunter2@127.0.0.1:1"}, exitFailed, "redis://:***@127.0.0.1:1"},
		"no database there": {[]string{"SLUICE_DATABASE=mysql://u:hunter2@127.0.0.1:1/shop"}, exitFailed, "127.0.0.1:1"},
		"address taken":     {[]string{"SLUICE_LISTEN=" + strings.TrimPrefix(taken.public, "http://")}, exitFailed, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			environ := append([]string{"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA=" + t.TempDir()}, c.environ...)
			code, out, errs := command(t, environ, "serve")
			if code != c.code || out != "" || !strings.Contains(errs, c.says) || strings.Contains(errs, "hunter2") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
			}
		})
	}
}

// The built binary, as a process manager sees it.
func TestBinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	begin := func(t *testing.T, environ ...string) (*exec.Cmd, *lines) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", t.TempDir())
		cmd.Env = append(os.Environ(), environ...)
		out := newLines()
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd, out
	}
	signal := func(t *testing.T, cmd *exec.Cmd) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("SIGTERM drains", func(t *testing.T) {
		t.Parallel()
		cmd, out := begin(t)
		out.await(t, "Stop it")
		signal(t, cmd)
		if err := cmd.Wait(); err != nil {
			t.Errorf("exit: %v, want 0", err)
		}
	})
	t.Run("a second signal quits", func(t *testing.T) {
		t.Parallel()
		cmd, out := begin(t, "SLUICE_DRAIN_DELAY=10m")
		admin := regexp.MustCompile(`(http://.*)/admin\n`).FindStringSubmatch(out.await(t, "Stop it"))[1]
		signal(t, cmd)
		// It counts as the second only once the first was taken.
		eventually(t, "the drain begins", func() bool {
			status, _ := call(t, http.MethodGet, admin+"/readyz", nil, "")
			return status == http.StatusServiceUnavailable
		})
		signal(t, cmd)
		exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
		if !ok || exit.ExitCode() != exitFailed {
			t.Errorf("exit: %v, want %d", exit, exitFailed)
		}
	})
	t.Run("bad configuration", func(t *testing.T) {
		t.Parallel()
		cmd, _ := begin(t, "SLUICE_LINE_TICK=soon")
		exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
		if !ok || exit.ExitCode() != exitUsage {
			t.Errorf("exit: %v, want %d", exit, exitUsage)
		}
	})
}
