package redisqueue_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// A store that has lost its memory, seen by several processes, on a server of the
// test's own.

const ownLine = "default"

// emptied is a Redis of the test's own and what empties it.
func emptied(t *testing.T) (client redis.UniversalClient, flush func()) {
	t.Helper()
	client, err := redisqueue.Dial(servicetest.OwnRedis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, func() {
		t.Helper()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // the next incarnation is of another millisecond
	}
}

// process is a line as a process of its own would have it.
func process(t *testing.T, client redis.UniversalClient, change func(*queue.Options)) *redisqueue.Line {
	t.Helper()
	opts := queue.DefaultOptions()
	opts.Tick, opts.Jitter, opts.RecoveryHold = 20*time.Millisecond, 0, time.Second
	opts.Told = &queue.Told{}
	if change != nil {
		change(&opts)
	}
	line, err := redisqueue.New(client, ownLine, opts)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func told(d time.Duration) func(*queue.Options) {
	return func(o *queue.Options) { o.Told.Note(d) }
}

func look(t *testing.T, line *redisqueue.Line) queue.Snapshot {
	t.Helper()
	s, err := line.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func enter(t *testing.T, line *redisqueue.Line, subject string) queue.Ticket {
	t.Helper()
	s, err := line.Enter(t.Context(), subject, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ticket
}

func poll(t *testing.T, line *redisqueue.Line, ticket queue.Ticket) queue.Standing {
	t.Helper()
	s, err := line.Standing(t.Context(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hold(s queue.Snapshot) time.Duration { return s.HoldUntil.Sub(s.At).Round(time.Second) }

// Emptied under a crowd while two processes let in, one of which no visitor has
// ever polled: nobody goes in before the hold is over, then all of them in the old
// order, once, and newcomers behind them.
func TestEmptiedUnderCrowd(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	polled, idle := process(t, client, nil), process(t, client, nil)
	look(t, polled)
	look(t, idle)
	var crowd []queue.Ticket
	for range 300 {
		crowd = append(crowd, enter(t, polled, queue.NewID()))
	}
	var mu sync.Mutex
	var letIn []queue.Admission
	admit := func(line *redisqueue.Line, rate float64) {
		b, err := line.Admit(t.Context(), rate, queue.LimitedByCapacity)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		letIn = append(letIn, b.Admitted...)
	}
	for len(letIn) < 20 {
		admit(polled, 500)
		time.Sleep(10 * time.Millisecond)
	}
	gone := len(letIn)
	flush()

	var wg sync.WaitGroup
	for _, line := range []*redisqueue.Line{idle, polled} {
		wg.Go(func() {
			for start := time.Now(); time.Since(start) < 3*time.Second; time.Sleep(5 * time.Millisecond) {
				admit(line, 500)
			}
		})
	}
	wg.Go(func() {
		waiting := slices.Clone(crowd[gone:])
		rand.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		enter(t, polled, "newcomer")
		for _, ticket := range waiting {
			if s := poll(t, polled, ticket); s.State != queue.Waiting {
				t.Errorf("after the loss: %+v", s)
			}
		}
	})
	wg.Wait()
	s := look(t, idle)
	if len(letIn) != len(crowd)+1 || s.Waiting != 0 {
		t.Fatalf("%d of %d let in, %d wait", len(letIn), len(crowd)+1, s.Waiting)
	}
	// Two processes note their batches in the order in which they are answered.
	slices.SortStableFunc(letIn, func(a, b queue.Admission) int { return a.AdmittedAt.Compare(b.AdmittedAt) })
	for i, a := range letIn[:len(crowd)] {
		if a.TicketID != crowd[i].ID {
			t.Fatalf("admission %d is at place %d, want %d", i, a.Place, crowd[i].Place)
		}
		if i >= gone && a.AdmittedAt.Before(s.HoldUntil) {
			t.Fatalf("let in at %s, held until %s", a.AdmittedAt, s.HoldUntil)
		}
	}
	if last := letIn[len(crowd)]; last.Subject != "newcomer" {
		t.Fatalf("the last is %+v", last)
	}
}

// A process that never knew the line creates it, open at once; one that did finds
// out by the incarnation, and both obey the hold.
func TestFreshProcessOpensFirst(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	knowing := process(t, client, nil)
	before := look(t, knowing)
	enter(t, knowing, "v")
	flush()
	fresh := process(t, client, nil)
	if s := look(t, fresh); s.Recovering() || s.Created.Equal(before.Created) {
		t.Fatalf("created: %+v", s)
	}
	// Entered meanwhile and let in: only the knowing one can know better.
	enter(t, fresh, "first")
	found := look(t, knowing)
	if !found.Recovering() || found.Created.Equal(before.Created) {
		t.Fatalf("the knowing process sees %+v", found)
	}
	if b, err := fresh.Admit(t.Context(), 1000, queue.LimitedByCapacity); err != nil || b.LimitedBy != queue.LimitedByRecovering {
		t.Fatalf("a batch of the fresh process: %+v, %v", b, err)
	}
	if s := look(t, fresh); !s.HoldUntil.Equal(found.HoldUntil) {
		t.Fatalf("held until %s and %s", s.HoldUntil, found.HoldUntil)
	}
}

// When no process is left that knew the line, an old ticket proves the loss.
func TestOldTicketProvesLoss(t *testing.T) {
	t.Parallel()
	for name, show := range map[string]func(*redisqueue.Line, queue.Ticket) error{
		"polling": func(l *redisqueue.Line, v queue.Ticket) error { _, err := l.Standing(t.Context(), v); return err },
		"entering": func(l *redisqueue.Line, v queue.Ticket) error {
			_, err := l.Enter(t.Context(), v.Subject, &v)
			return err
		},
		"leaving": func(l *redisqueue.Line, v queue.Ticket) error { return l.Leave(t.Context(), v) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, flush := emptied(t)
			old := enter(t, process(t, client, nil), "old")
			flush()
			fresh := process(t, client, told(5*time.Second))
			enter(t, fresh, "new")
			if s := look(t, fresh); s.Recovering() {
				t.Fatalf("created: %+v", s)
			}
			if err := show(fresh, old); err != nil {
				t.Fatal(err)
			}
			if s := look(t, fresh); hold(s) != 6*time.Second {
				t.Fatalf("held for %s, want 6s", hold(s))
			}
		})
	}
}

// Every process raises the end of the hold to what it told itself.
func TestHoldIsTheLongest(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	short, long, longest := process(t, client, nil), process(t, client, told(20*time.Second)), process(t, client, told(time.Hour))
	known := process(t, client, func(o *queue.Options) { o.Known = &queue.Remembered{Longest: 40 * time.Second, Settings: o.Initial} })
	lines := []*redisqueue.Line{short, long, known, longest}
	for _, line := range lines {
		look(t, line)
	}
	flush()
	late := process(t, client, told(30*time.Second)) // never knew the line, and has told since
	look(t, late)
	wants := []time.Duration{time.Second, 21 * time.Second, 41 * time.Second, queue.MaxHold}
	for i, line := range lines {
		if s := look(t, line); hold(s) != wants[i] {
			t.Fatalf("process %d: held for %s, want %s", i, hold(s), wants[i])
		}
		if i == 1 { // it learns of the loss from the others
			if s := look(t, late); hold(s) != 31*time.Second {
				t.Fatalf("the fresh process: held for %s, want 31s", hold(s))
			}
		}
	}
	if s := look(t, short); hold(s) != queue.MaxHold {
		t.Fatalf("held for %s", hold(s))
	}
}

// A store loses its memory once per incarnation, and again in the next.
func TestLostOncePerIncarnation(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	one, two := process(t, client, nil), process(t, client, nil)
	var old []queue.Ticket
	for range 3 {
		old = append(old, enter(t, one, queue.NewID()))
	}
	look(t, one)
	look(t, two)
	for range 2 {
		flush()
		held := look(t, one)
		if !held.Recovering() {
			t.Fatalf("lost: %+v", held)
		}
		for look(t, one).Recovering() {
			time.Sleep(20 * time.Millisecond)
		}
		for _, ticket := range old {
			poll(t, two, ticket)
		}
		for _, line := range []*redisqueue.Line{two, one} {
			if s := look(t, line); s.Recovering() || !s.HoldUntil.Equal(held.HoldUntil) {
				t.Fatalf("lost twice: %+v, before %+v", s, held)
			}
		}
	}
}

// Of two settings of one revision the same ones stand, whoever comes first, and
// all processes know them afterwards; what a process was born with is none.
func TestEqualRevisions(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	remembering := func(message string) *redisqueue.Line {
		return process(t, client, func(o *queue.Options) {
			o.Known = &queue.Remembered{Settings: o.Initial}
			o.Known.Settings.Revision, o.Known.Settings.Message = 7, message
		})
	}
	var stood []string
	for _, order := range [][]string{{"one", "two"}, {"two", "one"}} {
		flush()
		first, second := remembering(order[0]), remembering(order[1])
		if s := look(t, first); !s.Recovering() { // it knew a line that is not there
			t.Fatalf("put back: %+v", s)
		}
		look(t, second)
		s := look(t, first).Settings
		if other := look(t, second).Settings; other != s || s.Revision != 7 {
			t.Fatalf("%+v and %+v", s, other)
		}
		stood = append(stood, s.Message)
	}
	if stood[0] != stood[1] {
		t.Fatalf("it depends on who comes first: %q", stood)
	}
	for _, message := range []string{"a", "b", "c"} {
		born := process(t, client, func(o *queue.Options) { o.Initial.Revision, o.Initial.Message = 7, message })
		enter(t, born, message) // a visitor may come before the first look
		if s := look(t, born).Settings; s.Message != stood[0] {
			t.Fatalf("a process that never knew the line made it %+v", s)
		}
	}
}

// A restart ends the hold for all, also for a process that learns of the loss only
// afterwards: whom it knew is of a dead epoch.
func TestRestartEndsHold(t *testing.T) {
	t.Parallel()
	client, flush := emptied(t)
	one, late := process(t, client, nil), process(t, client, told(time.Hour))
	for _, line := range []*redisqueue.Line{one, late} {
		look(t, line)
	}
	flush()
	if s := look(t, one); !s.Recovering() {
		t.Fatalf("lost: %+v", s)
	}
	if _, err := one.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []*redisqueue.Line{late, one, late} {
		if s := look(t, line); s.Recovering() {
			t.Fatalf("restarted, and held for %s", hold(s))
		}
	}
}

// afterwards is a hook that does something after each script, before its caller
// sees the answer.
type afterwards struct{ do func() }

func (afterwards) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a afterwards) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && a.do != nil {
			a.do()
		}
		return err
	}
}

func (afterwards) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// What others have learnt of the line while a snapshot was on its way does not make
// it one of a store that has fallen behind.
func TestSnapshotOvertaken(t *testing.T) {
	t.Parallel()
	client, err := redisqueue.Dial(servicetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	line, err := redisqueue.New(client, newLine(t, dial(t)), queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	look(t, line)
	var hooked atomic.Bool
	scripts := 0
	client.AddHook(afterwards{func() {
		if !hooked.CompareAndSwap(true, false) { // those of the hook are not hooked
			return
		}
		scripts++
		enter(t, line, queue.NewID())
		enter(t, line, queue.NewID())
		hooked.Store(true)
	}})
	hooked.Store(true)
	s := look(t, line)
	hooked.Store(false)
	if scripts != 1 || s.Waiting != 0 {
		t.Fatalf("%d scripts for one snapshot: %+v", scripts, s)
	}
	if s := look(t, line); s.Waiting != 2 {
		t.Fatalf("the next: %+v", s)
	}
}
