package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/configs"
	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/web"
)

// sharedLines stand in for a store that several processes share.
type sharedLines struct {
	mu     sync.Mutex
	lines  map[string]queue.Line // guarded by mu
	listed map[string]bool       // guarded by mu
	down   bool                  // guarded by mu
}

func newSharedLines() *sharedLines {
	return &sharedLines{lines: map[string]queue.Line{}, listed: map[string]bool{}}
}

func (s *sharedLines) Lines(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, queue.ErrUnavailable
	}
	var ids []string
	for id := range s.listed {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

func (s *sharedLines) Add(_ context.Context, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.listed[id] = true
	}
	return nil
}

func (s *sharedLines) newLine(id string, opts queue.Options) (queue.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines[id] == nil {
		line, err := memqueue.New(id, opts)
		if err != nil {
			return nil, err
		}
		s.lines[id] = line
	}
	return s.lines[id], nil
}

func (s *sharedLines) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *sharedLines) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.listed)
}

// lineSetOn opens the lines of a process on a store.
func lineSetOn(t testing.TB, store *lineStore, cfg configs.Config, log *slog.Logger) *lineSet {
	t.Helper()
	s := newLineSet(cfg, store, log)
	s.rate = func(string) admission.Rater { return admission.Fixed(100) }
	s.queues = func() int { return 1 }
	if err := s.openAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// processOn is a process on shared lines, with a data folder of its own.
func processOn(t testing.TB, shared *sharedLines, cfg configs.Config, log *slog.Logger) *lineSet {
	t.Helper()
	return lineSetOn(t, &lineStore{directory: shared, newLine: shared.newLine, data: t.TempDir(), suffix: "-shared.json"}, cfg, log)
}

func running(t testing.TB, s *lineSet) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// toThisCentury brings the clock of a test to where schedules are taken.
const toThisCentury = 26 * 366 * 24 * time.Hour

var noLog = slog.New(slog.DiscardHandler)

func opened(s *lineSet) []string {
	var ids []string
	for id := range s.watches() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// viewOf is what a process last saw of a line that it has opened.
func viewOf(t testing.TB, s *lineSet, id string) queue.View {
	t.Helper()
	watch := s.watches()[id]
	if watch == nil {
		t.Fatalf("the line %s is not open", id)
	}
	view, _ := watch.View()
	return view
}

func TestLinesAreFoundAndPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logged := newLines()
		shared := newSharedLines()
		cfg := configs.Default()
		cfg.Lines = map[string]*configs.FirstSettings{"vip": {Weight: new(int64(7))}}
		one := processOn(t, shared, cfg, noLog)
		other := processOn(t, shared, configs.Default(), slog.New(slog.NewTextHandler(logged, nil)))
		running(t, one)
		running(t, other)
		if got := opened(other); !slices.Equal(got, []string{"default", "vip"}) {
			t.Errorf("a process that starts opens %q", got)
		}

		weight := int64(3)
		for again := range 2 {
			created, err := one.create(t.Context(), "early", queue.Patch{Weight: &weight})
			if err != nil || created != (again == 0) {
				t.Fatalf("created %v, %v", created, err)
			}
		}
		time.Sleep(time.Second)
		if view := viewOf(t, other, "early"); view.Settings.Weight != 3 {
			t.Errorf("a second later the other process has %+v", view.Settings)
		}
		// What was opened while it runs lives like the rest: somebody gets in.
		if _, err := other.line("early").Enter(t.Context(), "visitor", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if view := viewOf(t, other, "early"); view.Admitted != 1 {
			t.Errorf("nobody is let in: %+v", view.Snapshot)
		}
		if created, err := other.create(t.Context(), "vip", queue.Patch{}); err != nil || created {
			t.Errorf("a line that is there: created %v, %v", created, err)
		}

		shared.forget()
		time.Sleep(time.Second)
		if got, _ := shared.Lines(t.Context()); !slices.Equal(got, []string{"default", "early", "vip"}) {
			t.Errorf("after the loss the directory has %q", got)
		}

		shared.set(true)
		time.Sleep(10 * time.Second)
		if n := strings.Count(logged.String(), "lines that others made"); n != 1 {
			t.Errorf("one outage is told %d times", n)
		}
		if _, err := one.create(t.Context(), "late", queue.Patch{}); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("a line made while the store is away: %v", err)
		}
		shared.set(false)
		if created, err := one.create(t.Context(), "late", queue.Patch{}); err != nil || !created {
			t.Errorf("a line made afterwards: %v, %v", created, err)
		}
		time.Sleep(time.Second)
		if other.line("late") == nil {
			t.Error("it is not found afterwards")
		}
		if n := strings.Count(logged.String(), "all lines are here again"); n != 1 {
			t.Errorf("the end of one outage is told %d times", n)
		}
	})
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedLines()
		s := processOn(t, shared, configs.Default(), noLog)
		for i := range configs.MaxLines - 1 {
			if _, err := s.create(t.Context(), fmt.Sprint("line-", i), queue.Patch{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.create(t.Context(), "one-more", queue.Patch{}); !errors.Is(err, web.ErrTooManyLines) {
			t.Errorf("%d lines and one more: %v", configs.MaxLines, err)
		}
		if _, err := s.create(t.Context(), "line-0", queue.Patch{}); err != nil {
			t.Errorf("one of them again: %v", err)
		}
		if _, err := s.create(t.Context(), "No Line", queue.Patch{}); err == nil {
			t.Error("an id that is none was taken")
		}
	})
}

// What is there is served, however it came to be there: a process that refused to
// open one line too many would not start again.
func TestWhatIsThereIsOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedLines()
		for i := range configs.MaxLines + 5 {
			_ = shared.Add(t.Context(), fmt.Sprint("line-", i))
		}
		_ = shared.Add(t.Context(), "No Line")
		s := processOn(t, shared, configs.Default(), noLog)
		running(t, s)
		_ = shared.Add(t.Context(), "later")
		time.Sleep(time.Second)
		if got := opened(s); len(got) != configs.MaxLines+7 || s.line("later") == nil {
			t.Errorf("%d lines are open", len(got))
		}
		if _, err := s.create(t.Context(), "one-more", queue.Patch{}); !errors.Is(err, web.ErrTooManyLines) {
			t.Errorf("one more: %v", err)
		}
	})
}

// A line is noted where others look for it before anybody is told of it.
func TestALineThatIsMadeAgainIsNotedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedLines()
		s := processOn(t, shared, configs.Default(), noLog)
		for range 2 {
			if _, err := s.create(t.Context(), "early", queue.Patch{}); err != nil {
				t.Fatal(err)
			}
			if got, _ := shared.Lines(t.Context()); !slices.Contains(got, "early") {
				t.Errorf("others find %q", got)
			}
			shared.forget()
		}
	})
}

// The configuration's words count when a line is born, and the draw of an opening
// time is made with it.
func TestConfiguredLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(toThisCentury)
		opens, closes := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		cfg := configs.Default()
		cfg.Line.MaxLength = 50
		cfg.Lines = map[string]*configs.FirstSettings{
			"sale": {
				Weight: new(int64(3)), MaxActive: new(int64(4)), PollBudget: new(2.5), OpensAt: &opens, ClosesAt: &closes,
				Message: new("soon"), Mode: new("passthrough"), Paused: new(true), SoldOut: new(true), RateOverride: new(6.0),
			},
			"default": {MaxLength: new(int64(0))},
		}
		shared := newSharedLines()
		one, other := processOn(t, shared, cfg, noLog), processOn(t, shared, cfg, noLog)
		got := viewOf(t, one, "sale").Settings
		if got.Seed == "" || got.Revision == 0 {
			t.Errorf("the draw is not announced: %+v", got)
		}
		want := queue.Settings{
			Revision: got.Revision, Seed: got.Seed, Weight: 3, MaxLength: 50, MaxActive: 4, PollBudget: new(2.5),
			OpensAt: got.OpensAt, ClosesAt: got.ClosesAt, Message: "soon", Mode: queue.ModePassthrough, Paused: true, SoldOut: true,
			RateOverride: new(6.0),
		}
		if !reflect.DeepEqual(got, want) || !got.OpensAt.Equal(opens.Truncate(time.Millisecond)) || !got.ClosesAt.Equal(closes.Truncate(time.Millisecond)) {
			t.Errorf("born with %+v\nwant %+v", got, want)
		}
		if view := viewOf(t, other, "sale"); view.Settings.Seed != got.Seed || view.Settings.Revision != got.Revision {
			t.Errorf("the second process has made another draw of it: %+v", view.Settings)
		}
		if view := viewOf(t, one, web.DefaultLine); view.Settings.MaxLength != 0 {
			t.Errorf("the default line is born with %+v", view.Settings)
		}
	})
}

// Each key of the line section is wired to the option that it is for.
func TestLineOptions(t *testing.T) {
	t.Parallel()
	cfg := configs.Default()
	cfg.Line = configs.Line{
		Tick: 11 * time.Millisecond, Jitter: 12 * time.Second, AdmissionTTL: 13 * time.Second, TicketTTL: 14 * time.Hour,
		KeepPlace: 15 * time.Minute, RecoveryHold: 16 * time.Second, MaxLength: 17, MaxActive: 18,
	}
	cfg.Lines = map[string]*configs.FirstSettings{"vip": {MaxActive: new(int64(19))}}
	want := queue.DefaultOptions()
	want.Tick, want.Jitter, want.AdmissionTTL, want.TicketTTL = 11*time.Millisecond, 12*time.Second, 13*time.Second, 14*time.Hour
	want.KeepPlace, want.RecoveryHold = 15*time.Minute, 16*time.Second
	want.Initial.MaxLength, want.Initial.MaxActive = 17, 18
	if got := lineOptions(cfg, "default"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	want.Initial.MaxActive = 19
	if got := lineOptions(cfg, "vip"); !reflect.DeepEqual(got, want) {
		t.Errorf("vip: got  %+v\nwant %+v", got, want)
	}
}

// A created line and what was said to it outlive the process whose only home they
// have.
func TestEmbeddedLinesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(toThisCentury)
		data := t.TempDir()
		process := func() *lineSet {
			a := &app{cfg: configs.Default(), log: noLog}
			a.cfg.Data = data
			store, err := a.openLineStore()
			if err != nil {
				t.Fatal(err)
			}
			return lineSetOn(t, store, a.cfg, noLog)
		}
		before := process()
		opens := new(time.Now().Add(time.Hour))
		for id, patch := range map[string]queue.Patch{"sale": {OpensAt: &opens}, "plain": {}} {
			if created, err := before.create(t.Context(), id, patch); err != nil || !created {
				t.Fatal(id, created, err)
			}
		}
		after := process()
		if got := opened(after); !slices.Equal(got, []string{"default", "plain", "sale"}) {
			t.Errorf("after the restart there are %q", got)
		}
		was, is := viewOf(t, before, "sale"), viewOf(t, after, "sale")
		if is.Settings.Seed == "" || !reflect.DeepEqual(was.Settings, is.Settings) {
			t.Errorf("after the restart %+v\nbefore %+v", is.Settings, was.Settings)
		}
	})
}

// Whatever lies in the data folder, from an earlier version, from a clock that was
// wrong, or of no line at all, a process starts on it or says which file to remove.
func TestOldDataFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, fails string }{
		"of an earlier version":  {`{"Epoch":7,"Settings":{"Revision":1700000000000,"Paused":true,"Message":"m","Mode":"normal","RateOverride":null,"MaxActive":0,"MaxLength":0,"SoldOut":false}}`, ""},
		"of a clock far ahead":   {`{"Epoch":4102444800000,"Created":"2150-01-01T00:00:00Z","Longest":3600000000000,"Settings":{"Revision":4102444800000,"Paused":true,"Mode":"normal","Weight":1}}`, ""},
		"of a clock far behind":  {`{"Epoch":1,"Created":"1971-01-01T00:00:00Z","Settings":{"Revision":1,"Paused":true,"Mode":"normal","Weight":1}}`, ""},
		"of a schedule long ago": {`{"Epoch":1,"Quiet":true,"Settings":{"Revision":1,"Paused":true,"Mode":"normal","Weight":1,"OpensAt":"2011-01-01T00:00:00Z"}}`, ""},
		"damaged":                {`{"Epoch":`, "line-vip-embedded.json is damaged"},
		"with impossible values": {`{"Epoch":-1,"Settings":{"Mode":"normal","Weight":1}}`, "line-vip-embedded.json is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			for _, file := range []string{"line-vip-embedded.json", "line-Not A Line-embedded.json", "line-other-redis-0123456789ab.json", "line-embedded.json"} {
				if err := os.WriteFile(filepath.Join(data, file), []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.fails != "" {
				code, _, errs := command(t, []string{"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA=" + data}, "serve")
				if code != exitFailed || !strings.Contains(errs, c.fails) {
					t.Errorf("exit %d: %s", code, errs)
				}
				return
			}
			shop := serveEmbedded(t, "SLUICE_DATA="+data)
			_, line := call(t, "GET", shop.admin+"/admin/api/lines/vip", nil, "")
			if line["paused"] != true {
				t.Errorf("the line is %v", line)
			}
			if status, answer := call(t, "POST", shop.public+"/queue/enter?line=vip", nil, ""); status != 201 || answer["state"] != "waiting" {
				t.Errorf("enter: %d %v", status, answer)
			}
			if status, _ := call(t, "GET", shop.admin+"/admin/api/lines/other", nil, ""); status != 404 {
				t.Errorf("a line of another store is there: %d", status)
			}
		})
	}
}

func TestPollBudgets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines       map[string]pollDemand
		perInstance float64
		instances   int
		want        map[string]float64
	}{
		"one line has it all":       {map[string]pollDemand{"a": {waiting: 0}}, 100, 3, map[string]float64{"a": 300}},
		"by how many wait":          {map[string]pollDemand{"a": {waiting: 29}, "b": {waiting: 69}}, 100, 2, map[string]float64{"a": 60, "b": 140}},
		"own budgets stand apart":   {map[string]pollDemand{"a": {new(5.0), 1000}, "b": {waiting: 7}}, 100, 2, map[string]float64{"a": 10, "b": 200}},
		"no bound but for own ones": {map[string]pollDemand{"a": {new(5.0), 1}, "b": {waiting: 7}}, 0, 2, map[string]float64{"a": 10, "b": 0}},
	} {
		if got := pollBudgets(c.lines, c.perInstance, c.instances); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
