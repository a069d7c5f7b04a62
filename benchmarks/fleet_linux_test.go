package benchmarks

import (
	"bytes"
	"context"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/servicetest"
)

// fleetSecret is that of all instances, which tickets are signed with here.
const fleetSecret = "a secret for tests of 32 bytes .."

var buildSluice = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return "", err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	return dir, servicetest.Build(context.Background(), dir+"/", "sluice/cmd/sluice")
})

// process is a program of ours that runs beside this one.
type process struct {
	public, admin string // addresses
	pid           int
	stop          func() // as an operator does; it may be called twice
}

// startInstance starts a queue half on so many processors.
func startInstance(t testing.TB, redisURL string, processors int) *process {
	t.Helper()
	return startSluice(t, "SLUICE_ROLE=queue", "SLUICE_REDIS="+redisURL, "SLUICE_SECRET="+fleetSecret, "SLUICE_LOG_ACCESS_EVERY=0",
		"GOMAXPROCS="+strconv.Itoa(max(1, processors)))
}

// startSluice starts one as it is shipped, but for the bound on how often one ticket may
// poll, and waits until it is ready.
func startSluice(t testing.TB, environ ...string) *process {
	t.Helper()
	return startThrough(t, nil, environ...)
}

// startThrough starts one by a command that becomes it.
func startThrough(t testing.TB, through []string, environ ...string) *process {
	t.Helper()
	dir, err := buildSluice()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{public: servicetest.Address(t), admin: servicetest.Address(t)}
	var log bytes.Buffer // read once the process has ended
	command := append(through[:len(through):len(through)], filepath.Join(dir, "sluice"), "serve")
	cmd := osexec.CommandContext(context.WithoutCancel(t.Context()), command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), "SLUICE_LISTEN="+p.public, "SLUICE_ADMIN_LISTEN="+p.admin, "SLUICE_DATA="+t.TempDir(),
		"SLUICE_LIMITS_POLL_FACTOR=0"), environ...)
	cmd.Stderr = &log
	wait, err := servicetest.Bound(cmd)
	if err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	p.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = wait()
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the log of an instance:\n%s", &log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if p.operator(t, http.MethodGet, "/readyz", "") == http.StatusOK {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal("an instance does not become ready")
		}
	}
}

var unkept = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// operator asks the operator's listener; 0 is no answer.
func (p *process) operator(t testing.TB, method, path, body string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := unkept.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// cpuOf is what a process and its children that live have had of the processors.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	used, err := servicetest.ProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
