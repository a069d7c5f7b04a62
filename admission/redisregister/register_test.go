package redisregister

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/admission"
	"sluice/admission/registertest"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

func dial(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisqueue.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// key is of the test's own, and goes with it.
func key(t *testing.T, client redis.UniversalClient) string {
	key := "sluice:test:" + rand.Text()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Del(ctx, key).Err(); err != nil {
			t.Error(err)
		}
	})
	return key
}

func TestRegister(t *testing.T) {
	// What holds on one server holds behind sentinels and on a cluster.
	for name, url := range map[string]func(testing.TB) string{
		"one server": servicetest.Redis,
		"sentinel":   func(t testing.TB) string { return servicetest.OwnSentinel(t).URL },
		"cluster":    func(t testing.TB) string { return servicetest.OwnCluster(t).URL },
	} {
		t.Run(name, func(t *testing.T) { contract(t, url(t)) })
	}
}

func contract(t *testing.T, url string) {
	parallel := func(t *testing.T, test func(*testing.T)) {
		t.Parallel()
		test(t)
	}
	registertest.Run(t, parallel, func(t *testing.T) (a, b admission.Register) {
		client := dial(t, url)
		key := key(t, client)
		return New(client, key), New(dial(t, url), key)
	})
}

// What others left there, in other clocks and versions, is passed over, and does
// not stay for ever.
func TestOldAndForeignEntries(t *testing.T) {
	client := dial(t, servicetest.Redis(t))
	key := key(t, client)
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration, report string) string {
		return fmt.Sprintf("%d %s", now.Add(d).UnixMilli(), report)
	}
	for name, entry := range map[string]string{
		"dead":      at(-10*time.Second, `{"process":"dead"}`),
		"long dead": at(-61*time.Second, `{"process":"long dead"}`),
		"ahead":     at(10*time.Second, `{"process":"ahead"}`),
		"far ahead": at(61*time.Minute, `{"process":"far ahead"}`),
		"alive":     at(-time.Second, `{"process":"alive","later":"field"}`),
		"broken":    at(-time.Second, `{"process":`),
		"foreign":   "what is this",
		"empty":     "",
	} {
		if err := client.HSet(t.Context(), key, name, entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := New(client, key).Publish(t.Context(), admission.Report{Process: "self"})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0].Process != "alive" || seen[1].Process != "self" {
		t.Errorf("live are %+v", seen)
	}
	left, err := client.HKeys(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, name := range left {
		kept[name] = true
	}
	for name, want := range map[string]bool{
		"self": true, "alive": true, "dead": true, "ahead": true, "broken": true,
		"long dead": false, "far ahead": false, "foreign": false, "empty": false,
	} {
		if kept[name] != want {
			t.Errorf("%s: kept %v", name, kept[name])
		}
	}
}

// A Redis that hangs costs no more than the caller allows.
func TestRegisterRespectsDeadlines(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	r := New(dial(t, "redis://"+silent.Addr().String()), Key)
	for name, call := range map[string]func(context.Context) error{
		"publish":  func(ctx context.Context) error { _, err := r.Publish(ctx, admission.Report{}); return err },
		"withdraw": func(ctx context.Context) error { return r.Withdraw(ctx, "a") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := time.Now()
		err := call(ctx)
		cancel()
		if !errors.Is(err, admission.ErrRegister) || time.Since(begun) > 2*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(begun))
		}
	}
}
