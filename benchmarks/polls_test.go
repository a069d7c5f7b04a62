package benchmarks

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/journal"
	"sluice/journal/filejournal"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

// crowd is a line on a Redis of its own with so many waiting, served over HTTP as
// `sluice serve --role queue` serves it, with no limits on what a visitor may do.
type crowd struct {
	server  *servicetest.RedisServer
	client  redis.UniversalClient // the service's own
	ask     *redis.Client         // the judge's
	line    *redisqueue.Line
	tickets *queue.Tickets
	address string

	subjects []string // of those polled
	signed   []string
}

// polledFrom is the first position of those polled: whoever stands nearer to the head may
// be let in while it is measured, at letIn visitors a second.
const (
	polledFrom = 5_000
	letIn      = 5
)

// gather puts so many into a line, and signs tickets for some of them, spread over all
// of the line.
func gather(t testing.TB, waiting, polled int) *crowd {
	t.Helper()
	c := &crowd{server: servicetest.OwnRedis(t)}
	var err error
	if c.client, err = redisqueue.Dial(c.server.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	c.ask = c.server.Client()
	log := slog.New(slog.DiscardHandler)
	opts := queue.DefaultOptions()
	opts.Told = &queue.Told{}
	if c.line, err = redisqueue.New(c.client, web.DefaultLine, opts); err != nil {
		t.Fatal(err)
	}
	if c.tickets, err = queue.NewTickets([][]byte{[]byte("a secret for tests, of 32 bytes.")}, opts.TicketTTL); err != nil {
		t.Fatal(err)
	}
	places := fill(t, c.line, waiting)
	from := min(polledFrom, waiting/2)
	for i := range polled {
		at := places[from+i*(waiting-from)/polled]
		signed, err := c.tickets.Sign(at, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.subjects, c.signed = append(c.subjects, at.Subject), append(c.signed, signed)
	}
	rand.Shuffle(polled, func(i, j int) {
		c.subjects[i], c.subjects[j] = c.subjects[j], c.subjects[i]
		c.signed[i], c.signed[j] = c.signed[j], c.signed[i]
	})
	c.serve(t, opts, log)
	return c
}

// fill has so many enter an empty line; their tickets, in the order of arrival.
func fill(t testing.TB, line queue.Line, n int) []queue.Ticket {
	t.Helper()
	tickets := make([]queue.Ticket, n)
	enter(t, line, n, func(s queue.Standing) error {
		if s.Position < 1 || s.Position > int64(n) {
			return fmt.Errorf("position %d of %d", s.Position, n)
		}
		tickets[s.Position-1] = s.Ticket
		return nil
	})
	return tickets
}

// enter has so many enter, many at once.
func enter(t testing.TB, line queue.Line, n int, note func(queue.Standing) error) {
	t.Helper()
	var next atomic.Int64
	var entering errgroup.Group
	for range 200 {
		entering.Go(func() error {
			for next.Add(1) <= int64(n) {
				s, err := line.Enter(t.Context(), queue.NewID(), nil)
				if err == nil {
					err = note(s)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := entering.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (c *crowd) serve(t testing.TB, opts queue.Options, log *slog.Logger) {
	t.Helper()
	watch := queue.NewWatch(c.line, 250*time.Millisecond, log)
	if err := watch.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, watch.Run)
	runUntilEnd(t, c.line.Follow)
	standby := admission.NewStandby(admission.StandbyConfig{
		Line: c.line, Watch: watch, Options: opts, OnFailure: queue.ModeBlock, Log: log,
		Steady: func() admission.Steady { return admission.Steady{} },
	})
	runUntilEnd(t, standby.Run)
	attendance := queue.NewAttendance(standby, opts.Told, log)
	runUntilEnd(t, attendance.Run)
	runUntilEnd(t, admission.NewTicker(standby, admission.Fixed(letIn), opts.Tick, log).Run)
	tokens, err := admission.NewTokens([][]byte{[]byte("a secret for tests, of 32 bytes.")})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := filejournal.Open(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.New(web.Config{
		Journal: journal.NewBook(entries, log),
		Role:    web.RoleQueue, Lines: web.NewLines(web.Line{Line: standby, Watch: watch, Standby: standby, Attendance: attendance}),
		Tickets: c.tickets, Tokens: tokens, PollBudget: func(string) float64 { return 10_000 },
		Overview: func() admission.Overview { return admission.Overview{} }, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	public, admin := listen(t), listen(t)
	c.address = public.Addr().String()
	runUntilEnd(t, func(ctx context.Context) error {
		return server.Serve(ctx, public, admin, web.Drain{Timeout: 10 * time.Second})
	})
}

// serveBare answers a constant, and a rank by one plain command of go-redis, with nothing
// else in the way: what HTTP costs, and what a simple service would do.
func (c *crowd) serveBare(t testing.TB) (address string) {
	t.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	constant := []byte(`{"line":"default","state":"waiting","position":54321,"waiting":99987,"estimated_wait_ms":null,` +
		`"estimated_wait_range_ms":null,"poll_after_ms":11873,"entered_at":"2026-01-02T03:04:05.678Z","server_time":"2026-01-02T03:04:05.678Z"}`)
	app.Get("/constant", func(f *fiber.Ctx) error {
		f.Context().SetContentType(fiber.MIMEApplicationJSON)
		f.Response().SetBodyRaw(constant)
		return nil
	})
	waiting := "sluice:{" + web.DefaultLine + "}:waiting"
	app.Get("/rank", func(f *fiber.Ctx) error {
		rank, err := c.client.ZRank(context.Background(), waiting, f.Get("X-User-Id")).Result()
		if err != nil {
			return err
		}
		return f.JSON(fiber.Map{"state": "waiting", "position": rank + 1})
	})
	ln := listen(t)
	runUntilEnd(t, func(ctx context.Context) error {
		go func() {
			<-ctx.Done()
			_ = app.Shutdown()
		}()
		return app.Listener(ln)
	})
	return ln.Addr().String()
}

// polled is a path's figures of one round.
type polled struct {
	driven
	// Of Redis, per request: its processor time, commands, and how often it was written to.
	redis              time.Duration
	commands, packages float64
}

// total is the processor time of one request, of everybody.
func (p polled) total() float64 { return float64(p.cpu + p.redis) }

// figures reads what Redis has done so far.
func (c *crowd) figures(t testing.TB) (used time.Duration, commands, packages float64) {
	t.Helper()
	info, err := c.ask.Info(t.Context(), "cpu", "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]float64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		read[name], _ = strconv.ParseFloat(value, 64)
	}
	used = time.Duration((read["used_cpu_user"] + read["used_cpu_sys"]) * float64(time.Second))
	return used, read["total_commands_processed"], read["total_reads_processed"]
}

func (c *crowd) measure(t testing.TB, d *driver, requests [][]byte, good string, lasts time.Duration) polled {
	t.Helper()
	d.drive(t, requests, good, lasts/10) // what is only slow the first time
	used, commands, packages := c.figures(t)
	p := polled{driven: d.drive(t, requests, good, lasts)}
	used2, commands2, packages2 := c.figures(t)
	n := float64(max(1, p.requests))
	p.redis = time.Duration(float64(used2-used) / n)
	p.commands, p.packages = (commands2-commands)/n, (packages2-packages)/n
	return p
}

// TestPolls asks a server for positions in a long line over sockets, beside a constant
// answer and a plain ZRANK, in turn.
func TestPolls(t *testing.T) {
	waiting, tickets, over, repeat, lasts := 2_000, 500, 20, 1, 200*time.Millisecond
	if *full {
		waiting, tickets, over, repeat, lasts = 100_000, 20_000, 200, max(5, *rounds), 2*time.Second
	}
	c := gather(t, waiting, tickets)
	bare := c.serveBare(t)
	constants, ranks, positions := make([][]byte, tickets), make([][]byte, tickets), make([][]byte, tickets)
	for i := range tickets {
		ticket, subject := "X-Queue-Ticket: "+c.signed[i], "X-User-Id: "+c.subjects[i]
		constants[i] = request("GET", "/constant", bare, ticket)
		ranks[i] = request("GET", "/rank", bare, ticket, subject)
		positions[i] = request("GET", "/queue/position", c.address, ticket)
	}
	toBare, toSluice := openDriver(t, bare, over), openDriver(t, c.address, over)
	const answer = `"state":"waiting"`
	status := [][]byte{request("GET", "/queue/status", c.address)}
	names := []string{"a constant answer, nothing else", "`ZRANK`, plain go-redis pool", "`GET /queue/status`", "**`GET /queue/position`**"}
	ways := []func() polled{
		func() polled { return c.measure(t, toBare, constants, answer, lasts) },
		func() polled { return c.measure(t, toBare, ranks, answer, lasts) },
		func() polled { return c.measure(t, toSluice, status, `"state":"open"`, lasts) },
		func() polled { return c.measure(t, toSluice, positions, answer, lasts) },
	}
	all := make([][]polled, len(ways))
	for round := range repeat {
		for i, way := range ways {
			p := way()
			all[i] = append(all[i], p)
			t.Logf("round %d, %s: %.0f/s (%.0f %%), p50 %s p99 %s ms; %.1f + %.1f µs of the processors",
				round+1, names[i], p.perSecond, 100*p.perSecond/all[0][round].perSecond, ms(p.took.p50), ms(p.took.p99), micros(p.cpu), micros(p.redis))
		}
	}
	table := pollTable(names, all)
	t.Log("\n" + table)
	intoDocument(t, "bench-polls", fmt.Sprintf("%d processors, %s, %d waiting, %d tickets, %d connections.\n\n%s",
		runtime.NumCPU(), runtime.Version(), waiting, tickets, over, table))
}

// pollTable shows the medians. What is compared is compared within each round: the
// machine is not the same from one to the next.
func pollTable(names []string, all [][]polled) string {
	var b strings.Builder
	b.WriteString("| path | requests/s | of the constant | p50 | p99 | of the constant's | processors | of them Redis | allocations | commands | reads of Redis's sockets |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, runs := range all {
		of := func(value func(p, constant polled) float64) float64 {
			values := make([]float64, len(runs))
			for round, p := range runs {
				values[round] = value(p, all[0][round])
			}
			return medianOf(values)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f %% | %.2f ms | %.2f ms | %.2f× | %.1f µs | %.1f µs | %.1f | %.2f | %.2f |\n", names[i],
			of(func(p, _ polled) float64 { return p.perSecond }),
			of(func(p, c polled) float64 { return 100 * p.perSecond / c.perSecond }),
			of(func(p, _ polled) float64 { return 1000 * p.took.p50.Seconds() }),
			of(func(p, _ polled) float64 { return 1000 * p.took.p99.Seconds() }),
			of(func(p, c polled) float64 { return p.took.p99.Seconds() / c.took.p99.Seconds() }),
			of(func(p, _ polled) float64 { return p.total() / 1000 }),
			of(func(p, _ polled) float64 { return micros(p.redis) }),
			of(func(p, _ polled) float64 { return p.allocs }),
			of(func(p, _ polled) float64 { return p.commands }),
			of(func(p, _ polled) float64 { return p.packages }))
	}
	return b.String()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
