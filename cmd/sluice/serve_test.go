package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/servicetest"
)

// One visitor's whole path on the embedded default.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	shop := serveEmbedded(t)

	status, products := call(t, http.MethodGet, shop.public+"/products", nil, "")
	if status != http.StatusOK || !strings.Contains(fmt.Sprint(products), demoProducts[0].Name) {
		t.Fatalf("products: %d %v", status, products)
	}
	for _, p := range demoProducts {
		if status, _ := call(t, http.MethodGet, shop.public+p.ImageURL, nil, ""); status != http.StatusOK {
			t.Errorf("%s: %d", p.ImageURL, status)
		}
	}
	for _, u := range []string{shop.public + "/", shop.public + "/wait", shop.admin + "/admin", shop.admin + "/healthz", shop.admin + "/readyz", shop.admin + "/metrics"} {
		if status, _ := call(t, http.MethodGet, u, nil, ""); status != http.StatusOK {
			t.Errorf("%s: %d", u, status)
		}
	}

	v := &visitor{t: t}
	if answer := v.enter(shop); answer["state"] != "waiting" || answer["position"] != 1.0 {
		t.Errorf("entered as %v", answer)
	}
	v.beAdmitted(shop)
	status, first := v.order(shop, 1)
	if status != http.StatusCreated || first["state"] != "pending" || first["total"] != float64(demoProducts[0].Price) {
		t.Fatalf("order: %d %v", status, first)
	}
	if status, again := v.order(shop, 1); status != http.StatusOK || again["order_id"] != first["order_id"] {
		t.Errorf("the same order again: %d %v", status, again)
	}
	if status, other := v.order(shop, 2); status != http.StatusConflict || other["code"] != "token_spent" {
		t.Errorf("another order with the same token: %d %v", status, other)
	}
	v.until("spent", shop)
	if _, sum := call(t, http.MethodGet, shop.admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != 1.0 || sum["items_sold"] != 1.0 {
		t.Errorf("summary: %v", sum)
	}
	if strings.Contains(shop.log.String(), v.token) || strings.Contains(shop.log.String(), v.ticket) {
		t.Error("a ticket or token is in the log")
	}
}

// What was sold and who signs outlives the process; the demo shop is not
// filled twice.
func TestEmbeddedRestart(t *testing.T) {
	t.Parallel()
	data := "SLUICE_DATA=" + t.TempDir()
	before := serveEmbedded(t, data)
	v := &visitor{t: t}
	v.enter(before)
	v.beAdmitted(before)
	_, first := v.order(before, 1)
	if code := before.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, before.log)
	}

	after := serveEmbedded(t, data)
	if status, again := v.order(after, 1); status != http.StatusOK || again["order_id"] != first["order_id"] {
		t.Errorf("the order after a restart: %d %v", status, again)
	}
	if status, _ := call(t, http.MethodGet, fmt.Sprintf("%s/products/%d", after.public, len(demoProducts)+1), nil, ""); status != http.StatusNotFound {
		t.Errorf("one product more after the restart: %d", status)
	}
}

// What an operator decided outlives the process that holds the line: a pause is
// still one, and a ticket of the sale before stays dead. Until an operator has
// spoken the configuration's word counts, also a changed one.
func TestEmbeddedRestartRemembersTheLine(t *testing.T) {
	t.Parallel()
	const line = "/admin/api/lines/default"
	data := "SLUICE_DATA=" + t.TempDir()
	untouched := serveEmbedded(t, data, "SLUICE_LINE_MAX_LENGTH=7")
	if code := untouched.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, untouched.log)
	}

	before := serveEmbedded(t, data, "SLUICE_LINE_MAX_LENGTH=8")
	if _, figures := call(t, http.MethodGet, before.admin+line, nil, ""); figures["max_length"] != 8.0 {
		t.Errorf("the line is born with %v, not with the configuration's", figures["max_length"])
	}
	v := &visitor{t: t}
	if status, answer := call(t, http.MethodPatch, before.admin+line, nil, `{"paused":true,"message":"back at noon"}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
	v.enter(before)
	if status, answer := call(t, http.MethodPost, before.admin+line+"/restart", nil, "{}"); status != http.StatusOK {
		t.Fatalf("restart: %d %v", status, answer)
	}
	_, want := call(t, http.MethodGet, before.admin+line, nil, "")
	if code := before.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, before.log)
	}

	after := serveEmbedded(t, data, "SLUICE_LINE_MAX_LENGTH=9")
	_, got := call(t, http.MethodGet, after.admin+line, nil, "")
	for _, key := range []string{"paused", "message", "max_length", "revision", "epoch"} {
		if got[key] != want[key] {
			t.Errorf("%s is %v after a restart, was %v", key, got[key], want[key])
		}
	}
	status, answer := call(t, http.MethodGet, after.public+"/queue/position", map[string]string{"X-Queue-Ticket": v.ticket}, "")
	if status != http.StatusUnauthorized || answer["code"] != "ticket_expired" {
		t.Errorf("the ticket of the sale before: %d %v", status, answer)
	}
}

// What was said to a line elsewhere must not reach the line of the sale: neither
// of the embedded line, from trying things out, nor of another Redis.
func TestRememberedLineIsOfItsStore(t *testing.T) {
	t.Parallel()
	const line = "/admin/api/lines/default"
	shared, elsewhere := sharedStores(t), sharedStores(t)
	sale := serveEmbedded(t, shared...)
	if status, answer := call(t, http.MethodPatch, sale.admin+line, nil, `{"paused":true,"max_active":500}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
	v := &visitor{t: t}
	v.enter(sale)
	_, want := call(t, http.MethodGet, sale.admin+line, nil, "")

	folder := "SLUICE_DATA=" + t.TempDir()
	for name, environ := range map[string][]string{"embedded": nil, "another Redis": elsewhere} {
		other := serveEmbedded(t, append(environ, folder)...)
		for path, change := range map[string]string{line: `{"message":"not for the sale"}`, line + "/restart": "{}"} {
			method := map[bool]string{true: http.MethodPatch, false: http.MethodPost}[path == line]
			if status, answer := call(t, method, other.admin+path, nil, change); status != http.StatusOK {
				t.Fatalf("%s: %s: %d %v", name, path, status, answer)
			}
		}
		if code := other.end(); code != exitOK {
			t.Fatalf("exit %d", code)
		}
	}
	joined := serveEmbedded(t, append(shared, folder)...)
	_, got := call(t, http.MethodGet, joined.admin+line, nil, "")
	for _, key := range []string{"paused", "message", "max_active", "revision", "epoch"} {
		if got[key] != want[key] {
			t.Errorf("%s is %v, was %v before somebody joined", key, got[key], want[key])
		}
	}
	if answer := v.position(joined); answer["position"] != 1.0 {
		t.Errorf("the visitor stands at %v", answer)
	}
}

// An operator's changes over the running service.
func TestOperator(t *testing.T) {
	t.Parallel()
	shop := serveEmbedded(t)
	line := shop.admin + "/admin/api/lines/default"
	if status, answer := call(t, http.MethodPatch, line, nil, `{"paused":true,"message":"back at noon"}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
	v := &visitor{t: t}
	v.enter(shop)
	time.Sleep(500 * time.Millisecond) // five ticks in which nobody may go in
	if answer := v.position(shop); answer["state"] != "waiting" || answer["reason"] != "paused" || answer["message"] != "back at noon" {
		t.Errorf("while paused: %v", answer)
	}
	if status, answer := call(t, http.MethodPatch, line, nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("resume: %d %v", status, answer)
	}
	v.beAdmitted(shop)
}

// A stop answers the order that is under way, and counts it, before it ends.
func TestStopFinishesOrders(t *testing.T) {
	t.Parallel()
	data := "SLUICE_DATA=" + t.TempDir()
	before := serveEmbedded(t, data, "SLUICE_ORDERS_TEST_DELAY=1s")
	v := &visitor{t: t}
	v.enter(before)
	v.beAdmitted(before)

	answered := make(chan int, 1)
	go func() {
		status, _ := v.order(before, 1)
		answered <- status
	}()
	deadline := time.Now().Add(patience)
	for busy := false; !busy; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the order does not begin")
		}
		_, line := call(t, http.MethodGet, before.admin+"/admin/api/lines/default", nil, "")
		pool, _ := line["orders"].(map[string]any)
		busy = pool["busy"] == 1.0
	}
	code := before.end()
	if status := <-answered; status != http.StatusCreated || code != exitOK {
		t.Errorf("the order under way got %d, exit %d", status, code)
	}

	after := serveEmbedded(t, data)
	if _, sum := call(t, http.MethodGet, after.admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != 1.0 {
		t.Errorf("after the restart: %v", sum)
	}
}

// Two instances share a line on Redis and a database; every step of every
// visitor goes to the other one than the step before.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	shared := sharedStores(t)
	a, b := serveEmbedded(t, shared...), serveEmbedded(t, shared...)
	product := addProduct(t, a, 100)

	const visitors = 40
	var wg sync.WaitGroup
	for n := range visitors {
		wg.Go(func() {
			one, other := a, b
			if n%2 == 1 {
				one, other = b, a
			}
			v := &visitor{t: t}
			v.enter(one)
			v.beAdmitted(other, one)
			status, first := v.order(other, product)
			if status != http.StatusCreated {
				t.Errorf("order: %d %v", status, first)
				return
			}
			if status, again := v.order(one, product); status != http.StatusOK || again["order_id"] != first["order_id"] {
				t.Errorf("the same order at the other instance: %d %v", status, again)
			}
			v.until("spent", other, one)
		})
	}
	wg.Wait()
	for _, i := range []*instance{a, b} {
		if _, sum := call(t, http.MethodGet, i.admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != float64(visitors) || sum["items_sold"] != float64(visitors) {
			t.Errorf("summary: %v", sum)
		}
	}
}

// What an operator says to one instance is shown and obeyed by the other.
func TestOperatorReachesEveryInstance(t *testing.T) {
	t.Parallel()
	shared := sharedStores(t)
	a := serveEmbedded(t, shared...)
	b := serveEmbedded(t, append(shared, "SLUICE_LINE_INITIAL_RATE=10")...) // a twentieth of what the other can do
	const line = "/admin/api/lines/default"
	if status, answer := call(t, http.MethodPatch, a.admin+line, nil, `{"paused":true,"message":"back at noon"}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
	v := &visitor{t: t}
	v.enter(b)
	eventually(t, "the other instance says that the line is paused, and why", func() bool {
		answer := v.position(b)
		return answer["reason"] == "paused" && answer["message"] == "back at noon"
	})
	// Both tick, and whoever is first in a tick stays it: b's turn comes when a
	// has gone, and its capacity with it.
	if code := a.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, a.log)
	}
	eventually(t, "the other instance gives batches, and lets nobody in", func() bool {
		_, figures := call(t, http.MethodGet, b.admin+line, nil, "")
		rate := figures["rate"].(float64)
		return rate > 0 && rate < 100 && figures["limited_by"] == "paused" && figures["admitted"] == 0.0
	})
	if answer := v.position(b); answer["state"] != "waiting" {
		t.Errorf("let in while paused: %v", answer)
	}
	if status, answer := call(t, http.MethodPatch, b.admin+line, nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("resume: %d %v", status, answer)
	}
	v.beAdmitted(b)
}

// The halves as processes of their own, which meet only in Redis.
func TestRoles(t *testing.T) {
	t.Parallel()
	shared := sharedStores(t)
	queueHalf := serveEmbedded(t, append(shared, "SLUICE_ROLE=queue")...)
	ordersHalf := serveEmbedded(t, append(shared, "SLUICE_ROLE=orders")...)
	product := addProduct(t, ordersHalf, 1)

	v := &visitor{t: t}
	v.enter(queueHalf)
	v.beAdmitted(queueHalf)
	if status, answer := v.order(queueHalf, product); status != http.StatusNotFound {
		t.Errorf("an order at the queue half: %d %v", status, answer)
	}
	if status, answer := v.order(ordersHalf, product); status != http.StatusCreated {
		t.Errorf("an order at the order half: %d %v", status, answer)
	}
	v.until("spent", queueHalf)
	if status, answer := call(t, http.MethodPost, ordersHalf.public+"/queue/enter", nil, "{}"); status != http.StatusNotFound {
		t.Errorf("enter at the order half: %d %v", status, answer)
	}
}

func addProduct(t *testing.T, at *instance, stock int) (id int) {
	t.Helper()
	status, answer := call(t, http.MethodPost, at.admin+"/admin/api/products", nil,
		fmt.Sprintf(`{"name":"Kettle","brand":"Hob","price":1000,"stock":%d,"image_url":"https://example.com/kettle.png"}`, stock))
	n, ok := answer["product_id"].(float64)
	if status != http.StatusCreated || !ok {
		t.Fatalf("add a product: %d %v", status, answer)
	}
	return int(n)
}

// sharedStores is the environment of instances that share stores of the
// test's own.
func sharedStores(t *testing.T) []string {
	t.Helper()
	return []string{
		"SLUICE_REDIS=" + ownRedis(t),
		"SLUICE_DATABASE=" + servicetest.MySQL(t),
		"SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3),
	}
}

// ownRedis claims one of the server's numbered databases: the service always
// has the line "default", so tests at the same time need one each. It waits for
// one: a claim that a killed test left behind ends by itself.
func ownRedis(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(servicetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * claimFor); time.Now().Before(deadline); time.Sleep(time.Second) {
		for db := 1; db <= 12; db++ {
			u.Path = fmt.Sprintf("/%d", db)
			if claim(t, u.String()) {
				return u.String()
			}
		}
	}
	t.Fatal("none of Redis' databases 1 to 12 is free: all are claimed by tests, or hold a line (keys sluice:*)")
	return ""
}

// claimFor is longer than any test here takes.
const claimFor = 2 * time.Minute

func claim(t *testing.T, url string) bool {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context()) // also for the clean-up
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	claimed, err := client.SetNX(ctx, "sluice-test:claim", t.Name(), claimFor).Result()
	if err != nil {
		t.Fatal(err)
	}
	if !claimed {
		return false
	}
	// Somebody may serve from here, or a killed test left its line: not ours to
	// delete.
	if lines, err := client.Keys(ctx, "sluice:*").Result(); err != nil || len(lines) > 0 {
		client.Del(ctx, "sluice-test:claim")
		return false
	}
	t.Cleanup(func() {
		forget(ctx, t, client)
		client.Del(ctx, "sluice-test:claim")
	})
	return true
}

// forget deletes the lines in the claimed database, which are the test's.
func forget(ctx context.Context, t *testing.T, client *redis.Client) {
	t.Helper()
	keys, err := client.Keys(ctx, "sluice:*").Result()
	if err != nil {
		t.Error(err)
	}
	if len(keys) > 0 {
		client.Del(ctx, keys...)
	}
}
