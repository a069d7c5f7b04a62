package redisqueue_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/queue"
	"sluice/queue/queuetest"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB) redis.UniversalClient {
	t.Helper()
	return dialTo(t, servicetest.Redis(t))
}

func dialTo(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisqueue.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// newLine names a line of the test's own, whose keys go when the test ends.
func newLine(t testing.TB, client redis.UniversalClient) string {
	t.Helper()
	id := "t-" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := client.Del(ctx, redisqueue.Keys(id)...).Err(); err != nil {
			t.Error(err)
		}
	})
	return id
}

func TestContract(t *testing.T) { contract(t, servicetest.Redis(t)) }

// contract runs the suite on a Redis of any form.
func contract(t *testing.T, url string) {
	queuetest.Run(t, queuetest.Implementation{
		Open: func(t testing.TB, opts queue.Options) func() queue.Line {
			id := newLine(t, dialTo(t, url))
			return func() queue.Line {
				line, err := redisqueue.New(dialTo(t, url), id, opts)
				if err != nil {
					t.Fatal(err)
				}
				return line
			}
		},
		In: func(t *testing.T, test func(t *testing.T)) { test(t) },
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := redisqueue.Check(t.Context(), dial(t)); err != nil {
		t.Error(err)
	}
}

// The client repeats a script whose answer was lost: a repeated restart must not
// throw out those who have entered since.
func TestRestartRepeated(t *testing.T) {
	t.Parallel()
	client := dial(t)
	line, err := redisqueue.New(client, newLine(t, client), queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := redisqueue.RestartFrom(t.Context(), line, 0)
	if err != nil || epoch == 0 {
		t.Fatal(epoch, err)
	}
	entered, err := line.Enter(t.Context(), "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := redisqueue.RestartFrom(t.Context(), line, 0); err != nil || again != epoch {
		t.Fatalf("repeated: epoch %d, %v; want %d", again, err, epoch)
	}
	if s, err := line.Standing(t.Context(), entered.Ticket); err != nil || s.State != queue.Waiting {
		t.Fatalf("who entered since: %+v, %v", s, err)
	}
}
