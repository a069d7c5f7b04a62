package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
	"sluice/queue/memqueue"
)

// A restart of the process forgets neither the operator's word nor the epoch.
func TestKeeper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line-default.json")
	synctest.Test(t, func(t *testing.T) {
		if _, ok, err := queue.Recall(path); ok || err != nil {
			t.Fatalf("recalled from nothing: %v, %v", ok, err)
		}
		line := newLine(t, queue.DefaultOptions())
		ticket := enter(t, line).Ticket
		stop := run(t, line, path)
		synctest.Wait()
		want := queue.Settings{Paused: true, Message: "한국어", Mode: queue.ModeNormal, RateOverride: new(17.5), MaxActive: 3, Weight: 1}
		rate := want.RateOverride
		settings, err := line.Configure(t.Context(), queue.Patch{Paused: &want.Paused, Message: &want.Message, RateOverride: &rate, MaxActive: &want.MaxActive})
		if err != nil {
			t.Fatal(err)
		}
		epoch, err := line.Restart(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // virtual
		kept, ok, err := queue.Recall(path)
		if err != nil || !ok || kept.Epoch != epoch || !reflect.DeepEqual(kept.Settings, settings) {
			t.Fatalf("kept %+v, %v, %v; want epoch %d and %+v", kept, ok, err, epoch, settings)
		}
		stop()

		opts := queue.DefaultOptions()
		opts.Known = &kept
		again := newLine(t, opts)
		s, err := again.Snapshot(t.Context())
		if err != nil || s.Epoch != epoch || !reflect.DeepEqual(s.Settings, settings) {
			t.Fatalf("after a restart: %+v, %v", s, err)
		}
		if _, err := again.Standing(t.Context(), ticket); err == nil {
			t.Fatal("a ticket of the ended sale stands in line after a restart")
		}
	})
}

// What an operator changed while the store was away is kept with the last that was read.
func TestKeeperKeepsWhatIsAdopted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	synctest.Test(t, func(t *testing.T) {
		line := newLine(t, queue.DefaultOptions())
		watch := queue.NewWatch(line, time.Hour, slog.New(slog.DiscardHandler))
		keeper := queue.NewKeeper(path, watch, nil, slog.New(slog.DiscardHandler))
		if err := errors.Join(watch.Refresh(t.Context()), keeper.Keep()); err != nil {
			t.Fatal(err)
		}
		before, _, _ := queue.Recall(path)
		adopted := before.Settings
		adopted.Revision, adopted.Paused, adopted.Message = adopted.Revision+1, true, "while away"
		watch.Adopt(adopted)
		if err := keeper.Keep(); err != nil {
			t.Fatal(err)
		}
		kept, ok, err := queue.Recall(path)
		if err != nil || !ok || !reflect.DeepEqual(kept.Settings, adopted) || kept.Epoch != before.Epoch || !kept.Created.Equal(before.Created) {
			t.Fatalf("kept %+v, %v, %v; want %+v and the rest of %+v", kept, ok, err, adopted, before)
		}
		older := adopted
		older.Revision, older.Message = before.Settings.Revision, "older"
		watch.Adopt(older)
		if view, _ := watch.View(); !reflect.DeepEqual(view.Settings, adopted) {
			t.Fatalf("an older one is seen: %+v", view.Settings)
		}
	})
}

// A change in the last moment is kept too, and nothing else is left behind.
func TestKeeperStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	synctest.Test(t, func(t *testing.T) {
		line := newLine(t, queue.DefaultOptions())
		watch := queue.NewWatch(line, time.Hour, slog.New(slog.DiscardHandler))
		keeper := queue.NewKeeper(path, watch, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- keeper.Run(ctx) }()
		synctest.Wait()
		if err := watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, ok, err := queue.Recall(path); !ok || err != nil {
			t.Fatalf("nothing kept: %v", err)
		}
	})
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestRecallDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	for _, text := range []string{"", `{"Epoch":`, `{"Epoch":1}`, `{"Epoch":-1,"Settings":{"Mode":"normal"}}`, `{"Settings":{"Mode":"odd"}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := queue.Recall(path); ok || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("recalled %v, %v from %q", ok, err, text)
		}
	}
}

// A disk that cannot be written is said once, and the change is kept when it can.
func TestKeeperTriesAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not there yet")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		line := newLine(t, queue.DefaultOptions())
		watch := queue.NewWatch(line, time.Hour, slog.New(slog.DiscardHandler))
		if err := watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		keeper := queue.NewKeeper(filepath.Join(folder, "line.json"), watch, nil, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- keeper.Run(ctx) }()
		time.Sleep(time.Minute) // virtual
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, ok, err := queue.Recall(filepath.Join(folder, "line.json")); !ok || err != nil {
			t.Errorf("not kept when the disk is back: %v, %v", ok, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "cannot be kept"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
	})
}

// What an earlier version kept is still known.
func TestRecallOfAnEarlierVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	const text = `{"Epoch":7,"Settings":{"Revision":3,"Paused":true,"Message":"m","Mode":"normal","RateOverride":17.5,"MaxActive":3,"MaxLength":0,"SoldOut":false}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := queue.Remembered{Epoch: 7, Settings: queue.Settings{
		Revision: 3, Paused: true, Message: "m", Mode: queue.ModeNormal, RateOverride: new(17.5), MaxActive: 3, Weight: 1,
	}}
	if got, ok, err := queue.Recall(path); err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("recalled %+v, %v, %v", got, ok, err)
	}
}

// seenLine is a Line that is read, and says what it is told to.
type seenLine struct {
	queue.Line
	snapshot queue.Snapshot
	err      error
}

func (l *seenLine) ID() string { return "sale" }

func (l *seenLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	return l.snapshot, errors.Join(l.err, ctx.Err())
}

// kept is what a keeper wrote.
func kept(t *testing.T, path string) queue.Remembered {
	t.Helper()
	r, ok, err := queue.Recall(path)
	if err != nil || !ok {
		t.Fatalf("recalled %v, %v", ok, err)
	}
	return r
}

// A file is written when there is news and only then: the disk is the embedded
// line's, and shared with its orders.
func TestKeeperWritesWhatIsNews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	born := time.UnixMilli(1_700_000_000_000)
	synctest.Test(t, func(t *testing.T) {
		told := new(queue.Told)
		l := &seenLine{snapshot: queue.Snapshot{Created: born, Settings: queue.Settings{Mode: queue.ModeNormal, Weight: 1}}}
		watch := queue.NewWatch(l, time.Hour, slog.New(slog.DiscardHandler))
		keeper := queue.NewKeeper(path, watch, told, slog.New(slog.DiscardHandler))
		if err := keeper.Keep(); err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := queue.Recall(path); ok {
			t.Error("kept before anything was seen")
		}
		for _, c := range []struct {
			name   string
			change func()
			writes bool
		}{
			{"the first look", func() {}, true},
			{"the same again", func() { l.snapshot.Waiting, l.snapshot.Admitted = 5, 9 }, false},
			{"a revision", func() { l.snapshot.Settings.Revision = 10 }, true},
			{"an epoch", func() { l.snapshot.Epoch = 20 }, true},
			{"another incarnation", func() { l.snapshot.Created = born.Add(time.Hour) }, true},
			{"a first interval", func() { told.Note(5 * time.Second) }, true},
			{"a little longer", func() { told.Note(6 * time.Second) }, false},
			{"more than a second longer", func() { told.Note(6001 * time.Millisecond) }, true},
			{"shorter ones only", func() { time.Sleep(5 * time.Minute); told.Note(time.Second) }, false},
			{"an incarnation that has forgotten the epoch", func() { l.snapshot.Epoch, l.snapshot.Created = 3, born.Add(2*time.Hour) }, false},
			{"one that has forgotten the settings", func() {
				l.snapshot.Epoch, l.snapshot.Settings.Revision, l.snapshot.Settings.Paused = 20, 2, true
			}, false},
			{"nor does it teach", func() { told.Note(30 * time.Second) }, true},
		} {
			_ = os.Remove(path)
			c.change()
			if err := watch.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := keeper.Keep(); err != nil {
				t.Fatal(err)
			}
			if _, ok, _ := queue.Recall(path); ok != c.writes {
				t.Errorf("%s: written: %v", c.name, ok)
			}
		}
		if r := kept(t, path); r.Epoch != 20 || r.Settings.Revision != 10 || r.Settings.Paused || !r.Created.Equal(born.Add(time.Hour)) {
			t.Errorf("a store that has lost its memory taught %+v", r)
		}
	})
}

// A clean stop with nobody there is told from any other end.
func TestKeeperQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	for _, c := range []struct {
		name          string
		waiting, away int64
		err           error
		want          bool
	}{
		{"nobody", 0, 0, nil, true},
		{"somebody waits", 1, 0, nil, false},
		{"nobody again", 0, 0, nil, true},
		{"somebody is away", 0, 1, nil, false},
		{"no answer at the end", 0, 0, queue.ErrUnavailable, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &seenLine{snapshot: queue.Snapshot{Epoch: 1, Settings: queue.Settings{Mode: queue.ModeNormal, Weight: 1}}}
			watch := queue.NewWatch(l, time.Hour, slog.New(slog.DiscardHandler))
			keeper := queue.NewKeeper(path, watch, nil, slog.New(slog.DiscardHandler))
			if err := watch.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- keeper.Run(ctx) }()
			time.Sleep(time.Second)
			if kept(t, path).Quiet {
				t.Errorf("%s: a process that runs calls itself stopped", c.name)
			}
			// What the last view of the watch does not know yet.
			l.snapshot.Waiting, l.snapshot.Away, l.err = c.waiting, c.away, c.err
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if r := kept(t, path); r.Quiet != c.want || r.Epoch != 1 {
				t.Errorf("%s: kept %+v", c.name, r)
			}
		})
	}
}

// What the process before told is not over because it ended.
func TestKeeperCarriesTheLongestIntervalOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	synctest.Test(t, func(t *testing.T) {
		l := &seenLine{snapshot: queue.Snapshot{Settings: queue.Settings{Mode: queue.ModeNormal, Weight: 1}}}
		start := func() (*queue.Keeper, *queue.Told) {
			told := new(queue.Told)
			watch := queue.NewWatch(l, time.Hour, slog.New(slog.DiscardHandler))
			keeper := queue.NewKeeper(path, watch, told, slog.New(slog.DiscardHandler))
			if err := errors.Join(watch.Refresh(t.Context()), keeper.Keep()); err != nil {
				t.Fatal(err)
			}
			return keeper, told
		}
		keeper, told := start()
		told.Note(40 * time.Second)
		if err := keeper.Keep(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // crashes in a row
			time.Sleep(5 * time.Second)
			_, told = start()
			if got, r := told.Longest(), kept(t, path); got != 40*time.Second || r.Longest != 40*time.Second {
				t.Errorf("after a start the longest is %s, kept %s", got, r.Longest)
			}
		}
		time.Sleep(3 * time.Minute)
		if got := told.Longest(); got != 0 {
			t.Errorf("three minutes later it is still %s", got)
		}
	})
}

func newLine(t *testing.T, opts queue.Options) queue.Line {
	t.Helper()
	line, err := memqueue.New("default", opts)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func enter(t *testing.T, line queue.Line) queue.Standing {
	t.Helper()
	s, err := line.Enter(t.Context(), queue.NewID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a watch and a keeper until stop.
func run(t *testing.T, line queue.Line, path string) (stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	watch := queue.NewWatch(line, 100*time.Millisecond, log)
	keeper := queue.NewKeeper(path, watch, nil, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- watch.Run(ctx) }()
	go func() { done <- keeper.Run(ctx) }()
	return func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}
