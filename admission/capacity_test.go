package admission_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/admission/redisregister"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// Whole instances on a real Redis: each has a pool of its own and tells the
// others what it can do. Real time again, by the clock of Redis.

const (
	shopLine     = "SLUICE_TEST_SHOP_LINE"     // set: the test binary is an instance of this line,
	shopCapacity = "SLUICE_TEST_SHOP_CAPACITY" // whose pool can do so many orders a second
)

// shop runs an instance until ctx ends. Its pool is idle, so that its capacity is
// what it is told and no figure of this machine's; and as no backlog ever forms in
// it, none is called for by the wait target.
func shop(ctx context.Context, url, line string, capacity float64) error {
	client, err := redisqueue.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	l, err := redisqueue.New(client, line, queue.DefaultOptions())
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	watch := queue.NewWatch(l, 250*time.Millisecond, log)
	controller := admission.NewController(admission.ControllerConfig{
		Register: redisregister.New(client, registerOf(line)), Process: fmt.Sprint(os.Getpid(), " ", rand.Int64()), Queue: true,
		Pool: &admission.Pool{
			Measure:  func() admission.Measurement { return admission.Measurement{At: time.Now(), Workers: 10} },
			Describe: func(*admission.OrdersReport) {},
			Law:      admission.LawSettings{First: capacity, WaitTarget: time.Millisecond},
		},
		Lines: func() map[string]*queue.Watch { return map[string]*queue.Watch{line: watch} },
		Log:   log,
	})
	ticker := admission.NewTicker(l, controller.Rater(line), queue.DefaultOptions().Tick, log)
	var g errgroup.Group
	for _, run := range []func(context.Context) error{watch.Run, controller.Run, ticker.Run} {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

// registerOf is a register of the line's own: others use the same Redis. It goes
// with the line's keys.
func registerOf(line string) string { return "sluice:{" + line + "}:test-register" }

// shopUntilTold is the whole of such a process: it ends with its standard input.
func shopUntilTold(line, url, capacity string) (exit int) {
	perSecond, err := strconv.ParseFloat(capacity, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := shop(ctx, url, line, perSecond); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startShop starts such a process; kill ends it as nobody would want.
func startShop(t *testing.T, url, line string, capacity float64) (kill func()) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), shopLine+"="+line, childRedis+"="+url, shopCapacity+"="+fmt.Sprint(capacity))
	child.Stderr = os.Stderr
	life, err := child.StdinPipe() // closed when this process ends, however it does
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		if err := child.Process.Kill(); err != nil {
			t.Errorf("the instance ended before it was killed: %v", err)
		}
		_ = child.Wait() // killed
		_ = life.Close()
	}
	t.Cleanup(kill)
	return kill
}

// crowd has whoever was let in come to order half a second later, and keeps how
// many had been let in at each of the store's times.
type crowd struct {
	line    queue.Line
	tickets []queue.Ticket // in place order
	seen    []queue.Snapshot
	came    int
}

// live goes on until the store's time reaches end.
func (c *crowd) live(t *testing.T, end time.Time) {
	t.Helper()
	for now := (time.Time{}); now.Before(end); time.Sleep(100 * time.Millisecond) {
		s, err := c.line.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.seen, now = append(c.seen, s), s.At
		var came []queue.Completion
		for ; int64(c.came) < c.admitted(now.Add(-500*time.Millisecond)); c.came++ {
			ticket := c.tickets[c.came]
			came = append(came, queue.Completion{Subject: ticket.Subject, TicketID: ticket.ID})
		}
		if err := c.line.Arrive(t.Context(), came); err != nil {
			t.Fatal(err)
		}
	}
}

// admitted is how many had been let in at a time of the store's.
func (c *crowd) admitted(at time.Time) int64 {
	i, ok := slices.BinarySearchFunc(c.seen, at, func(s queue.Snapshot, at time.Time) int { return s.At.Compare(at) })
	switch {
	case ok:
		return c.seen[i].Admitted
	case i == 0:
		return 0
	}
	return c.seen[i-1].Admitted
}

// rate fails the test unless the admissions per second between two times are
// within bounds.
func (c *crowd) rate(t *testing.T, what string, from, to time.Time, least, most float64) {
	t.Helper()
	got := float64(c.admitted(to)-c.admitted(from)) / to.Sub(from).Seconds()
	if got < least || got > most {
		t.Errorf("%s: %.0f/s let in, want %.0f to %.0f", what, got, least, most)
	} else {
		t.Logf("%s: %.0f/s let in", what, got)
	}
}

// judge holds what the line has recorded against the order of the places and the
// rule of one batch per tick, when no instance runs any more.
func (c *crowd) judge(t *testing.T) {
	t.Helper()
	records, err := c.line.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(c.tickets) {
		t.Fatalf("%d records of %d tickets", len(records), len(c.tickets))
	}
	slices.SortStableFunc(records, func(a, b queue.Record) int { return cmp.Compare(a.Place, b.Place) })
	var in int64
	var last time.Time
	tick := queue.DefaultOptions().Tick.Milliseconds()
	for i, r := range records {
		if r.TicketID != c.tickets[i].ID || r.Place != c.tickets[i].Place {
			t.Fatalf("number %d is %+v, was %+v", i+1, r, c.tickets[i])
		}
		if r.AdmittedAt.IsZero() {
			continue
		}
		if in++; int64(i) >= in {
			t.Fatalf("number %d was let in, and somebody in front was not", i+1)
		}
		if r.AdmittedAt.Before(last) {
			t.Errorf("number %d was let in before the one in front", i+1)
		} else if r.AdmittedAt.After(last) && r.AdmittedAt.UnixMilli()/tick == last.UnixMilli()/tick {
			t.Errorf("two batches in one tick, at %s and %s", last, r.AdmittedAt)
		}
		last = r.AdmittedAt
	}
	if s := c.seen[len(c.seen)-1]; in < s.Admitted || s.Waiting+s.Admitted != int64(len(c.tickets)) {
		t.Errorf("%d of %d were let in, the line counted %d and %d who wait", in, len(c.tickets), s.Admitted, s.Waiting)
	}
}

func TestInstancesAdmitWhatAllOfThemCanDo(t *testing.T) {
	t.Parallel()
	url := servicetest.Redis(t)
	l := emptyLine(t, url)
	c := &crowd{line: l, tickets: enter(t, l, 4000)}
	start := storeTime(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	for _, capacity := range []float64{120, 60} {
		g.Go(func() error { return shop(ctx, url, l.ID(), capacity) })
	}
	c.live(t, start.Add(14*time.Second))
	c.rate(t, "two instances", start.Add(9*time.Second), start.Add(14*time.Second), 180*0.8, 180*1.15)
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	c.judge(t)
}

func storeTime(t *testing.T, l queue.Line) time.Time {
	t.Helper()
	s, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.At
}

// One of two instances is killed at any moment, perhaps in the middle of a batch:
// the rate follows what is left within five seconds, and rises again with a new
// one.
func TestTheRateFollowsTheInstancesThatAreLeft(t *testing.T) {
	t.Parallel()
	url := servicetest.Redis(t)
	l := emptyLine(t, url)
	c := &crowd{line: l, tickets: enter(t, l, 6000)}
	start := storeTime(t, l)
	killLeft := startShop(t, url, l.ID(), 60)
	kill := startShop(t, url, l.ID(), 120)
	c.live(t, start.Add(12*time.Second))
	c.rate(t, "two instances", start.Add(8*time.Second), start.Add(12*time.Second), 180*0.8, 180*1.15)

	time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
	kill()
	killed := storeTime(t, l)
	c.live(t, killed.Add(11*time.Second))
	c.rate(t, "the smaller one is left", killed.Add(5*time.Second), killed.Add(7*time.Second), 0, 60*1.1)
	c.rate(t, "a little later", killed.Add(7*time.Second), killed.Add(11*time.Second), 60*0.85, 60*1.15)

	killNew := startShop(t, url, l.ID(), 120)
	started := storeTime(t, l)
	c.live(t, started.Add(10*time.Second))
	c.rate(t, "two again", started.Add(5*time.Second), started.Add(10*time.Second), 180*0.8, 180*1.15)
	killLeft()
	killNew()
	c.judge(t)
}
