package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/queue"
	"sluice/servicetest"
)

// binaries is a folder with the programs as they are shipped, built once in a run.
var binaries = sync.OnceValues(func() (folder string, err error) {
	folder, err = os.MkdirTemp("", "sluice-programs-")
	if err != nil {
		return "", err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	return folder, servicetest.Build(context.Background(), folder+"/", "sluice/cmd/...")
})

// remove is called when all tests have ended.
var remove = func() {}

// shipped is the service as it is shipped.
func shipped(t testing.TB) (path string) {
	t.Helper()
	folder, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "sluice")
}

// startProcess runs an instance as a process of its own, which can be killed. It is of
// the program as it is shipped: with the race detector each start takes half a second
// of work, and a process that is killed reports no race.
func startProcess(t *testing.T, environ ...string) (*instance, *exec.Cmd) {
	t.Helper()
	return startCommand(t, exec.CommandContext(context.WithoutCancel(t.Context()), shipped(t), "serve"), environ...)
}

// startCommand runs an instance by a command of the test's own.
func startCommand(t *testing.T, cmd *exec.Cmd, environ ...string) (*instance, *exec.Cmd) {
	t.Helper()
	cmd.Env = append(append(os.Environ(),
		"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA="+t.TempDir(), "SLUICE_LINE_JITTER=0s"), environ...)
	out, log := newLines(), newLines()
	cmd.Stdout, cmd.Stderr = out, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	i := &instance{log: log}
	i.find(t, out)
	return i, cmd
}

// One of two instances is killed at some moment of a sale and comes back: everybody
// who waits goes on at the other one, goes in by the places, once, and makes one order,
// also with a token of the one that is dead.
func TestKilledInstance(t *testing.T) {
	t.Parallel()
	const visitors = 120
	killAfter := 1 + rand.Int64N(visitors/2)
	shared := sharedStores(t)
	fixed := append(slices.Clone(shared), "SLUICE_LISTEN="+freeAddress(t))
	victim, process := startProcess(t, fixed...)
	survivor, _ := startProcess(t, shared...)
	product := addProduct(t, survivor, visitors)
	pause(t, survivor)

	var ordered atomic.Int64
	kill := make(chan struct{})
	var crowd sync.WaitGroup
	for n := range visitors {
		at := []*instance{victim, survivor}
		v := &visitor{t: t}
		v.enter(at[n%2])
		crowd.Go(func() {
			if err := v.buy(product, at); err != nil {
				t.Errorf("visitor %d: %v", n, err)
			}
			if ordered.Add(1) == killAfter {
				close(kill)
			}
		})
	}
	if status, answer := call(t, http.MethodPatch, survivor.admin+"/admin/api/lines/default", nil, `{"paused":false,"rate_override":20}`); status != http.StatusOK {
		t.Fatalf("open: %d %v", status, answer)
	}
	<-kill // every visitor counts, also one that failed
	t.Logf("killed after %d orders", killAfter)
	_ = process.Process.Kill()
	_ = process.Wait()
	startProcess(t, fixed...)
	crowd.Wait()

	_, sum := call(t, http.MethodGet, survivor.admin+"/admin/api/orders/summary", nil, "")
	if sum["orders"] != float64(visitors) || sum["items_sold"] != float64(visitors) {
		t.Errorf("summary: %v", sum)
	}
	_, answer := call(t, http.MethodGet, survivor.admin+"/admin/api/lines/default/audit", nil, "")
	text, _ := answer["text"].(string)
	records, err := queue.ReadCSV(strings.NewReader(text))
	if err != nil || len(records) != visitors {
		t.Fatalf("%d tickets in the export, want %d: %v\n%s", len(records), visitors, err, text)
	}
	byPlace := func(a, b queue.Record) int { return int(a.Place - b.Place) }
	if !slices.IsSortedFunc(records, byPlace) {
		t.Error("the export is not in the order of places")
	}
	for i, r := range records {
		if r.AdmittedAt.IsZero() || i > 0 && r.AdmittedAt.Before(records[i-1].AdmittedAt) {
			t.Errorf("ticket %d of %d was let in at %v, the one before at %v", i, visitors, r.AdmittedAt, records[max(0, i-1)].AdmittedAt)
		}
	}
	for _, f := range queue.Audit(records, queue.Draw{}) {
		if !f.Note {
			t.Error(f.Text)
		}
	}
}

// buy waits and orders once, at whichever instance answers, each step at the other
// one than the step before.
func (v *visitor) buy(product int, at []*instance) error {
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*patience)
	defer cancel()
	ask := func(n int) (status int, answer map[string]any, err error) {
		i := at[n%len(at)]
		if v.token == "" {
			return try(ctx, http.MethodGet, "", v.to(i, "/queue/position"), map[string]string{"X-Queue-Ticket": v.ticket}, "")
		}
		return try(ctx, http.MethodPost, "", i.public+"/orders", map[string]string{"Authorization": "Bearer " + v.token},
			fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
	}
	for n := 0; ctx.Err() == nil; n++ {
		status, answer, err := ask(n)
		switch {
		case err != nil: // killed
		case status == http.StatusServiceUnavailable && (answer["code"] == "queue_unavailable" || answer["code"] == "database_unavailable"): // starts again
		case v.token != "" && (status == http.StatusCreated || status == http.StatusOK):
			return nil
		case v.token == "" && status == http.StatusOK && answer["state"] == "admitted":
			v.token, _ = answer["token"].(string)
			continue
		case v.token == "" && status == http.StatusOK && answer["state"] == "waiting":
		default:
			return fmt.Errorf("%d %v", status, answer)
		}
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("still without an order: %w", ctx.Err())
}
