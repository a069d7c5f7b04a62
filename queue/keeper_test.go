package queue_test

import (
	"bytes"
	"context"
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
