package servicetest

import (
	"context"
	"fmt"
	"net"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a server of a test's own, which may be killed, frozen, emptied and started
// again. It keeps nothing on disk: after a Stop it is empty.
type RedisServer struct {
	// URL of it: redis://…
	URL string

	t       testing.TB
	address string
	dir     string
	config  string // a file; empty is none
	args    []string
	process *osexec.Cmd
	wait    func() error
}

// OwnRedis starts one, for what a shared one must not suffer. more are further
// arguments of redis-server. It ends with the test.
func OwnRedis(t testing.TB, more ...string) *RedisServer {
	t.Helper()
	return begin(t, func(*RedisServer) []string { return more })
}

// begin starts a server at an address of its own; arguments are what it is given
// further, once it has its folder.
func begin(t testing.TB, arguments func(*RedisServer) []string) *RedisServer {
	t.Helper()
	if _, err := osexec.LookPath("redis-server"); err != nil {
		missing(t, "redis-server (a Redis of the test's own)", err)
	}
	r := &RedisServer{t: t, dir: t.TempDir()}
	t.Cleanup(r.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	for ctx.Err() == nil { // the port may be taken by another in between
		r.address = freeAddress(t)
		r.args = arguments(r)
		if last = r.start(ctx); last == nil {
			r.URL = "redis://" + r.address
			return r
		}
		r.Stop()
	}
	t.Fatalf("the test's own Redis does not answer: %v", last)
	return nil
}

func (r *RedisServer) start(ctx context.Context) error {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.address)
	var args []string
	if r.config != "" {
		args = append(args, r.config)
	}
	args = append(append(args, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--dir", r.dir), r.args...)
	r.process = osexec.CommandContext(context.WithoutCancel(ctx), "redis-server", args...)
	var err error
	if r.wait, err = Bound(r.process); err != nil {
		r.t.Fatal(err)
	}
	return answers(ctx, r.address, r.process.Process.Pid)
}

// Start starts it again, empty, at the same address.
func (r *RedisServer) Start() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.start(ctx); err != nil {
		r.t.Fatalf("the test's own Redis does not answer: %v", err)
	}
}

// Stop kills it, as a power cut does, unless it has stopped.
func (r *RedisServer) Stop() {
	if r.process == nil || r.process.Process == nil {
		return
	}
	_ = r.process.Process.Kill()
	_ = r.wait() // it was killed: that is its error
	r.process = nil
}

// Freeze stops it without anybody noticing but by its silence: connections stay open,
// and are taken, and nothing is answered.
func (r *RedisServer) Freeze() { r.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (r *RedisServer) Thaw() { r.signal(syscall.SIGCONT) }

func (r *RedisServer) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.process.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// Client is a new connection of the test's own to it, closed with the test.
func (r *RedisServer) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: r.address})
	r.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Ask is one command to it, which has a second; the error is that it did not answer, or
// what it said.
func (r *RedisServer) Ask(args ...any) (any, error) { return r.ask(time.Second, args...) }

func (r *RedisServer) ask(within time.Duration, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), within)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: r.address, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: patience})
	defer func() { _ = client.Close() }()
	return client.Do(ctx, args...).Result()
}

// order is a command that must work.
func (r *RedisServer) order(args ...any) {
	r.t.Helper()
	if _, err := r.ask(patience, args...); err != nil {
		r.t.Fatalf("%v to the test's own Redis at %s: %v", args, r.address, err)
	}
}

// await waits for what servers come to by themselves.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(6 * patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the test's own servers: still not %s", what)
		}
	}
}

func freeAddress(t testing.TB) string { return Address(t) }

// answers waits for a server that was just started. Another that has taken its
// address in between must not lose what it holds for it.
func answers(ctx context.Context, address string, pid int) (err error) {
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	for range 100 {
		var info string
		if info, err = client.Info(ctx, "server").Result(); ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			if !strings.Contains(info, fmt.Sprintf("\nprocess_id:%d\r\n", pid)) {
				return fmt.Errorf("at %s is another Redis", address)
			}
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
