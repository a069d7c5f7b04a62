package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/servicetest"
)

// secret lets a test sign what the service will believe.
const secret = "a-secret-for-the-browser-tests-only"

// sluice is a running process of the service.
type sluice struct {
	public, admin string // base URLs
	token         string // of the operator; empty is none
	redis         *servicetest.RedisServer

	t       testing.TB
	environ []string
	log     *output
	process *exec.Cmd
}

// output is what a process says, read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// setup begins a process with this in its environment beside what the set-up is.
type setup func(t testing.TB, environ ...string) *sluice

// embedded needs nothing else.
func embedded(t testing.TB, environ ...string) *sluice {
	t.Helper()
	return serve(t, append([]string{"SLUICE_DATA=" + t.TempDir()}, environ...)...)
}

// onServers is on a Redis of its own and a schema of MariaDB.
func onServers(t testing.TB, environ ...string) *sluice {
	t.Helper()
	redis := servicetest.OwnRedis(t)
	s := serve(t, append([]string{
		"SLUICE_DATA=" + t.TempDir(),
		"SLUICE_REDIS=" + redis.URL,
		"SLUICE_DATABASE=" + servicetest.MySQL(t),
	}, environ...)...)
	s.redis = redis
	s.stock()
	return s
}

// serve starts the built binary as its users do.
func serve(t testing.TB, environ ...string) *sluice {
	t.Helper()
	s := &sluice{t: t, environ: append([]string{
		"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0",
		"SLUICE_SECRET=" + secret, "SLUICE_LINE_JITTER=0s", "SLUICE_LINE_TICK=50ms",
	}, environ...)}
	for _, set := range environ {
		if named, ok := strings.CutPrefix(set, "SLUICE_ADMIN_TOKEN="); ok {
			_, s.token, _ = strings.Cut(named, "=")
		}
	}
	t.Cleanup(s.kill)
	s.start()
	return s
}

var shown = regexp.MustCompile(`(?m)^  (Shop|Operator) +(http://[^/]+)/`)

func (s *sluice) start() {
	s.t.Helper()
	binary := program(s.t, "sluice")
	out := &output{}
	s.log = &output{}
	s.process = exec.CommandContext(context.Background(), binary, "serve")
	s.process.Env = append(os.Environ(), s.environ...)
	s.process.Stdout, s.process.Stderr = out, s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the service opens", func() bool {
		for _, found := range shown.FindAllStringSubmatch(out.String(), -1) {
			// Started again it has the same ones, which visitors are reading.
			switch {
			case found[1] == "Shop" && s.public == "":
				s.public = found[2]
			case found[1] == "Operator" && s.admin == "":
				s.admin = found[2]
			}
		}
		if s.process.ProcessState != nil {
			s.t.Fatalf("sluice ended: %s", s.log)
		}
		return strings.Contains(out.String(), "Stop it")
	})
}

// stop ends it as a process manager does; it must end cleanly.
func (s *sluice) stop() {
	s.t.Helper()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Wait(); err != nil {
		s.t.Errorf("sluice ended with %v:\n%s", err, s.log)
	}
	s.process = nil
}

// restart begins it again at the same addresses, on the same data.
func (s *sluice) restart() {
	s.t.Helper()
	s.environ = append(s.environ, "SLUICE_LISTEN="+strings.TrimPrefix(s.public, "http://"),
		"SLUICE_ADMIN_LISTEN="+strings.TrimPrefix(s.admin, "http://"))
	s.start()
}

func (s *sluice) kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // it was killed: that is its error
	if s.t.Failed() {
		text := s.log.String()
		s.t.Logf("sluice said:\n%s", text[max(0, len(text)-4000):])
	}
}

// stock puts what the embedded demo has into a shop that is empty.
func (s *sluice) stock() {
	s.t.Helper()
	s.operator(http.MethodPost, "/admin/api/products", map[string]any{
		"name": "Runner One, first edition", "brand": "Northpace", "price": 17900, "stock": 500,
		"image_url": "/assets/products/sneaker.svg",
	})
	s.operator(http.MethodPost, "/admin/api/products", map[string]any{
		"name": "Enamel mug", "brand": "Campfire", "price": 1900, "stock": 5000, "image_url": "/assets/products/mug.svg",
	})
	s.operator(http.MethodPost, "/admin/api/coupons", map[string]any{"name": "First hundred", "quantity": 100, "discount": 500})
}

// operator asks the operator API, which must do it.
func (s *sluice) operator(method, path string, body any) map[string]any {
	s.t.Helper()
	status, answer := s.call(method, s.admin+path, body, map[string]string{"Authorization": "Bearer " + s.token})
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

// call asks for JSON. The status is 0 where nobody answers.
func (s *sluice) call(method, address string, body any, header map[string]string) (status int, answer map[string]any) {
	s.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		if value != "Bearer " {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	_ = json.NewDecoder(res.Body).Decode(&answer) // there may be none
	return res.StatusCode, answer
}

// settings are those of a line that the operator can change.
type settings map[string]any

// still has nobody let in as long as a test lasts, and says no reason.
var still = settings{"rate_override": 0.0001}

var lineNames struct {
	mu   sync.Mutex
	next int
}

// line makes one of the test's own.
func (s *sluice) line(born settings) (id string) {
	s.t.Helper()
	lineNames.mu.Lock()
	lineNames.next++
	id = fmt.Sprintf("t%d", lineNames.next)
	lineNames.mu.Unlock()
	s.operator(http.MethodPut, "/admin/api/lines/"+id, born)
	return id
}

func (s *sluice) patch(line string, change settings) {
	s.t.Helper()
	s.operator(http.MethodPatch, "/admin/api/lines/"+line, change)
}

func (s *sluice) figures(line string) map[string]any {
	s.t.Helper()
	return s.operator(http.MethodGet, "/admin/api/lines/"+line, nil)
}

// visitor is somebody in line who has no browser.
type visitor struct {
	s      *sluice
	line   string
	ticket string
	gone   atomic.Bool
}

// enter puts n visitors into a line, one after the other. They keep asking, as their
// browsers would, until they leave or the test ends.
func (s *sluice) enter(line string, n int) (visitors []*visitor) {
	s.t.Helper()
	for range n {
		status, answer := s.call(http.MethodPost, s.public+"/queue/enter?line="+line, nil, nil)
		if status != http.StatusCreated {
			s.t.Fatalf("enter: %d %v", status, answer)
		}
		visitors = append(visitors, &visitor{s: s, line: line, ticket: answer["ticket"].(string)})
	}
	ctx, end := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			for _, v := range visitors {
				if !v.gone.Load() {
					v.ask(http.MethodGet, "/queue/position")
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(700 * time.Millisecond):
			}
		}
	})
	s.t.Cleanup(func() { end(); asking.Wait() })
	return visitors
}

func (v *visitor) leave() {
	v.s.t.Helper()
	v.gone.Store(true)
	if status := v.ask(http.MethodPost, "/queue/leave"); status != http.StatusNoContent {
		v.s.t.Fatalf("leave: %d", status)
	}
}

func (v *visitor) ask(method, path string) (status int) {
	status, _ = v.s.call(method, v.s.public+path+"?line="+v.line, nil, map[string]string{"X-Queue-Ticket": v.ticket})
	return status
}

// background starts a program that ends with the test, and returns what it says.
func background(t testing.TB, name string, arguments ...string) (*exec.Cmd, *output) {
	t.Helper()
	out := &output{}
	cmd := exec.CommandContext(context.Background(), name, arguments...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = filepath.Dir(name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, out
}

// eventually waits for what must come.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come: %s", what)
		}
	}
}
