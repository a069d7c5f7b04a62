package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/orders/httpprovider/standin"
)

// How much is fired at each of the two services of [TestFuzzHTTP], and which of all
// that there is. A shot that failed is repeated with its seed and number: -http.seed S
// -http.from N -http.requests 1, on stores that are new, so not always in the same
// state.
var (
	fuzzRequests = flag.Int64("http.requests", 4000, "requests, when no duration is given")
	fuzzDuration = flag.Duration("http.duration", 0, "how long to fire, in place of a number of requests")
	fuzzSeed     = flag.Uint64("http.seed", 0, "seed; 0 is another one each time")
	fuzzFrom     = flag.Uint64("http.from", 1, "number of the first shot")
	fuzzWorkers  = flag.Int("http.workers", 8, "connections at a time")
)

// Whatever is sent, the service answers as docs/openapi.yaml says, stays alive and
// healthy, does not grow, and has kept its promises at the end.
func TestFuzzHTTP(t *testing.T) {
	t.Parallel()
	for name, stores := range map[string]func(*testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"stores":   sharedStores,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newFuzz(t, stores(t)).run()
		})
	}
}

// fuzz is one run against one process.
type fuzz struct {
	*testing.T
	at    *instance
	pid   int
	maker *maker
	// onStores is true if the line is in Redis.
	onStores bool
	stop     func() error // asks the process to stop, and awaits it

	next  atomic.Uint64 // the number of the next shot, less one
	fired atomic.Int64

	mu      sync.Mutex
	seen    map[string]int  // guarded by mu; answers by operation and status, or by code
	faults  map[string]bool // guarded by mu; those told already
	stopped atomic.Bool     // there is no point in going on
}

func newFuzz(t *testing.T, environ []string) *fuzz {
	t.Helper()
	document, err := readContract("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seed := cmp.Or(*fuzzSeed, rand.Uint64())
	provider, err := standin.New(standin.Options{Decline: 0.2, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	payments := httptest.NewServer(provider.Handler())
	t.Cleanup(payments.Close)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) // its log says whether there are races
	at, process := startCommand(t, cmd, append(environ, serveOnly+"=1",
		"SLUICE_LINE_INITIAL_RATE=500", "SLUICE_LINE_JITTER=100ms", "SLUICE_LINE_ADMISSION_TTL=20s", "SLUICE_LINE_TICKET_TTL="+fuzzTicketTTL.String(), "SLUICE_LINE_KEEP_PLACE=30s",
		"SLUICE_LOG_ACCESS_EVERY=0", "SLUICE_PAYMENTS_PROVIDER="+payments.URL)...)
	f := &fuzz{T: t, at: at, onStores: len(environ) > 0, pid: process.Process.Pid, seen: map[string]int{}, faults: map[string]bool{}}
	f.next.Store(*fuzzFrom - 1)
	f.stop = func() error {
		_ = process.Process.Signal(syscall.SIGTERM)
		return process.Wait()
	}
	f.maker = &maker{contract: document, seed: seed, loot: newLoot(), hosts: map[bool]string{
		false: strings.TrimPrefix(at.public, "http://"), true: strings.TrimPrefix(at.admin, "http://"),
	}}
	for _, o := range document.operations {
		for range cmp.Or(often[o.name], 1) {
			f.maker.weights = append(f.maker.weights, o)
		}
	}
	for _, p := range f.products() { // the demo's
		f.maker.loot.stock += p.Stock
		f.maker.loot.things["product"] = append(f.maker.loot.things["product"], strconv.FormatInt(p.ID, 10))
	}
	for range 3 { // something to buy and to claim in any case
		f.maker.loot.things["plenty"] = append(f.maker.loot.things["plenty"], strconv.Itoa(addProduct(t, at, 1_000_000)))
		f.maker.loot.stock += 1_000_000
	}
	_, added := call(t, http.MethodPost, at.admin+"/admin/api/coupons", nil, `{"name":"First","quantity":1000000,"discount":5}`)
	f.maker.loot.things["coupon"] = append(f.maker.loot.things["coupon"], fmt.Sprint(added["coupon_id"]))
	return f
}

func (f *fuzz) run() {
	f.Logf("-http.seed %d", f.maker.seed)
	began := time.Now()
	if *fuzzDuration > 0 {
		f.fire(func() bool { return time.Since(began) < *fuzzDuration })
	} else {
		fifth, judged := *fuzzRequests/5, *fuzzRequests >= 500_000 // before that caches and pools still fill
		f.fire(func() bool { return f.fired.Load() < fifth })
		early := f.liveHeap(judged)
		f.fire(func() bool { return f.fired.Load() < *fuzzRequests })
		late := f.liveHeap(judged)
		growth := float64(late) / float64(early)
		f.Logf("live heap: %d KiB at %d requests, %d KiB at %d: %.3f times", early>>10, fifth, late>>10, *fuzzRequests, growth)
		if growth > 1.1 && judged {
			f.Error("the heap grows")
		}
	}
	f.Logf("%d requests, %.0f a second: %v", f.fired.Load(), float64(f.fired.Load())/time.Since(began).Seconds(), f.seen)
	f.checkHealth()
	f.checkShop()
	if err := f.stop(); err != nil {
		f.Errorf("asked to stop: %v", err)
	}
	for _, word := range []string{"panic", "internal error", "DATA RACE", "fatal error"} {
		if log := f.at.log.String(); strings.Contains(log, word) {
			at := strings.Index(log, word)
			f.Errorf("%q in the log: …%s…", word, log[max(0, at-200):min(len(log), at+4000)])
		}
	}
}

// fire lets the workers fire for as long as more says so.
func (f *fuzz) fire(more func() bool) {
	var workers sync.WaitGroup
	for range *fuzzWorkers {
		workers.Go(func() {
			wires := map[bool]*wire{}
			for admin, addr := range f.maker.hosts {
				wires[admin] = &wire{addr: addr}
				defer wires[admin].close()
			}
			for more() && !f.stopped.Load() {
				n := f.next.Add(1)
				s := f.maker.shot(n)
				answers, err := wires[s.admin].fire(s)
				f.fired.Add(int64(max(s.requests, 1)))
				f.judge(n, s, answers, err)
			}
		})
	}
	workers.Wait()
}

func (f *fuzz) judge(n uint64, s shot, answers []got, err error) {
	if err != nil {
		f.fault(n, s, fmt.Sprintf("no answer: %v", err), got{})
		if syscall.Kill(f.pid, 0) != nil {
			f.stopped.Store(true)
		}
	}
	for _, a := range answers {
		f.count(s, a)
		if wrong := cmp.Or(f.maker.contract.judge(s.op, a), f.maker.loot.learn(s, a)); wrong != "" {
			f.fault(n, s, wrong, a)
		}
	}
}

func (f *fuzz) count(s shot, a got) {
	name := "any"
	if s.op != nil {
		name = s.op.name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.status == http.StatusServiceUnavailable {
		var p problem
		_ = json.Unmarshal(a.body, &p)
		f.seen["503 "+p.Code]++
	}
	f.seen[name+" "+strconv.Itoa(a.status)]++
}

// fault tells what is wrong, once for each kind, with what it takes to send it again.
func (f *fuzz) fault(n uint64, s shot, wrong string, a got) {
	name := "anything"
	if s.op != nil {
		name = s.op.name
	}
	kind := fmt.Sprint(name, a.status, wrong[:min(len(wrong), 30)])
	f.mu.Lock()
	told := f.faults[kind]
	f.faults[kind] = true
	f.mu.Unlock()
	f.Fail()
	if told {
		return
	}
	host, port, _ := strings.Cut(f.maker.hosts[s.admin], ":")
	f.Errorf("shot %d of seed %d, %s: %s\n%.3000q\nxxd -r -p <<<%s | nc -N %s %s\n%d %v\n%.1000s", n, f.maker.seed, name, wrong,
		s.raw, hex.EncodeToString(s.raw[:min(len(s.raw), 4000)]), host, port, a.status, a.header, a.body)
}

func (f *fuzz) checkHealth() {
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, answer := call(f, http.MethodGet, f.at.admin+path, nil, ""); status != http.StatusOK || answer["away"] != nil {
			f.Errorf("%s at the end: %d %v", path, status, answer)
		}
	}
	if len(f.maker.loot.orders) == 0 && *fuzzFrom == 1 {
		f.Error("nobody got as far as an order: the fuzzer is of no use")
	}
}

type stocked struct {
	ID    int64 `json:"product_id"`
	Stock int64
}

func (f *fuzz) products() []stocked {
	f.Helper()
	status, answer := call(f, http.MethodGet, f.at.public+"/products", nil, "")
	var list struct{ Products []stocked }
	if err := json.Unmarshal([]byte(quoteJSON(answer)), &list); err != nil || status != http.StatusOK {
		f.Fatalf("products: %d %v, %v", status, answer, err)
	}
	return list.Products
}

// checkShop holds what is left of the stock against what was sold, and the orders that
// were acknowledged against those that are there.
func (f *fuzz) checkShop() {
	eventually(f.T, "what is left and what was sold are what there was", func() bool { // the list is up to a second old
		left := int64(0)
		for _, p := range f.products() {
			if p.Stock < 0 {
				f.Errorf("product %d has a stock of %d", p.ID, p.Stock)
			}
			left += p.Stock
		}
		_, sum := call(f, http.MethodGet, f.at.admin+"/admin/api/orders/summary", nil, "")
		sold, _ := sum["items_sold"].(float64)
		return left+int64(sold) == f.maker.loot.stock
	})
	_, sum := call(f, http.MethodGet, f.at.admin+"/admin/api/orders/summary", nil, "")
	if acknowledged := len(f.maker.loot.orders) / 2; sum["orders"].(float64) < float64(acknowledged) {
		f.Errorf("%v orders, and %d were acknowledged", sum["orders"], acknowledged)
	}
	_, answer := call(f, http.MethodGet, f.at.public+"/coupons", nil, "")
	for _, c := range answer["coupons"].([]any) {
		if remaining := c.(map[string]any)["remaining"].(float64); remaining < 0 {
			f.Errorf("coupon %v", c)
		}
	}
}

var gcFigures = regexp.MustCompile(`(?m)^(go_gc_heap_live_bytes|go_gc_cycles_total_gc_cycles_total) (\S+)$`)

// fuzzTicketTTL is the least that there is: an embedded line remembers for as long how
// each ticket ended.
const fuzzTicketTTL = 5 * time.Minute

// liveHeap is what the process holds with nobody at it, in bytes, as two further
// garbage collections found it: the first one may have begun before. With rest it is
// of after all tickets have been forgotten: an embedded line's memory is what Redis
// would hold, and how much that is says how fast the shots came.
func (f *fuzz) liveHeap(rest bool) int64 {
	f.Helper()
	if rest && !f.onStores {
		time.Sleep(fuzzTicketTTL + 90*time.Second)
	}
	figures := func() (live, cycles float64) {
		_, answer := call(f, http.MethodGet, f.at.admin+"/metrics", nil, "")
		text, _ := answer["text"].(string)
		for _, found := range gcFigures.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.ParseFloat(found[2], 64)
			if strings.Contains(found[1], "live") {
				live = n
			} else {
				cycles = n
			}
		}
		return live, cycles
	}
	_, first := figures()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if live, cycles := figures(); cycles >= first+2 && live > 0 {
			return int64(live)
		}
	}
	f.Fatal("no garbage was collected, or /metrics does not tell")
	return 0
}
