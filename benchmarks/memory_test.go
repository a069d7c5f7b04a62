package benchmarks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

// TestMemory fills a line and tells what each who waits costs: in Redis, in this process
// before and with its copy of the places, and the time of Redis for reading all of them.
func TestMemory(t *testing.T) {
	sizes := []int{2_000}
	if *full {
		sizes = []int{10_000, 100_000, 1_000_000}
	}
	server := servicetest.OwnRedis(t)
	client, err := redisqueue.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	line, err := redisqueue.New(client, web.DefaultLine, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	watch := queue.NewWatch(line, time.Second, slog.New(slog.DiscardHandler))
	if err := watch.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := server.Client()
	warm, err := redisqueue.New(client, "warm", queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	enter(t, warm, 1000) // connections have buffers, here and there
	var b strings.Builder
	b.WriteString("| waiting | Redis, B each | this process, B each | … with its copy of the places | Redis's time to enter | … to read all places in chunks of 1,000 | the longest chunk | … to read them into the copy |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	held := heap()
	have := 0
	for _, n := range sizes {
		if err := ask.Do(t.Context(), "CONFIG", "RESETSTAT").Err(); err != nil {
			t.Fatal(err)
		}
		enter(t, line, n-have)
		entered := figure(t, ask, "commandstats", "cmdstat_evalsha") / float64(n-have)
		have = n
		if err := watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if view, _ := watch.View(); view.Waiting != int64(n) {
			t.Fatalf("%d wait, want %d", view.Waiting, n)
		}
		all, longest := readPlaces(t, ask, n)
		each := func(bytes float64) float64 { return max(0, bytes) / float64(n) }
		alone := heap() - held
		copied, read, lasted := follow(t, client, ask, n)
		row := fmt.Sprintf("| %d | %.0f | %.2f | %.2f | %.1f µs | %.1f ms | %.2f ms | %.1f ms, %.1f %% of %.1f s |\n", n,
			each(float64(stored(t, ask))), each(alone), each(copied-held), entered, all/1000, longest/1000, 1000*read.Seconds(), 100*read.Seconds()/lasted.Seconds(), lasted.Seconds())
		t.Log(row)
		b.WriteString(row)
	}
	t.Log("\n" + b.String())
	intoDocument(t, "bench-memory", b.String())
}

// follow is the heap of this process once it has copied the places of all who wait, and
// what that took of Redis, of the time that it lasted.
func follow(t testing.TB, client redis.UniversalClient, ask *redis.Client, n int) (held float64, read, lasted time.Duration) {
	t.Helper()
	line, err := redisqueue.New(client, web.DefaultLine, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := line.Snapshot(t.Context()); err != nil { // it is told there that the line is long
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var following errgroup.Group
	before, began := figure(t, ask, "commandstats", "cmdstat_evalsha"), time.Now()
	following.Go(func() error { return line.Follow(ctx) })
	for deadline := began.Add(patience + time.Duration(n)*time.Millisecond); line.Reads().Places < int64(n) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	lasted = time.Since(began)
	read = time.Duration(figure(t, ask, "commandstats", "cmdstat_evalsha")-before) * time.Microsecond
	end()
	if err := following.Wait(); err != nil {
		t.Fatal(err)
	}
	held = heap()
	if places := line.Reads().Places; places != int64(n) { // the line lives until here
		t.Fatalf("%d of %d places in the copy", places, n)
	}
	return held, read, lasted
}

// readPlaces reads all members with their places; what it took of Redis in all and the
// chunk that took most, in µs.
func readPlaces(t testing.TB, ask *redis.Client, n int) (all, longest float64) {
	t.Helper()
	const chunk = 1_000
	key := "sluice:{" + web.DefaultLine + "}:waiting"
	before := figure(t, ask, "commandstats", "cmdstat_zrange")
	for from, last := 0, before; from < n; from += chunk {
		if err := ask.ZRangeWithScores(t.Context(), key, int64(from), int64(from+chunk-1)).Err(); err != nil {
			t.Fatal(err)
		}
		now := figure(t, ask, "commandstats", "cmdstat_zrange")
		longest, last = max(longest, now-last), now
	}
	return figure(t, ask, "commandstats", "cmdstat_zrange") - before, longest
}

// stored is what all keys of the line take, by Redis's own count of every entry.
func stored(t testing.TB, ask *redis.Client) (bytes int64) {
	t.Helper()
	keys, err := ask.Keys(t.Context(), "sluice:{"+web.DefaultLine+"}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		n, err := ask.MemoryUsage(t.Context(), key, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	return bytes
}

// figure reads one number of INFO; of a command its time in µs.
func figure(t testing.TB, ask *redis.Client, section, name string) float64 {
	t.Helper()
	info, err := ask.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":")
		if !ok {
			continue
		}
		if _, usec, ok := strings.Cut(value, "usec="); ok {
			value, _, _ = strings.Cut(usec, ",")
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 0
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools gave back
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
