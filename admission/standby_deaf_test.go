package admission_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"sluice/admission"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// Whoever polls in vain while the store is away is not taken for silent when it is back,
// also if no sweep went out to fail meanwhile: the standby answers those itself.
func TestNobodyIsAwayBehindAStandby(t *testing.T) {
	t.Parallel()
	wire := servicetest.NewProxy(t, servicetest.OwnRedis(t).URL)
	client, err := redisqueue.Dial(wire.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	opts := queue.DefaultOptions()
	opts.Grace = 300 * time.Millisecond
	line, err := redisqueue.New(client, "default", opts)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	standby := admission.NewStandby(admission.StandbyConfig{
		Line: line, Watch: queue.NewWatch(line, time.Second, log), Options: opts, OnFailure: queue.ModeBlock,
		Steady: func() admission.Steady { return admission.Steady{} }, Log: log,
	})
	admit := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, _ = standby.Admit(ctx, 0, queue.LimitedByCapacity)
	}
	sweep := func() queue.Swept {
		t.Helper()
		swept, err := standby.Sweep(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return swept
	}
	is := func(away bool) {
		t.Helper()
		for start := time.Now(); standby.Away() != away; admit() {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("away is still not %v", away)
			}
		}
	}
	if _, err := standby.Enter(t.Context(), "v", nil); err != nil {
		t.Fatal(err)
	}
	sweep()
	wire.Set(servicetest.Cut)
	is(true)
	if _, err := standby.Sweep(t.Context(), nil); err == nil {
		t.Fatal("swept a store that is away")
	}
	wire.Set(servicetest.None)
	is(false)
	if s := sweep(); s.Away != 0 {
		t.Error("somebody is taken for silent who could not be heard")
	}
	// Who is silent from now on is.
	for start := time.Now(); sweep().Away != 1; time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatal("still not away")
		}
	}
}
