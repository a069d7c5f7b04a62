package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"sluice/configs"
	"sluice/queue"
)

// serveOnly, when set, makes the test binary the command: a process of its own with the
// race detector.
const serveOnly = "SLUICE_TEST_SERVE_ONLY"

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) != "" {
		os.Args = []string{"sluice", "serve"}
		main()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) { remove(); os.Exit(status) }),
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
	code, out, errs := command(t, []string{"SLUICE_ADMIN_TOKEN=hunter2-and-sixteen-bytes"}, "check-config")
	if code != exitOK || errs != "" {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
	if !strings.Contains(out, "tick: 100ms\n") || !strings.Contains(out, "token: '***'\n") {
		t.Errorf("printed:\n%s", out)
	}

	code, out, errs = command(t, []string{"SLUICE_LINE_TICK=5ms", "SLUICE_LINE_TIKC=5ms"}, "check-config", "--role", "queue")
	want := `sluice: warning: SLUICE_LINE_TIKC is not a variable of Sluice; did you mean SLUICE_LINE_TICK?
sluice: 2 mistakes in the configuration:
  line.tick = "5ms" (SLUICE_LINE_TICK): must be between 10ms and 200ms
  redis: must be set when role is queue: the halves meet in it
`
	if code != exitUsage || errs != want {
		t.Errorf("exit %d, stderr:\n%s\nwant:\n%s", code, errs, want)
	}
	if !strings.Contains(out, "role: queue\n") {
		t.Errorf("the configuration is not printed beside its mistakes:\n%s", out)
	}
}

// A URL that its store's client cannot use is a mistake in the configuration,
// told by both commands, beside the others, before anything is opened.
func TestStoreURLMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, url string }{
		{"redis", "redis://h:6379/abc"},
		{"redis", "redis://u:hunter2@h:99999"},
		{"redis", "redis://h:6379/0?colour=red"},
		{"redis", "redis-cluster://u:hunter2@a:7000/3"},
		{"redis", "redis-sentinel://a?notmaster=x"},
		{"redis", "redis-sentinel://a?master=m&db=x"},
		{"database", "mysql://u:hunter2@h:99999/shop"},
		{"database", "mysql://u:hunter2@h/shop?charset=utf8"},
	} {
		environ := []string{
			"SLUICE_" + strings.ToUpper(c.key) + "=" + c.url, "SLUICE_SECRET=" + strings.Repeat("k", 32),
			"SLUICE_LOG_LEVEL=loud", "SLUICE_DATA=/dev/null/none",
		}
		for _, name := range []string{"check-config", "serve"} {
			code, _, errs := command(t, environ, name)
			if code != exitUsage || !strings.Contains(errs, "2 mistakes") || !strings.Contains(errs, "\n  "+c.key+" = \"") ||
				!strings.Contains(errs, "\n  log.level = ") || strings.Contains(errs, "hunter2") {
				t.Errorf("%s with %s: exit %d, stderr:\n%s", name, c.url, code, errs)
			}
		}
	}
}

// What the configuration accepts, the parts that it is for accept as well.
func TestBoundsAgree(t *testing.T) {
	t.Parallel()
	load := func(environ ...string) (configs.Config, error) {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		configs.Flags(flags)
		loaded, err := configs.Load(flags, environ)
		return loaded.Config, err
	}
	for name, environ := range map[string][]string{
		"least": {
			"SLUICE_LINE_TICK=10ms", "SLUICE_LINE_JITTER=0s", "SLUICE_LINE_ADMISSION_TTL=1s", "SLUICE_LINE_TICKET_TTL=5m",
			"SLUICE_LINE_KEEP_PLACE=0s", "SLUICE_LINE_RECOVERY_HOLD=0s", "SLUICE_LINE_MAX_LENGTH=0", "SLUICE_LINE_MAX_ACTIVE=0",
			"SLUICE_ORDERS_WORKERS=1", "SLUICE_ORDERS_BACKLOG=1", "SLUICE_ORDERS_DEADLINE=1ms", "SLUICE_ORDERS_PAY_WITHIN=1s",
			"SLUICE_PAYMENTS_PROVIDER=http://h", "SLUICE_PAYMENTS_TIMEOUT=10ms", "SLUICE_PAYMENTS_AT_ONCE=1",
		},
		"most": {
			"SLUICE_LINE_TICK=" + queue.MaxTick.String(), "SLUICE_LINE_INITIAL_RATE=" + strconv.Itoa(queue.MaxRate),
			"SLUICE_LINE_JITTER=10m", "SLUICE_LINE_ADMISSION_TTL=24h", "SLUICE_LINE_TICKET_TTL=720h",
			"SLUICE_LINE_KEEP_PLACE=720h", "SLUICE_LINE_RECOVERY_HOLD=" + queue.MaxHold.String(), "SLUICE_LINE_MAX_LENGTH=1000000000", "SLUICE_LINE_MAX_ACTIVE=1000000000",
			"SLUICE_ORDERS_WORKERS=10000", "SLUICE_ORDERS_BACKLOG=1000000", "SLUICE_ORDERS_DEADLINE=10m",
			"SLUICE_ORDERS_PAY_WITHIN=720h", "SLUICE_ORDERS_FOLLOWUP_TTL=8760h", "SLUICE_ORDERS_TEST_DELAY=1m",
			"SLUICE_PAYMENTS_PROVIDER=https://u:p@h:1/v2", "SLUICE_PAYMENTS_TIMEOUT=10m", "SLUICE_PAYMENTS_AT_ONCE=100000",
		},
		"unpaid orders kept": {"SLUICE_ORDERS_PAY_WITHIN=0s"},
	} {
		c, err := load(environ...)
		a := &app{cfg: c}
		options := orderOptions(c)
		provider, refused := a.openProvider()
		options.Provider = provider
		if err := errors.Join(err, refused, lineOptions(c, "default").Validate(), options.Validate(), a.close()); err != nil {
			t.Errorf("the %s: %v", name, err)
		}
	}
	for _, beyond := range []string{
		"SLUICE_LINE_TICK=" + (queue.MaxTick + 1).String(),
		"SLUICE_LINE_RECOVERY_HOLD=" + (queue.MaxHold + 1).String(),
		"SLUICE_LINE_INITIAL_RATE=" + strconv.Itoa(queue.MaxRate+1),
	} {
		if _, err := load(beyond); err == nil {
			t.Errorf("%s was accepted", beyond)
		}
	}
}

// Whoever asks for a stop while the process still starts gets a clean one: here
// Redis takes the connection and says nothing.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			stop()
		}
	})
	defer accepting.Wait()
	defer func() { _ = silent.Close() }()

	var out, errs bytes.Buffer
	code := run(ctx, []string{"serve"}, []string{
		"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA=" + t.TempDir(),
		"SLUICE_REDIS=redis://" + silent.Addr().String(), "SLUICE_SECRET=" + strings.Repeat("k", 32),
	}, &out, &errs)
	if code != exitOK || out.Len() > 0 || !strings.Contains(errs.String(), "stopped while starting") {
		t.Errorf("exit %d, stdout %q, stderr:\n%s", code, out.String(), errs.String())
	}
}

func TestServeFailsToStart(t *testing.T) {
	t.Parallel()
	taken := serveEmbedded(t)
	for name, c := range map[string]struct {
		environ []string
		code    int
		says    string
	}{
		"bad configuration": {[]string{"SLUICE_ROLE=both"}, exitUsage, "role"},
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
	binary := shipped(t)
	begin := func(t *testing.T, environ ...string) (*exec.Cmd, *lines) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		cmd.Env = append(append(os.Environ(), "SLUICE_DATA="+t.TempDir()), environ...)
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
	t.Run("an acknowledged change survives kill -9", func(t *testing.T) {
		t.Parallel()
		const line = "/admin/api/lines/default"
		data := "SLUICE_DATA=" + t.TempDir()
		admin := regexp.MustCompile(`(http://.*)/admin\n`)
		cmd, out := begin(t, data)
		at := admin.FindStringSubmatch(out.await(t, "Stop it"))[1]
		for path, change := range map[string]string{line: `{"paused":true}`, line + "/restart": "{}"} {
			method := map[bool]string{true: http.MethodPatch, false: http.MethodPost}[path == line]
			if status, answer := call(t, method, at+path, nil, change); status != http.StatusOK {
				t.Fatalf("%s: %d %v", path, status, answer)
			}
		}
		_, want := call(t, http.MethodGet, at+line, nil, "")
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		_, out = begin(t, data)
		at = admin.FindStringSubmatch(out.await(t, "Stop it"))[1]
		_, got := call(t, http.MethodGet, at+line, nil, "")
		_, told := call(t, http.MethodGet, at+"/admin/api/journal", nil, "")
		if entries, _ := told["entries"].([]any); len(entries) != 2 {
			t.Errorf("the journal after kill -9: %v", told)
		}
		if got["epoch"] != want["epoch"] || got["paused"] != true || got["revision"] != want["revision"] {
			t.Errorf("after kill -9: %v\nbefore: %v", got, want)
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
