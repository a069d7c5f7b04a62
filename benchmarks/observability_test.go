package benchmarks

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/tracing"
	"sluice/web"
)

// observed is a server that tells more or less of what it does.
type observed struct {
	name    string
	driver  *driver
	polls   []asked
	dropped func() uint64 // spans or lines, so far

	runs []measured
	lost []float64 // per poll of each run
}

// TestObservability asks for positions of servers of one line that differ in what they tell
// of it, in turn.
func TestObservability(t *testing.T) {
	waiting, tickets, over, repeat, lasts := 2_000, 500, 20, 1, 200*time.Millisecond
	if *full {
		waiting, tickets, over, repeat, lasts = 100_000, 20_000, 200, max(7, *rounds), 2*time.Second
	}
	c := gather(t)
	c.fill(t, waiting)
	all := c.observed(t, c.visitors(t, 2*headSize, 0, tickets), over)
	for round := range repeat {
		order := make([]int, len(all))
		for i := range order {
			order[i] = i
			if round%2 == 1 { // so that nobody always comes after the same
				order[i] = len(all) - 1 - i
			}
		}
		for _, i := range order {
			o := all[i]
			before := o.dropped()
			p := c.measure(t, o.driver, o.polls, false, lasts)
			if p.wrong > 0 {
				t.Errorf("%s: %d wrong answers, one of them: %v", o.name, p.wrong, p.example)
			}
			o.runs, o.lost = append(o.runs, p), append(o.lost, float64(o.dropped()-before)/float64(max(1, p.requests)))
			t.Logf("round %d, %s: %.0f/s, p99 %s ms; %.1f + %.1f µs of the processors, %.1f allocations, %.2f dropped",
				round+1, o.name, p.perSecond, ms(p.took.p99), micros(p.cpu), micros(p.redis), p.allocs, o.lost[round])
		}
	}
	table := observedTable(all)
	t.Log("\n" + table)
	intoDocument(t, "bench-observability", fmt.Sprintf("%d processors, %s, %d waiting, %d tickets, %d connections, %d rounds.\n\n%s",
		runtime.NumCPU(), runtime.Version(), waiting, tickets, over, repeat, table))
}

// observed starts the servers: the first tells nothing, all others at least have metrics.
func (c *crowd) observed(t testing.TB, visitors []visitor, over int) []*observed {
	t.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(collector.Close)
	nothing := func() uint64 { return 0 }
	traced := func(share float64) func(*web.Config) func() uint64 {
		return func(cfg *web.Config) func() uint64 {
			tracer, err := tracing.New(tracing.Options{Endpoint: collector.URL, Sample: share})
			if err != nil {
				t.Fatal(err)
			}
			runUntilEnd(t, tracer.Run)
			cfg.Tracing = tracer
			return func() uint64 { return tracer.Counts().Dropped }
		}
	}
	logged := func(every int) func(*web.Config) func() uint64 {
		return func(cfg *web.Config) func() uint64 {
			file, err := os.Create(filepath.Join(t.TempDir(), "access.log"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = file.Close() })
			access := web.NewAccessLog(file, func(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) })
			runUntilEnd(t, access.Run)
			cfg.AccessLogEvery, cfg.AccessLog = every, access
			return access.Dropped
		}
	}
	var all []*observed
	for _, way := range []struct {
		name string
		set  func(*web.Config) (dropped func() uint64)
	}{
		{"nothing", func(cfg *web.Config) func() uint64 { cfg.Uncounted = true; return nothing }},
		{"metrics", func(*web.Config) func() uint64 { return nothing }},
		{"metrics, a log of each 100th request (the default)", logged(100)},
		{"metrics, a log of each request", logged(1)},
		{"metrics, 1 % traced", traced(0.01)},
		{"metrics, 100 % traced", traced(1)},
	} {
		cfg := c.config
		o := &observed{name: way.name, dropped: way.set(&cfg)}
		address := serveAs(t, cfg)
		o.driver = openDriver(t, address, over)
		o.polls = placed(visitors, func(v visitor) []byte { return request("GET", "/queue/position", address, v.ticket()) })
		all = append(all, o)
	}
	return all
}

// observedTable shows the medians; what is compared is compared within each round.
func observedTable(all []*observed) string {
	var b strings.Builder
	b.WriteString("| told | polls/s | of nothing told | p99 | processors, a poll | more than nothing told | allocations | dropped, a poll |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, o := range all {
		of := func(value func(p, nothing measured) float64) float64 {
			values := make([]float64, len(o.runs))
			for round, p := range o.runs {
				values[round] = value(p, all[0].runs[round])
			}
			return medianOf(values)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.1f %% | %s ms | %s µs | %.1f %% | %.1f | %.2f |\n", o.name,
			of(func(p, _ measured) float64 { return p.perSecond }),
			100*of(func(p, n measured) float64 { return p.perSecond / n.perSecond }),
			ms(time.Duration(of(func(p, _ measured) float64 { return float64(p.took.p99) }))),
			fmt.Sprintf("%.1f", of(func(p, _ measured) float64 { return p.total() })/1000),
			100*of(func(p, n measured) float64 { return p.total()/n.total() - 1 }),
			of(func(p, _ measured) float64 { return p.allocs }),
			medianOf(o.lost))
	}
	return b.String()
}
