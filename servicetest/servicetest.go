// Package servicetest gives tests the real servers: a Redis and a MySQL or
// MariaDB, each test with a schema of its own.
//
// A server that is not there skips the test, and its name is appended to the
// file that SLUICE_TEST_MISSING names, so that a run can say at its end what it
// did not try. With SLUICE_REQUIRE_SERVICES=1 the test fails instead.
package servicetest

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience bounds every exchange with a server that may not be there.
const patience = 10 * time.Second

// Redis returns the redis:// URL of a running server: SLUICE_TEST_REDIS, or the
// usual port of this machine. The server is shared, so keys need a prefix of
// the test's own.
func Redis(t testing.TB) string {
	t.Helper()
	url := os.Getenv("SLUICE_TEST_REDIS")
	if url == "" {
		url = "redis://127.0.0.1:6379"
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("SLUICE_TEST_REDIS: %v", err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		missing(t, "Redis", err)
	}
	return url
}

// Program is the path of a program that a test needs beside Go.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := osexec.LookPath(name)
	if err != nil {
		missing(t, name, err)
	}
	return path
}

// missing ends the test: the named server is not there.
func missing(t testing.TB, name string, err error) {
	t.Helper()
	if os.Getenv("SLUICE_REQUIRE_SERVICES") == "1" {
		t.Fatalf("%s is required and not there: %v", name, err)
	}
	if path := os.Getenv("SLUICE_TEST_MISSING"); path != "" {
		if err := appendLine(path, name+" is not there: the tests against it were skipped"); err != nil {
			t.Errorf("note the missing server: %v", err)
		}
	}
	t.Skipf("%s is not there: %v", name, err)
}

// appendLine writes in one call, so that lines of parallel test processes do
// not mix.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
