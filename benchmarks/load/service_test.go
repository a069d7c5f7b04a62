//go:build linux

package load

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/servicetest"
)

// patience is how long a program may take to start or to stop.
const patience = time.Minute

// stores are those of the run; Redis is one of each step.
type stores struct {
	database *servicetest.MariaDB
}

// service is a running one, with stores in which there is nothing of another step.
type service struct {
	process       *osexec.Cmd
	public, admin string // base URLs
	redis         *redis.Client
	redisPID      int
	databasePID   int
	emptyRedis    float64 // bytes that it holds of nobody
	log           string  // a file
}

// startService starts one, and a payment provider where the step needs one. What is
// still there of it ends with the test.
func startService(t *testing.T, stores *stores, step step) *service {
	t.Helper()
	stores.database.Exec("DROP DATABASE sluice_test_own", "CREATE DATABASE sluice_test_own")
	own := servicetest.OwnRedis(t)
	s := &service{redis: own.Client(), databasePID: stores.database.PID(), log: filepath.Join(*reportTo, step.name+".sluice.log")}
	s.redisPID = int(s.info(t, "server", "process_id"))

	env := slices.Concat(os.Environ(), []string{
		"SLUICE_SECRET=base64:" + secret(t), "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0",
		"SLUICE_DATA=" + t.TempDir(), "SLUICE_REDIS=" + own.URL, "SLUICE_DATABASE=" + stores.database.URL,
		fmt.Sprintf("SLUICE_LINE_INITIAL_RATE=%d", admitted),
	}, step.service)
	if step.provider {
		_, banner := start(t, filepath.Join(*reportTo, step.name+".provider.log"), os.Environ(), "http://", "payment-stub", "--delay", "1s", "--listen", "127.0.0.1:0")
		env = append(env, "SLUICE_PAYMENTS_PROVIDER="+regexp.MustCompile(`http://[0-9.:]+`).FindString(banner))
	}
	var banner string
	s.process, banner = start(t, s.log, env, "Stop it", "serve")
	for _, shown := range regexp.MustCompile(`(?m)^  (Shop|Operator) +(http://[^/]+)/`).FindAllStringSubmatch(banner, -1) {
		if shown[1] == "Shop" {
			s.public = shown[2]
		} else {
			s.admin = shown[2]
		}
	}
	if s.public == "" || s.admin == "" {
		t.Fatalf("no addresses in:\n%s", banner)
	}
	s.emptyRedis = s.info(t, "memory", "used_memory")
	return s
}

func secret(t *testing.T) string {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(key)
}

// start runs sluice and waits until it has said something.
func start(t *testing.T, log string, env []string, until string, args ...string) (*osexec.Cmd, string) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd := osexec.Command(filepath.Join(*programs, "sluice"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed: that is its error
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		said, err := os.ReadFile(log)
		if err == nil && bytes.Contains(said, []byte(until)) {
			return cmd, string(said)
		}
		if time.Now().After(deadline) {
			t.Fatalf("sluice %s did not start:\n%s", strings.Join(args, " "), said)
		}
	}
}

// stop ends the service as an operator does; the error is that it did not end well.
func (s *service) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	kill := time.AfterFunc(patience, func() { _ = s.process.Process.Kill() })
	defer kill.Stop()
	return s.process.Wait()
}

// call asks the operator API, which must say yes.
func (s *service) call(t *testing.T, method, path, body string, into any) {
	t.Helper()
	said := s.ask(t, method, path, body)
	if into == nil {
		return
	}
	if err := json.Unmarshal(said, into); err != nil {
		t.Fatal(err)
	}
}

// ask is an exchange with the admin listener.
func (s *service) ask(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, path, res.Status, said)
	}
	return said
}

// dropped is how many permits of the line stalls have swallowed.
func (s *service) dropped(t *testing.T) float64 {
	t.Helper()
	var l struct {
		Dropped float64 `json:"dropped_permits"`
	}
	s.call(t, http.MethodGet, "/admin/api/lines/default", "", &l)
	return l.Dropped
}

// info is a number of what Redis says about itself; 0 if it does not say it now.
func (s *service) info(t *testing.T, section, field string) (n float64) {
	t.Helper()
	said, err := s.redis.Info(t.Context(), section).Result()
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(said, "\n"+field+":")
	_, _ = fmt.Sscan(after, &n)
	return n
}
