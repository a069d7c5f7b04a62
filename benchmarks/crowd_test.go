package benchmarks

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/admission"
	"sluice/journal"
	"sluice/journal/filejournal"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

const (
	// headSize is how many stand in the line at first, and letIn how many are let in in
	// a second: a line that moves, and whose first, but for a few hundred, are there to the end.
	headSize = 1_000
	letIn    = 1
)

// crowd is a line on a Redis of its own, served over HTTP as `sluice serve --role queue`
// serves it, with no limits on what a visitor may do.
type crowd struct {
	server     *servicetest.RedisServer
	client     redis.UniversalClient // the service's own
	ask        *redis.Client         // the judge's
	line       *redisqueue.Line
	tickets    *queue.Tickets
	attendance *queue.Attendance
	config     web.Config // of what serves it
	address    string

	waiting string // key
	length  int    // how many were put in
	mark    string // the subject that stood at headSize
	looks   []look
}

// visitor is somebody in the line.
type visitor struct {
	subject, signed string
	position        int64 // when nobody had been let in yet
}

func (v visitor) ticket() string { return "X-Queue-Ticket: " + v.signed }

// gather opens a line with headSize visitors.
func gather(t testing.TB) *crowd {
	t.Helper()
	c := &crowd{server: servicetest.OwnRedis(t)}
	var err error
	if c.client, err = redisqueue.Dial(c.server.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	c.ask = c.server.Client()
	opts := queue.DefaultOptions()
	opts.Told = &queue.Told{}
	if c.line, err = redisqueue.New(c.client, web.DefaultLine, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := c.line.Snapshot(t.Context()); err != nil { // creates it
		t.Fatal(err)
	}
	if c.tickets, err = queue.NewTickets([][]byte{[]byte("a secret for tests, of 32 bytes.")}, opts.TicketTTL); err != nil {
		t.Fatal(err)
	}
	c.waiting = c.key(t, "waiting")
	c.fill(t, headSize)
	head := c.visitors(t, 1, headSize, headSize)
	c.mark = head[headSize-1].subject
	c.serve(t, opts, slog.New(slog.DiscardHandler))
	runUntilEnd(t, func(ctx context.Context) error { return c.hear(ctx, head) })
	return c
}

// key is what the line calls one of its keys, which may have a number behind it.
func (c *crowd) key(t testing.TB, name string) string {
	t.Helper()
	plain := "sluice:{" + web.DefaultLine + "}:" + name
	numbered, err := c.ask.Keys(t.Context(), plain+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(numbered) == 1 {
		return numbered[0]
	}
	return plain
}

// fill puts visitors at the end of the line until there are so many. They are written as
// the script of an enter would, a thousand at a time: a million in seconds.
func (c *crowd) fill(t testing.TB, length int) {
	t.Helper()
	meta, tickets := c.key(t, "meta"), c.key(t, "tickets")
	floor, err := c.ask.HGet(t.Context(), meta, "floor").Int64()
	if err != nil {
		t.Fatal(err)
	}
	place := max(floor+1, time.Now().UnixMicro()-int64(length))
	for c.length < length {
		n := min(1_000, length-c.length)
		places, ids := make([]redis.Z, n), make([]any, 0, 2*n)
		for i := range n {
			subject := queue.NewID()
			places[i] = redis.Z{Score: float64(place), Member: subject}
			ids = append(ids, subject, queue.NewID())
			place++
		}
		pipe := c.ask.Pipeline()
		pipe.ZAdd(t.Context(), c.waiting, places...)
		pipe.HSet(t.Context(), tickets, ids...)
		pipe.HSet(t.Context(), meta, "floor", place-1, "started", 1)
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.length += n
	}
}

// standing reads in one moment who stands at n of the positions from one to another, evenly
// spread, by what these were at the beginning; to 0 is the end, n 0 all of them.
var standing = redis.NewScript(`
local rank = redis.call('ZRANK', KEYS[1], ARGV[1])
local moved = rank and ARGV[2] - 1 - rank or 0
local from, to, n = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if to == 0 then to = redis.call('ZCARD', KEYS[1]) + moved end
if n == 0 then n = to - from + 1 end
local found = {}
for i = 0, n - 1 do
  local position = from + math.floor(i * (to - from + 1) / n)
  local at = redis.call('ZRANGE', KEYS[1], position - 1 - moved, position - 1 - moved, 'WITHSCORES')
  found[i + 1] = { at[1], redis.call('HGET', KEYS[2], at[1]), at[2], position }
end
return found`)

// visitors are those whom standing finds, with signed tickets.
func (c *crowd) visitors(t testing.TB, from, to, n int) []visitor {
	t.Helper()
	found, err := standing.Run(t.Context(), c.ask, []string{c.waiting, c.key(t, "tickets")}, c.mark, headSize, from, to, n).Slice()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]visitor, len(found))
	for i, one := range found {
		fields := one.([]any)
		place, err := strconv.ParseInt(fields[2].(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticket := queue.Ticket{Line: web.DefaultLine, Subject: fields[0].(string), ID: fields[1].(string), Place: place}
		all[i] = visitor{subject: ticket.Subject, position: fields[3].(int64)}
		if all[i].signed, err = c.tickets.Sign(ticket, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// look is by how much everybody's position was lower than at the beginning, at a moment,
// at the latest: the answer to it may have been long on its way.
type look struct {
	at    time.Time
	moved int64
}

// moved looks now.
func (c *crowd) moved(t testing.TB) int64 {
	t.Helper()
	rank, err := c.ask.ZRank(t.Context(), c.waiting, c.mark).Result()
	if err != nil {
		t.Fatal(err)
	}
	l := look{time.Now(), headSize - 1 - rank}
	c.looks = append(c.looks, l)
	return l.moved
}

// oldest is how old an answer may be.
const oldest = time.Second

// movedBefore is what was seen last when the oldest answer of now was right.
func (c *crowd) movedBefore() int64 {
	for _, l := range slices.Backward(c.looks) {
		if time.Since(l.at) >= oldest {
			return l.moved
		}
	}
	return 0
}

// followed waits until the service has its copy of all places, where it keeps one.
func (c *crowd) followed(t testing.TB) {
	t.Helper()
	// It is read at some 30,000 places a second.
	for end := time.Now().Add(patience + time.Duration(c.length)*100*time.Microsecond); ; {
		n, err := c.ask.ZCard(t.Context(), c.waiting).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n <= headSize || c.line.Reads().Places >= n-letIn {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d places in the copy", c.line.Reads().Places, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// hear lets the line know that those near the head are there, as their polls would:
// nobody is away, whichever path is measured.
func (c *crowd) hear(ctx context.Context, head []visitor) error {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		for _, v := range head {
			c.attendance.Polled(v.subject, 1, time.Second) // wherever they stand by now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
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
	c.attendance = queue.NewAttendance(standby, opts.Told, log)
	runUntilEnd(t, c.attendance.Run)
	ticker := admission.NewTicker(standby, admission.Fixed(letIn), opts.Tick, log).On(watch.Now)
	runUntilEnd(t, ticker.Run)
	tokens, err := admission.NewTokens([][]byte{[]byte("a secret for tests, of 32 bytes.")})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := filejournal.Open(filepath.Join(t.TempDir(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	c.config = web.Config{
		Journal: journal.NewBook(entries, log),
		Role:    web.RoleQueue, Lines: web.NewLines(web.Line{
			Line: standby, Watch: watch, Standby: standby, Attendance: c.attendance, Reads: c.line.Reads, Ticks: ticker.Stats,
		}),
		Tickets: c.tickets, Tokens: tokens, PollBudget: func(string) float64 { return 10_000 },
		Overview: func() admission.Overview { return admission.Overview{} }, Log: log,
	}
	c.address = serveAs(t, c.config)
}

// serveAs serves what a configuration says.
func serveAs(t testing.TB, cfg web.Config) (address string) {
	t.Helper()
	server, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	public, admin := listen(t), listen(t)
	runUntilEnd(t, func(ctx context.Context) error {
		return server.Serve(ctx, public, admin, web.Drain{Timeout: 10 * time.Second})
	})
	return public.Addr().String()
}

// used is what Redis has done so far.
type used struct {
	time                       time.Duration
	commands, scripts, packets float64
}

func (c *crowd) used(t testing.TB) used {
	t.Helper()
	info, err := c.ask.Info(t.Context(), "cpu", "stats", "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]float64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		read[name], _ = strconv.ParseFloat(value, 64)
	}
	seconds := read["used_cpu_user"] + read["used_cpu_sys"]
	return used{
		time:     time.Duration(seconds * float64(time.Second)),
		commands: read["total_commands_processed"], scripts: read["cmdstat_evalsha"], packets: read["total_reads_processed"],
	}
}

// measured is a path's figures of one round.
type measured struct {
	driven
	// Of Redis, per request: its processor time, commands, how many of them were scripts
	// (whose own are counted too), and how often its sockets were read.
	redis                      time.Duration
	commands, scripts, packets float64
	// copied is the share of the answers that were given from the copy of the places.
	copied float64
}

// total is the processor time of one request, of everybody, in ns.
func (m measured) total() float64 { return float64(m.cpu + m.redis) }

// measure drives requests: for a while, after a tenth of that for what is only slow the
// first time; or, with once, each of them.
func (c *crowd) measure(t testing.TB, d *driver, requests []asked, once bool, lasts time.Duration) measured {
	t.Helper()
	c.followed(t)
	first := driven{}
	if once {
		warm := len(requests) / 11
		first, lasts = d.drive(t, requests[:warm], 0), 0
		requests = requests[warm:]
	} else {
		first = d.drive(t, requests, lasts/10)
	}
	before, reads, least := c.used(t), c.line.Reads(), c.movedBefore()
	m := measured{driven: d.drive(t, requests, lasts)}
	after := c.used(t)
	n := float64(max(1, m.requests))
	m.copied = float64(c.line.Reads().Copied-reads.Copied) / n
	m.redis = time.Duration(float64(after.time-before.time) / n)
	m.commands, m.scripts, m.packets = (after.commands-before.commands)/n, (after.scripts-before.scripts)/n, (after.packets-before.packets)/n
	m.wrong += first.wrong
	if m.example == nil {
		m.example = first.example
	}
	if most := c.moved(t); m.moved[0] < least || m.moved[1] > most {
		m.wrong++
		m.example = fmt.Errorf("the line had moved on by %d to %d, and positions by %d to %d", least, most, m.moved[0], m.moved[1])
	}
	return m
}
