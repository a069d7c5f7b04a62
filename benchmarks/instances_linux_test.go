package benchmarks

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

// arrangement is how many instances are polled, how, and how often.
type arrangement struct {
	instances int
	nginx     bool
	perSecond float64 // of all together; 0 is as many as are answered
}

func (a arrangement) String() string {
	s := "1 instance"
	if a.instances > 1 {
		s = fmt.Sprintf("%d instances", a.instances)
	}
	if a.nginx {
		s += ", nginx"
	}
	return s
}

// fleetRun are the figures of one arrangement in one round; times are per poll.
type fleetRun struct {
	driven
	sluice, nginx, redis time.Duration
	commands             float64
	redisShare           float64 // of the time that it lasted
}

// fleet is a line on a Redis of its own, and what is polled in it.
type fleet struct {
	redis    *servicetest.RedisServer
	ask      *redis.Client // the judge's
	requests []asked
	over     int // connections
	lasts    time.Duration
	idle     []float64 // of a processor: what an instance takes that nobody polls, time and again
}

func newFleet(t testing.TB, waiting, polled, over int, lasts time.Duration) *fleet {
	t.Helper()
	f := &fleet{redis: servicetest.OwnRedis(t), over: over, lasts: lasts}
	f.ask = f.redis.Client()
	client, err := redisqueue.Dial(f.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	opts := queue.DefaultOptions()
	line, err := redisqueue.New(client, web.DefaultLine, opts)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := queue.NewTickets([][]byte{[]byte(fleetSecret)}, opts.TicketTTL)
	if err != nil {
		t.Fatal(err)
	}
	places := enter(t, line, waiting)
	from := min(5_000, waiting/2) // whoever stands nearer to the head may go meanwhile
	for i := range polled {
		// Neighbours in the list are far from each other in the line.
		at := (i * 7919) % polled
		signed, err := signer.Sign(places[from+at*(waiting-from)/polled], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f.requests = append(f.requests, asked{
			send:   request("GET", "/queue/position", "sluice.example", "X-Queue-Ticket: "+signed),
			status: 200, good: []byte(`"state":"waiting"`),
		})
	}
	return f
}

// round starts so many instances, and measures them without nginx and behind it, at each
// of the rates. It ends them all.
func (f *fleet) round(t *testing.T, instances int, direct, behind []float64, note func(arrangement, fleetRun)) {
	t.Helper()
	t.Run(fmt.Sprintf("%d", instances), func(t *testing.T) {
		var all []*process
		var addresses []string
		for range instances {
			p := startInstance(t, f.redis.URL, runtime.NumCPU()/instances)
			all, addresses = append(all, p), append(addresses, p.public)
		}
		if status := all[0].operator(t, "PATCH", "/admin/api/lines/"+web.DefaultLine, `{"rate_override":1}`); status != 200 {
			t.Fatalf("the rate could not be set: %d", status)
		}
		before, began := cpuOfAll(t, all), time.Now()
		time.Sleep(f.lasts)
		f.idle = append(f.idle, (cpuOfAll(t, all)-before).Seconds()/time.Since(began).Seconds()/float64(instances))
		for _, rate := range direct {
			a := arrangement{instances, false, rate}
			note(a, f.measure(t, a, all, 0, addresses...))
		}
		if len(behind) == 0 {
			return
		}
		front := servicetest.Nginx(t, filepath.Join("..", "configs", "nginx-stream.conf"), addresses...)
		for _, rate := range behind {
			a := arrangement{instances, true, rate}
			note(a, f.measure(t, a, all, front.Process.Pid, front.Address))
		}
	})
}

func (f *fleet) measure(t *testing.T, a arrangement, all []*process, nginx int, addresses ...string) fleetRun {
	t.Helper()
	d := &driver{}
	for _, address := range addresses {
		d.conns = append(d.conns, openDriver(t, address, f.over/len(addresses)).conns...)
	}
	defer func() {
		for _, c := range d.conns {
			_ = c.conn.Close()
		}
	}()
	d.pace(t, f.requests, a.perSecond, f.lasts/4) // what is only slow the first time
	used := func() (sluice, proxy time.Duration) {
		if nginx != 0 {
			proxy = cpuOf(t, nginx)
		}
		return cpuOfAll(t, all), proxy
	}
	sluice, proxy := used()
	redis, commands := f.used(t)
	r, began := fleetRun{}, time.Now()
	r.driven = d.pace(t, f.requests, a.perSecond, f.lasts)
	lasted := time.Since(began)
	sluice2, proxy2 := used()
	redis2, commands2 := f.used(t)
	n := time.Duration(max(1, r.requests))
	r.sluice, r.nginx, r.redis = (sluice2-sluice)/n, (proxy2-proxy)/n, (redis2-redis)/n
	r.commands, r.redisShare = (commands2-commands)/float64(n), (redis2-redis).Seconds()/lasted.Seconds()
	return r
}

func cpuOfAll(t testing.TB, all []*process) (used time.Duration) {
	t.Helper()
	for _, p := range all {
		used += cpuOf(t, p.pid)
	}
	return used
}

// used is what Redis has had of its processor, and the commands it has done.
func (f *fleet) used(t testing.TB) (cpu time.Duration, commands float64) {
	t.Helper()
	seconds := figure(t, f.ask, "cpu", "used_cpu_user") + figure(t, f.ask, "cpu", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), figure(t, f.ask, "stats", "total_commands_processed")
}

// one asks a single instance for what sizes a sale beside the polls.
func (f *fleet) one(t *testing.T) (said string) {
	t.Helper()
	t.Run("one", func(t *testing.T) {
		p := startInstance(t, f.redis.URL, runtime.NumCPU())
		c := openDriver(t, p.public, 1).conns[0]
		if _, err := c.conn.Write(f.requests[0].send); err != nil {
			t.Fatal(err)
		}
		_, answer, _, err := c.receive()
		if err != nil {
			t.Fatal(err)
		}
		d, enter := openDriver(t, p.public, f.over), []asked{{send: request("POST", "/queue/enter", "sluice.example"), status: 201, good: []byte(`"state":"waiting"`)}}
		sluice := cpuOf(t, p.pid)
		redis, _ := f.used(t)
		entered := right(t, d.drive(t, enter, f.lasts))
		redis2, _ := f.used(t)
		n := time.Duration(max(1, entered.requests))
		said = fmt.Sprintf("A poll has %d bytes and its answer %d, headers included. %.0f enters/s of one instance took %.1f µs each of Sluice and %.1f µs of Redis. "+
			"An instance that nobody asks anything takes %.1f %% of a processor.", len(f.requests[0].send), len(answer), entered.perSecond,
			micros((cpuOf(t, p.pid)-sluice)/n), micros((redis2-redis)/n), 100*medianOf(f.idle))
	})
	return said
}

// TestInstances polls one, two and four instances on one Redis, each a process of its
// own, without nginx and behind it: at a rate that all of them can serve, and at as much
// as each of them can.
func TestInstances(t *testing.T) {
	waiting, tickets, over, repeat, lasts, rate := 2_000, 500, 20, 1, 200*time.Millisecond, 400.0
	if *full {
		waiting, tickets, over, repeat, lasts, rate = 100_000, 20_000, 200, *rounds, 3*time.Second, 4_000.0
	}
	f := newFleet(t, waiting, tickets, over, lasts)
	runs := map[arrangement][]fleetRun{}
	var order []arrangement
	for n := range repeat {
		note := func(a arrangement, r fleetRun) {
			if n == 0 {
				order = append(order, a)
			}
			runs[a] = append(runs[a], r)
			t.Logf("round %d, %v at %.0f/s: %.0f/s, p50 %s p99 %s ms; µs a poll: sluice %.1f nginx %.1f Redis %.1f driver %.1f; %.2f commands",
				n+1, a, a.perSecond, r.perSecond, ms(r.took.p50), ms(r.took.p99), micros(r.sluice), micros(r.nginx), micros(r.redis), micros(r.cpu), r.commands)
		}
		f.round(t, 1, []float64{rate / 4, rate / 2, rate, 0}, []float64{rate, 0}, note)
		f.round(t, 2, []float64{rate, 0}, []float64{rate, 0}, note)
		f.round(t, 4, []float64{rate, 0}, []float64{rate, 0}, note)
	}
	if t.Failed() {
		return
	}
	table := fmt.Sprintf("%d processors, %s, %d waiting, %d tickets, %d connections, %d rounds. %s\n\n%s",
		runtime.NumCPU(), runtime.Version(), waiting, tickets, over, repeat, f.one(t), fleetTable(order, runs))
	t.Log("\n" + table)
	intoDocument(t, "bench-instances", table)
}

// fleetTable shows the medians. An arrangement is held against one instance without
// nginx of the same round, at the same polls per second of all together and, below
// saturation, at the same polls per second of each instance.
func fleetTable(order []arrangement, runs map[arrangement][]fleetRun) string {
	var b strings.Builder
	b.WriteString("| polls/s asked for | | polls/s | p50 | p99 | Sluice, a poll | of one at this rate | of one at each one's rate | nginx | Redis | driver | commands | Redis's core |\n" +
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, a := range order {
		of := func(value func(round int, r fleetRun) float64) float64 {
			var values []float64
			for round, r := range runs[a] {
				values = append(values, value(round, r))
			}
			return medianOf(values)
		}
		against := func(rate float64) string {
			one := runs[arrangement{1, false, rate}]
			if len(one) == 0 {
				return "–"
			}
			return fmt.Sprintf("%.0f %%", of(func(round int, r fleetRun) float64 { return 100 * float64(r.sluice) / float64(one[round].sluice) }))
		}
		asked, each := "all that are answered", "–"
		if a.perSecond > 0 {
			asked, each = fmt.Sprintf("%.0f", a.perSecond), against(a.perSecond/float64(a.instances))
		}
		fmt.Fprintf(&b, "| %s | %v | %.0f | %.2f ms | %.2f ms | %.1f µs | %s | %s | %.1f µs | %.1f µs | %.1f µs | %.2f | %.0f %% |\n", asked, a,
			of(func(_ int, r fleetRun) float64 { return r.perSecond }),
			of(func(_ int, r fleetRun) float64 { return 1000 * r.took.p50.Seconds() }),
			of(func(_ int, r fleetRun) float64 { return 1000 * r.took.p99.Seconds() }),
			of(func(_ int, r fleetRun) float64 { return micros(r.sluice) }), against(a.perSecond), each,
			of(func(_ int, r fleetRun) float64 { return micros(r.nginx) }),
			of(func(_ int, r fleetRun) float64 { return micros(r.redis) }),
			of(func(_ int, r fleetRun) float64 { return micros(r.cpu) }),
			of(func(_ int, r fleetRun) float64 { return r.commands }),
			of(func(_ int, r fleetRun) float64 { return 100 * r.redisShare }))
	}
	return b.String()
}
