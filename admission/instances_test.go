package admission_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// What must hold when several instances admit from one line on a real Redis.
// These tests live in real time: the batches are cut by the clock of Redis.

const (
	childLine  = "SLUICE_TEST_TICKER_LINE"  // set: the test binary is a ticker of this line,
	childRedis = "SLUICE_TEST_TICKER_REDIS" // on this Redis
)

// instance is the line as one more process would open it, with its own
// connections.
func instance(t testing.TB, url, id string) queue.Line {
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
	l, err := redisqueue.New(client, id, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// emptyLine opens a line of the test's own; its keys go when the test ends.
func emptyLine(t testing.TB, url string) queue.Line {
	t.Helper()
	id := "t-" + strings.ToLower(rand.Text())
	t.Cleanup(func() { wipe(t, url, id) })
	return instance(t, url, id)
}

// newLine is an empty one that admits at the rate.
func newLine(t testing.TB, url string, rate float64) queue.Line {
	t.Helper()
	l := emptyLine(t, url)
	override := &rate
	if _, err := l.Configure(t.Context(), queue.Patch{RateOverride: &override}); err != nil {
		t.Fatal(err)
	}
	return l
}

func wipe(t testing.TB, url, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := redisqueue.Dial(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = client.Close() }()
	keys := client.Scan(ctx, 0, "sluice:{"+id+"}:*", 10_000).Iterator()
	for keys.Next(ctx) {
		if err := client.Del(ctx, keys.Val()).Err(); err != nil {
			t.Error(err)
		}
	}
	if err := keys.Err(); err != nil {
		t.Error(err)
	}
}

// enter puts n visitors in line, many at once, and returns their tickets in
// place order.
func enter(t testing.TB, l queue.Line, n int) []queue.Ticket {
	t.Helper()
	tickets := make([]queue.Ticket, n)
	var g errgroup.Group
	g.SetLimit(20)
	for i := range n {
		g.Go(func() error {
			s, err := l.Enter(t.Context(), fmt.Sprint("visitor", i), nil)
			if err == nil && s.State != queue.Waiting {
				err = fmt.Errorf("visitor %d entered and is %s", i, s.State)
			}
			tickets[i] = s.Ticket
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(tickets, func(a, b queue.Ticket) int { return cmp.Compare(a.Place, b.Place) })
	return tickets
}

// recorded keeps the batches that a line gave to one instance.
type recorded struct {
	queue.Line
	batches []queue.Batch
}

func (r *recorded) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	b, err := r.Line.Admit(ctx, rate, why)
	if err == nil && !b.Skipped {
		r.batches = append(r.batches, b)
	}
	return b, err
}

func TestInstancesShareTheRate(t *testing.T) {
	url := servicetest.Redis(t)
	for _, instances := range []int{2, 5} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			t.Parallel()
			const rate, run = 175.0, 30 * time.Second
			l := newLine(t, url, rate)
			tickets := enter(t, l, 6000)

			ctx, cancel := context.WithTimeout(t.Context(), run)
			defer cancel()
			lines := make([]recorded, instances)
			tickers := make([]*admission.Ticker, instances)
			var g errgroup.Group
			for i := range lines {
				lines[i].Line = instance(t, url, l.ID())
				tickers[i] = admission.NewTicker(&lines[i], admission.Fixed(1), queue.DefaultOptions().Tick, slog.New(slog.DiscardHandler))
				g.Go(func() error {
					time.Sleep(time.Duration(mrand.Int64N(int64(100 * time.Millisecond)))) // its own phase
					return tickers[i].Run(ctx)
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			var batches []queue.Batch
			for i := range lines {
				batches = append(batches, lines[i].batches...)
				if s := tickers[i].Stats(); s.Errors > 1 { // one may be cut off by the stop
					t.Errorf("instance %d: %+v", i, s)
				}
			}
			slices.SortFunc(batches, func(a, b queue.Batch) int { return a.At.Compare(b.At) })
			judge(t, batches, tickets, rate)
			if got := total(t, l); got < admitted(batches) {
				t.Errorf("the line counts %d, the batches hold %d", got, admitted(batches))
			}
		})
	}
}

// judge checks the batches of all instances together against the rate and the
// order of the places.
func judge(t *testing.T, batches []queue.Batch, tickets []queue.Ticket, rate float64) {
	t.Helper()
	if len(batches) < 10 {
		t.Fatalf("only %d batches", len(batches))
	}
	const tick = 100 * time.Millisecond
	twoTicks := rate * (2 * tick).Seconds()
	var dropped float64
	next := 0
	ticks := map[int64]bool{}
	for _, b := range batches {
		if n := float64(len(b.Admitted)); n > twoTicks {
			t.Errorf("a batch of %g, two ticks are worth %g", n, twoTicks)
		}
		if k := b.At.UnixMicro() / tick.Microseconds(); ticks[k] {
			t.Errorf("a second batch in one tick, at %s", b.At)
		} else {
			ticks[k] = true
		}
		for _, a := range b.Admitted {
			if want := tickets[next]; a.Place != want.Place || a.Subject != want.Subject || a.TicketID != want.ID {
				t.Fatalf("admission %d is of %s at place %d, next in line was %s at %d", next, a.Subject, a.Place, want.Subject, want.Place)
			}
			next++
		}
		dropped += b.Dropped
	}
	// The first batch has no batch before it to count from. What the others owe
	// is exact but for the fraction of a permit that is carried; what is dropped
	// must be what gaps between batches beyond two ticks swallowed, no more.
	span := batches[len(batches)-1].At.Sub(batches[0].At)
	var stalled time.Duration
	for i := 1; i < len(batches); i++ {
		stalled += max(0, batches[i].At.Sub(batches[i-1].At)-2*tick)
	}
	if swallowed := rate * stalled.Seconds(); math.Abs(dropped-swallowed) > 0.01 {
		t.Errorf("%.2f permits dropped, stalls of %s in all are worth %.2f", dropped, stalled, swallowed)
	}
	want := rate * (span - stalled).Seconds()
	if got := float64(next - len(batches[0].Admitted)); math.Abs(got-want) > 1.01 {
		t.Errorf("%.0f admitted after the first batch, in %s of which %s stalled, want %.1f ± 1", got, span, stalled, want)
	}
	t.Logf("%d batches in %s, %s of it stalled: %d admitted at %g/s", len(batches), span, stalled, next, rate)
}

func admitted(batches []queue.Batch) (n int64) {
	for _, b := range batches {
		n += int64(len(b.Admitted))
	}
	return n
}

// total is how many admissions the line itself has counted.
func total(t *testing.T, l queue.Line) int64 {
	t.Helper()
	s, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Admitted
}

// Instances are killed at any moment, in the middle of a batch too: nobody is
// lost, nobody admitted twice, and the order stays that of the places.
func TestKilledInstancesLoseNobody(t *testing.T) {
	t.Parallel()
	url := servicetest.Redis(t)
	const visitors, rate, churn = 1500, 400.0, 3 * time.Second
	l := newLine(t, url, rate)
	tickets := enter(t, l, visitors)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	finished := make(chan struct{})
	rooms := make([]map[string]queue.Admission, 6) // what the visitors of each poller hold
	for i := range rooms {
		rooms[i] = map[string]queue.Admission{}
		own := instance(t, url, l.ID())
		g.Go(func() error { return poll(finished, own, tickets, i, len(rooms), rooms[i]) })
	}
	kills := make([]int, 3)
	for i := range kills {
		g.Go(func() (err error) {
			kills[i], err = startAndKill(url, l.ID(), churn)
			return err
		})
	}
	time.Sleep(churn)
	// One more instance, which nobody kills, lets in whoever is left.
	last := admission.NewTicker(instance(t, url, l.ID()), admission.Fixed(1), queue.DefaultOptions().Tick, slog.New(slog.DiscardHandler))
	g.Go(func() error { return last.Run(ctx) })
	left := func() int64 {
		s, err := l.Snapshot(t.Context())
		if err != nil {
			t.Error(err)
		}
		return s.Waiting
	}
	before := left()
	for deadline := time.Now().Add(20 * time.Second); left() > 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	close(finished)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}

	in := map[string]queue.Admission{}
	for _, room := range rooms {
		maps.Copy(in, room)
	}
	var previous queue.Admission
	for i, ticket := range tickets {
		a, ok := in[ticket.Subject]
		if !ok {
			t.Fatalf("%s, number %d in line, was never let in", ticket.Subject, i+1)
		}
		if a.Place != ticket.Place || a.TicketID != ticket.ID {
			t.Errorf("%s holds %+v for the ticket %+v", ticket.Subject, a, ticket)
		}
		if a.AdmittedAt.Before(previous.AdmittedAt) {
			t.Errorf("%s was let in before %s, who stood in front", a.Subject, previous.Subject)
		}
		previous = a
	}
	if n := total(t, l); n != visitors {
		t.Errorf("%d admissions of %d visitors", n, visitors)
	}
	if n := kills[0] + kills[1] + kills[2]; n < 6 || before == visitors || before == 0 {
		t.Errorf("the test tested nothing: %d processes killed, %d of %d still waiting then", n, before, visitors)
	} else {
		t.Logf("%d processes killed; %d of %d still waiting then", n, before, visitors)
	}
}

// poll asks for every of-th visitor in turn, once more after it is finished, and
// keeps what those let in hold. A position that grows, a visitor who is neither
// waiting nor let in, or an admission that changes is an error.
func poll(finished <-chan struct{}, l queue.Line, tickets []queue.Ticket, first, of int, in map[string]queue.Admission) error {
	position := map[string]int64{}
	for last := false; !last; {
		select {
		case <-finished:
			last = true
		default:
		}
		for i := first; i < len(tickets); i += of {
			who := tickets[i].Subject
			s, err := l.Standing(context.Background(), tickets[i])
			held, was := in[who]
			switch {
			case err != nil:
				return err
			case s.State == queue.Waiting && was:
				return fmt.Errorf("%s was let in and waits again", who)
			case s.State == queue.Waiting:
				if p, ok := position[who]; ok && s.Position > p {
					return fmt.Errorf("%s stood at %d and stands at %d", who, p, s.Position)
				}
				position[who] = s.Position
			case s.State != queue.Admitted:
				return fmt.Errorf("%s is %s", who, s.State)
			case was && s.Admission != held:
				return fmt.Errorf("%s held %+v and holds %+v", who, held, s.Admission)
			default:
				in[who] = s.Admission
			}
		}
	}
	return nil
}

// startAndKill keeps a ticker process running and kills it at random moments,
// again and again for the duration; it returns how many were killed.
func startAndKill(url, line string, d time.Duration) (kills int, err error) {
	for end := time.Now().Add(d); time.Now().Before(end); kills++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childLine+"="+line, childRedis+"="+url)
		child.Stderr = os.Stderr
		life, err := child.StdinPipe() // closed when this process ends, however it does
		if err != nil {
			return kills, err
		}
		if err := child.Start(); err != nil {
			return kills, err
		}
		time.Sleep(200*time.Millisecond + time.Duration(mrand.Int64N(int64(400*time.Millisecond))))
		if err := child.Process.Kill(); err != nil {
			return kills, fmt.Errorf("the ticker ended before it was killed: %w", err)
		}
		_ = child.Wait() // killed
		_ = life.Close()
	}
	return kills, nil
}

// tickUntilTold is the whole of a ticker process: it admits until its standard
// input ends.
func tickUntilTold(line, url string) (exit int) {
	client, err := redisqueue.Dial(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = client.Close() }()
	l, err := redisqueue.New(client, line, queue.DefaultOptions())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = admission.NewTicker(l, admission.Fixed(1), queue.DefaultOptions().Tick, slog.Default()).Run(ctx)
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	return 0
}
