package redisjournal

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/journal"
	"sluice/journal/journaltest"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestJournal(t *testing.T) {
	// What holds on one server holds behind sentinels and on a cluster.
	for name, url := range map[string]func(testing.TB) string{
		"one server": servicetest.Redis,
		"sentinel":   func(t testing.TB) string { return servicetest.OwnSentinel(t).URL },
		"cluster":    func(t testing.TB) string { return servicetest.OwnCluster(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			url := url(t)
			journaltest.Run(t, func(t *testing.T) (journal.Journal, func() journal.Journal) {
				client := dial(t, url)
				key := key(t, client)
				return New(client, key), func() journal.Journal { return New(dial(t, url), key) }
			})
		})
	}
}

// What a later version, or somebody else, has put there is passed over.
func TestForeignEntries(t *testing.T) {
	client := dial(t, servicetest.Redis(t))
	key := key(t, client)
	for i, text := range []string{`{"id":"a","at":"2026-01-02T03:04:05Z","who":"x","later":"field"}`, "what is this", "", `{"id":1}`, "[]"} {
		if err := client.ZAdd(t.Context(), key, redis.Z{Score: float64(i), Member: text}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := New(client, key).Latest(t.Context(), 10)
	if err != nil || len(got) != 1 || got[0].ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A Redis that is not there is told by the journal's own error, in the time that the
// caller gives.
func TestNoRedis(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	j := New(dial(t, "redis://"+ln.Addr().String()), Key)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := j.Add(ctx, journaltest.Entry(1)); !errors.Is(err, journal.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := j.Latest(ctx, 1); !errors.Is(err, journal.ErrUnavailable) {
		t.Error(err)
	}
}
