package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/servicetest"
)

// A process that stops takes its capacity out when it begins to drain: whoever is
// let in from then on could not order there any more.
func TestDrainWithdrawsTheCapacity(t *testing.T) {
	t.Parallel()
	environ := []string{
		"SLUICE_REDIS=" + servicetest.OwnRedis(t).URL, "SLUICE_DATABASE=" + servicetest.MySQL(t),
		"SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3),
	}
	stays := serveEmbedded(t, environ...)
	goes, process := startProcess(t, append(environ, "SLUICE_LINE_INITIAL_RATE=200", "SLUICE_DRAIN_DELAY=10m")...)
	capacity := func() any {
		_, line := call(t, http.MethodGet, stays.admin+lineAPI+"default", nil, "")
		return line["capacity"]
	}
	eventually(t, "both count", func() bool { return capacity() == 400.0 })
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one counts", func() bool { return capacity() == 200.0 })
	if status, _ := call(t, http.MethodGet, goes.admin+"/healthz", nil, ""); status != http.StatusOK {
		t.Errorf("healthz: %d; the capacity went with the process and not with the drain", status)
	}
}

// stops is how often the process under load is asked to stop.
const stops = 4

// stopping asks the process to stop, and starts it again, at random moments.
func (r *rush) stopping() {
	r.Helper()
	for range stops {
		time.Sleep(500 * time.Millisecond)
		if code := terminate(r.T, r.process); code != exitOK {
			r.Errorf("exit %d; log:\n%s", code, r.at.log)
		}
		r.start()
	}
}

// Orders of whole seconds, more than there are workers, when the process is asked to
// stop: those under way are made and answered, the others are refused with nothing done
// and good for the next process, and what is there is what was acknowledged.
func TestStopAnswersEverybody(t *testing.T) {
	t.Parallel()
	const workers, ordering = 2, 12
	r := newRush(t, fmt.Sprintf("SLUICE_ORDERS_WORKERS=%d", workers), "SLUICE_ORDERS_TEST_DELAY=3s", "SLUICE_ORDERS_DEADLINE=30s")
	product := addProduct(t, r.at, ordering)
	type answered struct {
		v      *visitor
		status int
		answer map[string]any
	}
	answers := make(chan answered, ordering)
	for range ordering {
		token, err := r.token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := &visitor{t: t, token: token}
		time.Sleep(10 * time.Millisecond) // real: a token is usable in a moment
		go func() {
			status, answer, err := try(t.Context(), http.MethodPost, "", r.at.public+"/orders", map[string]string{"Authorization": "Bearer " + token},
				fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
			if err != nil {
				answer = map[string]any{"error": err}
			}
			answers <- answered{v, status, answer}
		}()
	}
	eventually(t, "the workers are busy and orders wait", func() bool {
		_, line := call(t, http.MethodGet, r.at.admin+lineAPI+"default", nil, "")
		pool, _ := line["orders"].(map[string]any)
		return pool["busy"] == float64(workers) && pool["backlog"] != 0.0
	})
	if code := terminate(t, r.process); code != exitOK {
		t.Errorf("exit %d; log:\n%s", code, r.at.log)
	}
	made := 0
	var refused []*visitor
	for range ordering {
		switch a := <-answers; {
		case a.status == http.StatusCreated:
			made++
		case a.status == http.StatusServiceUnavailable && a.answer["code"] == "shutting_down":
			refused = append(refused, a.v)
		default:
			t.Errorf("%d %v", a.status, a.answer)
		}
	}
	t.Logf("%d made, %d refused", made, len(refused))
	if made < workers || len(refused) == 0 {
		t.Error("nothing was shown")
	}
	if n := r.count("SELECT COUNT(*) FROM orders"); n != made {
		t.Errorf("%d orders are there, %d were acknowledged", n, made)
	}
	r.environ = append(r.environ, "SLUICE_ORDERS_TEST_DELAY=0s")
	r.start()
	for _, v := range refused {
		if status, answer := v.order(r.at, product); status != http.StatusCreated {
			t.Errorf("a refused order at the next process: %d %v", status, answer)
		}
	}
}

// Somebody is tired of waiting for an order: the second signal ends the process at once,
// and not as one that went well.
func TestSecondSignalQuits(t *testing.T) {
	t.Parallel()
	r := newRush(t, "SLUICE_ORDERS_TEST_DELAY=1m", "SLUICE_DRAIN_TIMEOUT=10m")
	product := addProduct(t, r.at, 1)
	token, err := r.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := try(t.Context(), http.MethodPost, "", r.at.public+"/orders", map[string]string{"Authorization": "Bearer " + token},
			fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
		ended <- err
	}()
	eventually(t, "the order is under way", func() bool {
		_, line := call(t, http.MethodGet, r.at.admin+lineAPI+"default", nil, "")
		pool, _ := line["orders"].(map[string]any)
		return pool["busy"] == 1.0
	})
	if err := r.process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.at.log.await(t, "a second signal quits at once")
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = r.process.Wait()
	if code := r.process.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if err := <-ended; err == nil {
		t.Error("the order was answered")
	}
}
