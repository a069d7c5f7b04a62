package servicetest

import (
	"context"
	"fmt"
	"net"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// OwnRedis starts a Redis of the test's own, for what a shared one must not
// suffer, such as losing everything, and returns its redis:// URL. It keeps nothing
// on disk and ends with the test.
func OwnRedis(t testing.TB) string {
	t.Helper()
	binary, err := osexec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server (a Redis of the test's own)", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	for ctx.Err() == nil { // the port may be taken by another in between
		address := freeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		server := osexec.CommandContext(context.Background(), binary,
			"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", t.TempDir())
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		stop := func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
		if last = answers(ctx, address, server.Process.Pid); last == nil {
			t.Cleanup(stop)
			return "redis://" + address
		}
		stop()
	}
	t.Fatalf("the test's own Redis does not answer: %v", last)
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

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
