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
	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
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
	_, line := call(t, http.MethodGet, at.admin+"/admin/api/lines/default", nil, "")
	in := line["admitted"].(float64)
	t.Logf("%v were let in during an outage of %d s at first %d/s; limited by %v", in, away, rate, line["limited_by"])
	if in > rate*away/2 {
		t.Errorf("%v were let in to a database that was away", in)
	}
	db.Start()
	crowd.Wait()
	if _, sum := call(t, http.MethodGet, at.admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != float64(visitors) {
		t.Errorf("summary: %v", sum)
	}
}

// buyOnce polls, or orders once it may, and reports whether it has its order.
func (v *visitor) buyOnce(ctx context.Context, at *instance, product int) bool {
	if v.token == "" {
		status, answer, err := try(ctx, http.MethodGet, "", v.to(at, "/queue/position"), map[string]string{"X-Queue-Ticket": v.ticket}, "")
		if ctx.Err() == nil && (err != nil || status != http.StatusOK) {
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
