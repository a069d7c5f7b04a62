package benchmarks

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

var (
	isolationWaiting = flag.Int("isolation.waiting", 100_000, "with -full, how many wait")
	isolationPolls   = flag.Int("isolation.polls", 2000, "with -full, polls a second")
	isolationEnters  = flag.Int("isolation.enters", 200, "with -full, enters a second")
	isolationBuyers  = flag.Int("isolation.buyers", 200, "with -full, how many order in a closed loop")
	// Orders for one product go one group after another, which keeps one worker busy.
	isolationProducts = flag.Int("isolation.products", connections, "how many products they buy")
	isolationBurners  = flag.Int("isolation.burners", 0, "how many threads burn what the orders took; 0 is as many as leave the queue the share that orders left it")
)

// whole is a service with both halves, as a process of its own, on a Redis and a MariaDB
// of its own.
type whole struct {
	secret string
	// The halves, which are one process unless they are split.
	queue, shop     *process
	database, redis int // pids
	products        []int64
	requests        []asked
}

// The ways in which the halves run, as docs/operations.md has them.
const (
	together = "One process"
	apart    = "Two processes, the order half with `nice -n 10`"
)

func openWhole(t testing.TB, way string, waiting, polled int) *whole {
	t.Helper()
	db, server := servicetest.OwnMariaDB(t), servicetest.OwnRedis(t)
	t.Log(durability(t, db.Connect()))
	w := &whole{secret: "a secret for tests of 32 bytes or more", database: db.PID(), redis: int(figure(t, server.Client(), "server", "process_id"))}
	serve := func(role string, through ...string) *process {
		return startThrough(t, through, "SLUICE_ROLE="+role, "SLUICE_REDIS="+server.URL, "SLUICE_DATABASE="+db.URL, "SLUICE_SECRET="+w.secret)
	}
	if way == apart {
		w.queue, w.shop = serve("queue"), serve("orders", "nice", "-n", "10")
	} else {
		w.queue = serve("all")
		w.shop = w.queue
	}
	line := "http://" + w.queue.admin + "/admin/api/lines/default"
	ask(t, http.MethodPatch, line, `{"paused":true}`)
	w.gather(t, server.URL, waiting, polled)
	// What the orders show of the capacity would have everybody let in within seconds.
	ask(t, http.MethodPatch, line, fmt.Sprintf(`{"paused":false,"rate_override":%d}`, letIn))
	for range *isolationProducts {
		product := ask(t, http.MethodPost, "http://"+w.shop.admin+"/admin/api/products",
			fmt.Sprintf(`{"name":"Mug","brand":"Sluice","price":1000,"stock":%d,"image_url":"/mug.svg"}`, hotStock))
		w.products = append(w.products, int64(product["product_id"].(float64)))
	}
	return w
}

// gather puts so many into the paused line, and signs tickets for some of them.
func (w *whole) gather(t testing.TB, url string, waiting, polled int) {
	t.Helper()
	client, err := redisqueue.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	opts := queue.DefaultOptions()
	line, err := redisqueue.New(client, web.DefaultLine, opts)
	if err != nil {
		t.Fatal(err)
	}
	tickets, err := queue.NewTickets([][]byte{[]byte(w.secret)}, opts.TicketTTL)
	if err != nil {
		t.Fatal(err)
	}
	places := enter(t, line, waiting)
	from := min(5_000, waiting/2) // who stands nearer to the head may be let in meanwhile
	for i := range polled {
		// In large steps through the line, so that those who follow each other stand far apart.
		signed, err := tickets.Sign(places[from+(i*7919)%(waiting-from)], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		w.requests = append(w.requests, asked{
			send:   request("GET", "/queue/position", w.queue.public, "X-Queue-Ticket: "+signed),
			status: 200, good: []byte(stillWaiting),
		})
	}
}

// beside is how the queue answered while something else went on.
type beside struct {
	position, enter times
	// Of the processors, each 1 is one of them: the service, MariaDB, Redis, an order half of
	// its own; what orders or burns; and what drives the queue, which is this process.
	service, database, redis, orderHalf, other, driver float64
	// Of the queue's process, and of Redis.
	queueTurns, redisTurns turns
	threads                int     // that burnt
	perSecond              float64 // orders
	refused                int64
	pool                   float64 // share of the time of the workers
}

// got is how much of the time in which threads of the queue's process or of Redis were
// ready to run they had a processor.
func (b beside) got() float64 { return b.queueTurns.plus(b.redisTurns).share() }

// taken is what orders take of the processors beyond what the queue takes by itself.
func (b beside) taken(alone beside) float64 {
	return b.other + b.database + b.service + b.redis + b.orderHalf - alone.database - alone.service - alone.redis - alone.orderHalf
}

type isolation struct {
	*whole
	polls, enters       *driver
	pollRate, enterRate int
	settles, lasts      time.Duration
	buyerCount          int
	mostBurners         int // threads, where they are not told
}

// measure drives the queue for a while, beside a part at work, which may be none.
func (i *isolation) measure(t testing.TB, p *playing, lasts time.Duration) beside {
	t.Helper()
	pids := []int{i.queue.pid, i.database, i.redis, 0, 0} // 0 is none
	if i.shop != i.queue {
		pids[3] = i.shop.pid
	}
	if p != nil {
		pids[4] = p.pid
	}
	used := make([]time.Duration, len(pids))
	add := func(sign time.Duration) {
		for k, pid := range pids {
			if pid != 0 {
				used[k] += sign * cpuOf(t, pid)
			}
		}
	}
	add(-1)
	queueTurns, redisTurns := turnsOf(t, i.queue.pid), turnsOf(t, i.redis)
	own, busy, began := processorTime(t), i.busySeconds(t), time.Now()
	var b beside
	b.position, b.enter = i.drive(t, lasts)
	lasted := time.Since(began)
	b.queueTurns, b.redisTurns = between(queueTurns, turnsOf(t, i.queue.pid)), between(redisTurns, turnsOf(t, i.redis))
	add(1)
	share := func(d time.Duration) float64 { return d.Seconds() / lasted.Seconds() }
	b.driver = share(processorTime(t) - own)
	b.pool = (i.busySeconds(t) - busy) / lasted.Seconds() / connections
	b.service, b.database, b.redis, b.orderHalf, b.other = share(used[0]), share(used[1]), share(used[2]), share(used[3]), share(used[4])
	return b
}

// settled measures what the queue has settled beside.
func (i *isolation) settled(t testing.TB, p *playing) beside {
	t.Helper()
	i.drive(t, i.settles)
	return i.measure(t, p, i.lasts)
}

// drive sends polls and enters beside each other.
func (i *isolation) drive(t testing.TB, lasts time.Duration) (position, enter times) {
	t.Helper()
	var polled, entered driven
	var driving errgroup.Group
	driving.Go(func() (err error) {
		polled, err = i.polls.paced(i.requests, float64(i.pollRate), lasts)
		return err
	})
	driving.Go(func() (err error) {
		newcomer := asked{send: request("POST", "/queue/enter", i.queue.public), status: 201, good: []byte(stillWaiting)}
		entered, err = i.enters.paced([]asked{newcomer}, float64(i.enterRate), lasts)
		return err
	})
	if err := driving.Wait(); err != nil {
		t.Fatal(err)
	}
	return right(t, polled).took, right(t, entered).took
}

// busySeconds is how long the workers have been at work, all together.
func (i *isolation) busySeconds(t testing.TB) float64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+i.shop.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "sluice_orders_busy_seconds_total "); found {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return seconds
		}
	}
	t.Fatal("no sluice_orders_busy_seconds_total")
	return 0
}

// ordered measures beside as many orders as the service can make.
func (i *isolation) ordered(t testing.TB) beside {
	t.Helper()
	p := play(t, part{Buyers: &buyers{Address: i.shop.public, Secret: i.secret, Name: queue.NewID(), Products: i.products, Count: i.buyerCount}})
	b := i.settled(t, p)
	var s sales
	p.end(t, &s)
	b.perSecond, b.refused = s.PerSecond, s.Refused
	return b
}

// burnt measures beside a process that takes so much of the processors with so many threads.
func (i *isolation) burnt(t testing.TB, processors float64, threads int, measure func(testing.TB, *playing) beside) beside {
	t.Helper()
	p := play(t, part{Burner: &burner{Threads: threads, Processors: processors}})
	b := measure(t, p)
	var nothing any
	p.end(t, &nothing)
	b.threads = threads
	return b
}

// burners is with how many threads a process that takes so much of the processors leaves
// the queue about the share that it is to get: the more of them are ready, the longer the
// queue's own wait for their turn.
func (i *isolation) burners(t testing.TB, processors, got float64) (closest int) {
	t.Helper()
	settling := func(t testing.TB, p *playing) beside { t.Helper(); return i.measure(t, p, i.settles) }
	least := 1.0
	for n := 2; n <= i.mostBurners; n *= 2 {
		left := i.burnt(t, processors, n, settling).got()
		t.Logf("beside %d threads that burn: share got %.0f %%, of %.0f %% beside orders", n, 100*left, 100*got)
		if off := math.Abs(left - got); off <= least {
			closest, least = n, off
		}
		if left < got {
			break
		}
	}
	return closest
}

// TestIsolation asks a whole service for positions and places at a fixed rate, without
// orders, with as many as it can make, and without orders again while another process
// takes from the processors what the orders took, and leaves the queue the same share:
// orders may take the machine's time, but must not stand in the way otherwise.
func TestIsolation(t *testing.T) {
	waiting, tickets, repeat := 1_000, 200, 1
	size := isolation{pollRate: 200, enterRate: 20, settles: 100 * time.Millisecond, lasts: 500 * time.Millisecond, buyerCount: 20, mostBurners: 4}
	if *full {
		waiting, tickets, repeat = *isolationWaiting, 20_000, *rounds
		size.pollRate, size.enterRate, size.buyerCount = *isolationPolls, *isolationEnters, *isolationBuyers
		size.settles, size.lasts, size.mostBurners = 2*time.Second, 8*time.Second, 128
	}
	tables := fmt.Sprintf("%d processors, %s, %d waiting, %d polls/s and %d enters/s, %d buyers of %d products, %d rounds.",
		runtime.NumCPU(), runtime.Version(), waiting, size.pollRate, size.enterRate, size.buyerCount, *isolationProducts, repeat)
	for _, way := range []string{together, apart} {
		t.Run(way, func(t *testing.T) {
			i := size
			i.whole = openWhole(t, way, waiting, tickets)
			// Over many more connections than are needed at once while all is well.
			i.polls, i.enters = openDriver(t, i.queue.public, 200), openDriver(t, i.queue.public, 50)
			all := make([][]beside, 3)
			for round := range repeat {
				i.round(t, round+1, all)
			}
			table := isolationTable(all)
			t.Log("\n" + table)
			tables += "\n\n" + way + ":\n\n" + table
		})
	}
	if !t.Failed() {
		intoDocument(t, "bench-isolation", tables)
	}
}

// round measures all three.
func (i *isolation) round(t *testing.T, number int, all [][]beside) {
	t.Helper()
	alone := i.settled(t, nil)
	ordered := i.ordered(t)
	taken, threads := ordered.taken(alone), *isolationBurners
	if threads == 0 {
		threads = i.burners(t, taken, ordered.got())
	}
	burnt := i.burnt(t, taken, threads, i.settled)
	for k, b := range []beside{alone, ordered, burnt} {
		all[k] = append(all[k], b)
		t.Logf("round %d, %s: position %s, enter %s ms; share got %.0f %% (the queue's process %.0f %%, Redis %.0f %%), %d threads burn; processors: service %.2f order half of its own %.2f MariaDB %.2f Redis %.2f other %.2f driver %.2f; %.0f orders/s, %d refused, pool %.0f %%",
			number, besideNames[k], three(b.position), three(b.enter), 100*b.got(), 100*b.queueTurns.share(), 100*b.redisTurns.share(), b.threads, b.service, b.orderHalf, b.database, b.redis, b.other, b.driver, b.perSecond, b.refused, 100*b.pool)
	}
}

var besideNames = []string{"no orders", "**orders at their maximum**", "no orders, as much of the processors taken"}

func three(v times) string { return ms(v.p50) + " · " + ms(v.p95) + " · " + ms(v.p99) }

// isolationTable shows medians; what is compared is compared within each round.
func isolationTable(all [][]beside) string {
	of := func(k int, value func(beside) float64) float64 {
		values := make([]float64, len(all[k]))
		for round, b := range all[k] {
			values[round] = value(b)
		}
		return medianOf(values)
	}
	ratio := func(k int, p95 func(beside) time.Duration) float64 {
		values := make([]float64, len(all[k]))
		for round := range all[k] {
			values[round] = float64(p95(all[1][round])) / float64(p95(all[k][round]))
		}
		return medianOf(values)
	}
	took := func(k int, path func(beside) times) string {
		at := func(of1 func(times) time.Duration) time.Duration {
			return time.Duration(of(k, func(b beside) float64 { return float64(of1(path(b))) }))
		}
		return three(times{
			at(func(v times) time.Duration { return v.p50 }), at(func(v times) time.Duration { return v.p95 }), at(func(v times) time.Duration { return v.p99 }),
		})
	}
	var b strings.Builder
	b.WriteString("| beside | position, p50 · p95 · p99 in ms | enter | share got | threads that burn | orders/s | workers' time | processors: service | order half | MariaDB | Redis | buyers or burner | driver |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for k, name := range besideNames {
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f %% | %.0f | %.0f | %.0f %% | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", name,
			took(k, func(b beside) times { return b.position }), took(k, func(b beside) times { return b.enter }),
			of(k, func(b beside) float64 { return 100 * b.got() }), of(k, func(b beside) float64 { return float64(b.threads) }),
			of(k, func(b beside) float64 { return b.perSecond }), of(k, func(b beside) float64 { return 100 * b.pool }),
			of(k, func(b beside) float64 { return b.service }), of(k, func(b beside) float64 { return b.orderHalf }),
			of(k, func(b beside) float64 { return b.database }),
			of(k, func(b beside) float64 { return b.redis }), of(k, func(b beside) float64 { return b.other }),
			of(k, func(b beside) float64 { return b.driver }))
	}
	position, enter := func(b beside) time.Duration { return b.position.p95 }, func(b beside) time.Duration { return b.enter.p95 }
	fmt.Fprintf(&b, "\np95 beside orders, of that with as much of the processors taken: position %.2f×, enter %.2f×. Of that with no orders: %.2f×, %.2f×.\n",
		ratio(2, position), ratio(2, enter), ratio(0, position), ratio(0, enter))
	return b.String()
}
