package queue_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
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
		want := queue.Settings{Paused: true, Message: "한국어", Mode: queue.ModeNormal, RateOverride: new(17.5), MaxActive: 3}
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
		opts.Epoch, opts.Initial = kept.Epoch, kept.Settings
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

// A change in the last moment is kept too, and nothing else is left behind.
func TestKeeperStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "line.json")
	synctest.Test(t, func(t *testing.T) {
		line := newLine(t, queue.DefaultOptions())
		watch := queue.NewWatch(line, time.Hour, slog.New(slog.DiscardHandler))
		keeper := queue.NewKeeper(path, watch, slog.New(slog.DiscardHandler))
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
	if err := os.WriteFile(path, []byte(`{"Epoch":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := queue.Recall(path); ok || err == nil {
		t.Errorf("recalled %v, %v from a damaged file", ok, err)
	}
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
	keeper := queue.NewKeeper(path, watch, log)
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
