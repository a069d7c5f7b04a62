package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/servicetest"
)

// While the database is away nobody is served, and those who are let in come again and
// again: after the first of them the line waits, and goes on when they are served.
func TestOutageLetsFewIn(t *testing.T) {
	t.Parallel()
	const visitors, rate, away = 300, 10, 20
	db := servicetest.OwnMariaDB(t)
	at := serveEmbedded(t, "SLUICE_REDIS="+servicetest.OwnRedis(t).URL, "SLUICE_DATABASE="+db.URL,
		"SLUICE_SECRET="+strings.Repeat("shared-secret-", 3), "SLUICE_LINE_INITIAL_RATE=10")
	product := addProduct(t, at, visitors)
	pause(t, at)
	ctx, end := context.WithTimeout(t.Context(), 5*patience)
	defer end()
	var crowd sync.WaitGroup
	for range visitors {
		v := &visitor{t: t}
		v.enter(at)
		crowd.Go(func() {
			for ctx.Err() == nil && !v.buyOnce(ctx, at, product) {
				time.Sleep(time.Second)
			}
		})
	}
	db.Stop()
	if status, answer := call(t, http.MethodPatch, at.admin+"/admin/api/lines/default", nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("open: %d %v", status, answer)
	}
	time.Sleep(away * time.Second)
	admitted := func() (n float64, limitedBy any) {
		_, line := call(t, http.MethodGet, at.admin+"/admin/api/lines/default", nil, "")
		return line["admitted"].(float64), line["limited_by"]
	}
	in, limitedBy := admitted()
	t.Logf("%v were let in during an outage of %d s at first %d/s; limited by %v", in, away, rate, limitedBy)
	if in > rate*away/2 {
		t.Errorf("%v were let in to a database that was away", in)
	}
	db.Start()
	eventually(t, "the line goes on", func() bool { n, _ := admitted(); return n > in })
	// How fast it becomes faster is tested elsewhere.
	call(t, http.MethodPatch, at.admin+"/admin/api/lines/default", nil, `{"rate_override":100}`)
	crowd.Wait()
	if _, sum := call(t, http.MethodGet, at.admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != float64(visitors) {
		t.Errorf("summary: %v", sum)
	}
}

// buyOnce polls, or orders once it may, and reports whether it has its order.
func (v *visitor) buyOnce(ctx context.Context, at *instance, product int) bool {
	if v.token == "" {
		status, answer, err := try(ctx, http.MethodGet, "", v.to(at, "/queue/position"), map[string]string{"X-Queue-Ticket": v.ticket}, "")
		// A machine with much to do may let Redis wait for longer than it is waited for.
		comeAgain := status == http.StatusServiceUnavailable && answer["code"] == "queue_unavailable"
		if ctx.Err() == nil && (err != nil || status != http.StatusOK && !comeAgain) {
			v.t.Errorf("poll: %d %v, %v", status, answer, err)
		}
		v.token, _ = answer["token"].(string)
		return false
	}
	status, answer := v.order(at, product)
	if status != http.StatusCreated && status != http.StatusOK && status != http.StatusServiceUnavailable {
		v.t.Errorf("order: %d %v", status, answer)
	}
	return answer["order_id"] != nil
}
