package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Each setting is seen to do what it says: a key that is read, checked, printed
// and then wired to nothing would pass every other test.
func TestSettingsAreWired(t *testing.T) {
	t.Parallel()
	t.Run("admin.token and admin.hosts", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_ADMIN_TOKEN=a-token-for-operators", "SLUICE_ADMIN_HOSTS=ops.example")
		lines := shop.admin + "/admin/api/lines"
		bearer := map[string]string{"Authorization": "Bearer a-token-for-operators"}
		if status, answer := call(t, http.MethodGet, lines, nil, ""); status != http.StatusUnauthorized {
			t.Errorf("without the token: %d %v", status, answer)
		}
		if status, answer := call(t, http.MethodGet, lines, bearer, ""); status != http.StatusOK {
			t.Errorf("with the token: %d %v", status, answer)
		}
		for host, want := range map[string]int{"ops.example": http.StatusOK, "elsewhere.example": http.StatusForbidden} {
			if status, answer := callAs(t, host, lines, bearer); status != want {
				t.Errorf("as %s: %d %v, want %d", host, status, answer, want)
			}
		}
	})
	t.Run("line.max_length and line.poll_budget", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_LINE_MAX_LENGTH=1", "SLUICE_LINE_POLL_BUDGET=0.1")
		pause(t, shop)
		v := &visitor{t: t}
		if answer := v.enter(shop); answer["poll_after_ms"].(float64) < 5000 {
			t.Errorf("a tenth of a poll per second, and the next is in %v ms", answer["poll_after_ms"])
		}
		if status, answer := call(t, http.MethodPost, shop.public+"/queue/enter", nil, ""); answer["code"] != "queue_full" {
			t.Errorf("a second of one: %d %v", status, answer)
		}
	})
	t.Run("line.max_active and line.admission_ttl", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_LINE_MAX_ACTIVE=1", "SLUICE_LINE_ADMISSION_TTL=1s")
		first, second := &visitor{t: t}, &visitor{t: t}
		first.enter(shop)
		second.enter(shop)
		first.until("admitted", shop)
		second.until("admitted", shop) // when the first one's time is over
		if answer := first.position(shop); answer["state"] != "expired" {
			t.Errorf("two of one inside: %v", answer)
		}
	})
	t.Run("line.ticket_ttl", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_LINE_TICKET_TTL=7m")
		v := &visitor{t: t}
		v.enter(shop)
		claims, err := base64.RawURLEncoding.DecodeString(strings.Split(v.ticket, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var times struct{ Iat, Exp int64 }
		if err := json.Unmarshal(claims, &times); err != nil || times.Exp-times.Iat != 7*60 {
			t.Errorf("the ticket says %s, %v", claims, err)
		}
	})
	t.Run("line.initial_rate and orders.wait_target", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_LINE_INITIAL_RATE=77", "SLUICE_ORDERS_WAIT_TARGET=321ms")
		eventually(t, "the process reports both", func() bool {
			_, line := call(t, http.MethodGet, shop.admin+"/admin/api/lines/default", nil, "")
			processes, _ := line["processes"].([]any)
			if len(processes) != 1 {
				return false
			}
			report, _ := processes[0].(map[string]any)
			return report["capacity"] == 77.0 && report["wait_target_ms"] == 321.0
		})
	})
	t.Run("orders.workers, orders.backlog and orders.deadline", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_ORDERS_WORKERS=1", "SLUICE_ORDERS_BACKLOG=1", "SLUICE_ORDERS_DEADLINE=100ms",
			"SLUICE_ORDERS_TEST_DELAY=1s")
		answers := make(chan int, 3)
		buyers := make([]*visitor, cap(answers))
		for i := range buyers {
			buyers[i] = &visitor{t: t}
			buyers[i].enter(shop)
			buyers[i].beAdmitted(shop)
		}
		for _, v := range buyers {
			go func() {
				status, _ := v.order(shop, 1)
				answers <- status
			}()
		}
		got := map[int]int{}
		for range cap(answers) {
			got[<-answers]++
		}
		// One is worked on; one waits too long and one finds the backlog full.
		if got[http.StatusCreated] != 1 || got[http.StatusServiceUnavailable] != 2 {
			t.Errorf("answers by status: %v", got)
		}
	})
	t.Run("orders.pay_within and orders.followup_ttl", func(t *testing.T) {
		t.Parallel()
		shop := serveEmbedded(t, "SLUICE_ORDERS_PAY_WITHIN=1s", "SLUICE_ORDERS_FOLLOWUP_TTL=1s", "SLUICE_LINE_ADMISSION_TTL=2s")
		v := &visitor{t: t}
		v.enter(shop)
		v.beAdmitted(shop)
		status, order := v.order(shop, 1)
		if status != http.StatusCreated {
			t.Fatalf("order: %d %v", status, order)
		}
		stock := func() float64 {
			_, product := call(t, http.MethodGet, shop.public+"/products/1", nil, "")
			return product["stock"].(float64)
		}
		eventually(t, "the stock is lowered", func() bool { return stock() == float64(demoProducts[0].Stock-1) })
		eventually(t, "the unpaid order gives its stock back", func() bool { return stock() == float64(demoProducts[0].Stock) })
		eventually(t, "the token is over", func() bool {
			_, answer := call(t, http.MethodGet, fmt.Sprint(shop.public, "/orders/", order["order_id"]),
				map[string]string{"Authorization": "Bearer " + v.token}, "")
			return answer["code"] == "token_expired"
		})
	})
}

func pause(t *testing.T, shop *instance) {
	t.Helper()
	if status, answer := call(t, http.MethodPatch, shop.admin+"/admin/api/lines/default", nil, `{"paused":true}`); status != http.StatusOK {
		t.Fatalf("pause: %d %v", status, answer)
	}
}

// eventually polls for what only time brings about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}
