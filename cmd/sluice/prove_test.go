//go:build prove

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/servicetest"
)

// The product's promises at full size, on a real Redis and MariaDB, with real
// processes and a real crowd: `make prove`. Minutes each, which is why they are
// not part of `make test`; the same rules are tested there at a smaller size.
//
// Everything shares the machine: the instances, the stores, the crowd. So
// nothing here is compared with a wall-clock time but what the promise itself
// says, and throughputs only with others of the same run.

// stage is what one proof plays on: a Redis and a schema of its own, and
// instances as processes.
type stage struct {
	*testing.T
	redis, database string
	db              *sql.DB
	dir             string
	server          *exec.Cmd // redis-server
	instances       []*process
}

// process is one running instance.
type process struct {
	*instance
	cmd *exec.Cmd
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, dir: dir, database: servicetest.MySQL(t)}
	s.db = openSQL(t, s.database)
	s.startRedis()
	return s
}

// startRedis starts a server of the test's own, which it may empty and kill.
func (s *stage) startRedis() {
	s.Helper()
	_, port, _ := net.SplitHostPort(freeAddress(s))
	s.server = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", s.TempDir())
	if err := s.server.Start(); err != nil {
		s.Fatalf("a Redis of the test's own: %v", err)
	}
	s.Cleanup(func() {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	})
	s.redis = "redis://127.0.0.1:" + port
	client := s.redisClient()
	eventually(s.T, "Redis answers", func() bool { return client.Ping(context.Background()).Err() == nil })
}

func (s *stage) redisClient() *redis.Client {
	s.Helper()
	opts, err := redis.ParseURL(s.redis)
	if err != nil {
		s.Fatal(err)
	}
	client := redis.NewClient(opts)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// start starts one more instance; environ adds to what makes it one of this
// stage.
func (s *stage) start(environ ...string) *process {
	s.Helper()
	cmd := exec.Command(filepath.Join(s.dir, "sluice"), "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(append(os.Environ(),
		"SLUICE_REDIS="+s.redis, "SLUICE_DATABASE="+s.database, "SLUICE_DATA="+s.TempDir(),
		"SLUICE_SECRET=a-secret-for-proofs-of-32-bytes-or-more", "SLUICE_LOG_ACCESS_EVERY=0",
	), environ...)
	out, log := newLines(), newLines()
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	p := &process{instance: &instance{log: log}, cmd: cmd}
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("the log of an instance:\n%s", log)
		}
	})
	for _, found := range shown.FindAllStringSubmatch(out.await(s, "Stop it"), -1) {
		if found[1] == "Operator" {
			p.admin = found[2]
		} else {
			p.public = found[2]
		}
	}
	s.instances = append(s.instances, p)
	return p
}

// patch changes a line at one of the instances.
func (s *stage) patch(line string, change any) {
	s.Helper()
	s.operator(http.MethodPatch, "/admin/api/lines/"+line, change)
}

// operator calls the operator API of the first instance that runs.
func (s *stage) operator(method, path string, body any) map[string]any {
	s.Helper()
	return s.operatorAt(s.instances[0], method, path, body)
}

func (s *stage) operatorAt(p *process, method, path string, body any) map[string]any {
	s.Helper()
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	status, answer := call(s, method, p.admin+path, nil, string(text))
	if status/100 != 2 {
		s.Fatalf("%s %s %s: %d %v", method, path, text, status, answer)
	}
	return answer
}

// product adds one with more stock than can be sold.
func (s *stage) product(line string) int64 {
	s.Helper()
	body := map[string]any{"name": "Proof", "brand": "Sluice", "price": 1000, "stock": 10_000_000, "image_url": "https://example.com/p.svg"}
	if line != "" {
		body["line"] = line
	}
	id, _ := s.operator(http.MethodPost, "/admin/api/products", body)["product_id"].(float64)
	return int64(id)
}

// delay makes every order take so long on every instance.
func (s *stage) delay(d time.Duration) {
	s.Helper()
	for _, p := range s.instances {
		s.operatorAt(p, http.MethodPatch, "/admin/api/orders", map[string]any{"test_delay_ms": d.Milliseconds()})
	}
}

// ordersBetween counts the orders committed in a span of this machine's time,
// which is the database's too.
func (s *stage) ordersBetween(from, to time.Time) int {
	s.Helper()
	return s.count("SELECT COUNT(*) FROM orders WHERE created_at >= ? AND created_at < ?", from.UnixMilli(), to.UnixMilli())
}

func (s *stage) count(query string, args ...any) (n int) {
	s.Helper()
	if err := s.db.QueryRow(query, args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// number reads a figure of a JSON answer; a path goes into objects.
func number(answer map[string]any, path ...string) float64 {
	for _, name := range path[:len(path)-1] {
		answer, _ = answer[name].(map[string]any)
	}
	n, _ := answer[path[len(path)-1]].(float64)
	return n
}

// crowd is a crowd that runs.
type crowd struct {
	stage  *stage
	cmd    *exec.Cmd
	report string
	output *bytes.Buffer
	done   chan error
}

// crowd starts cmd/crowd against all instances.
func (s *stage) crowd(args ...string) *crowd {
	s.Helper()
	targets := make([]string, len(s.instances))
	for i, p := range s.instances {
		targets[i] = p.public
	}
	c := &crowd{stage: s, report: filepath.Join(s.TempDir(), "crowd.json"), output: &bytes.Buffer{}, done: make(chan error, 1)}
	args = append([]string{
		"--targets", strings.Join(targets, ","), "--operator", s.instances[0].admin, "--json", c.report,
		"--seed", fmt.Sprint(rand.Int32()),
	}, args...)
	c.cmd = exec.Command(filepath.Join(s.dir, "crowd"), args...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	s.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// wait waits for its end and returns its report; the judge must be content.
func (c *crowd) wait(limit time.Duration) map[string]any {
	c.stage.Helper()
	select {
	case err := <-c.done:
		c.stage.Logf("crowd %s\n%s", strings.Join(c.cmd.Args[1:], " "), c.output)
		if err != nil {
			c.stage.Errorf("the crowd's judge: %v", err)
		}
	case <-time.After(limit):
		_ = c.cmd.Process.Kill()
		<-c.done
		c.stage.Fatalf("the crowd did not end within %s:\n%s", limit, c.output)
	}
	raw, err := os.ReadFile(c.report)
	if err != nil {
		c.stage.Fatal(err)
	}
	var report map[string]any
	if err := json.Unmarshal(raw, &report); err != nil {
		c.stage.Fatal(err)
	}
	return report
}

func (c *crowd) running() bool {
	select {
	case err := <-c.done:
		c.done <- err
		return false
	default:
		return true
	}
}
