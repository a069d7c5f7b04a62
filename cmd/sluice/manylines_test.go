package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/servicetest"
)

const lineAPI = "/admin/api/lines/"

// A line that an operator creates serves visitors at once, sells what belongs to
// it, and outlives the process with what was said to it.
func TestCreatedLine(t *testing.T) {
	t.Parallel()
	data := "SLUICE_DATA=" + t.TempDir()
	before := serveEmbedded(t, data)
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		status, line := call(t, http.MethodPut, before.admin+lineAPI+"vip", nil, `{"weight":3,"message":"welcome"}`)
		if status != want || line["line"] != "vip" || line["weight"] != 3.0 || line["message"] != "welcome" {
			t.Fatalf("PUT: %d %v", status, line)
		}
	}
	status, answer := call(t, http.MethodPost, before.admin+"/admin/api/products", nil,
		`{"name":"Box seat","brand":"Hall","price":1000,"stock":5,"image_url":"https://example.com/box.png","line":"vip"}`)
	if status != http.StatusCreated {
		t.Fatalf("add a product: %d %v", status, answer)
	}
	product := int(answer["product_id"].(float64))
	guest, passer := &visitor{t: t, line: "vip"}, &visitor{t: t}
	guest.enter(before)
	passer.enter(before)
	guest.beAdmitted(before)
	passer.beAdmitted(before)
	if status, answer := passer.order(before, product); status != http.StatusForbidden || answer["code"] != "token_other_line" {
		t.Errorf("past the line: %d %v", status, answer)
	}
	if status, answer := guest.order(before, product); status != http.StatusCreated {
		t.Errorf("through the line: %d %v", status, answer)
	}
	guest.until("spent", before)
	_, want := call(t, http.MethodGet, before.admin+lineAPI+"vip", nil, "")
	if code := before.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, before.log)
	}

	after := serveEmbedded(t, data)
	_, got := call(t, http.MethodGet, after.admin+lineAPI+"vip", nil, "")
	for _, key := range []string{"weight", "message", "revision", "epoch"} {
		if got[key] != want[key] {
			t.Errorf("%s is %v after a restart, was %v", key, got[key], want[key])
		}
	}
	if status, answer := guest.order(after, product); status != http.StatusOK {
		t.Errorf("the order after a restart: %d %v", status, answer)
	}
}

// The embedded line ends with its process, so somebody may still hold a ticket of
// it: nobody goes in past them after a restart. Unless nobody waited.
func TestEmbeddedRestartHolds(t *testing.T) {
	t.Parallel()
	data := []string{"SLUICE_DATA=" + t.TempDir(), "SLUICE_LINES=quiet", "SLUICE_LINE_RECOVERY_HOLD=2s"}
	before := serveEmbedded(t, data...)
	pause(t, before)
	if status, answer := call(t, http.MethodPatch, before.admin+lineAPI+"quiet", nil, `{"message":"soon"}`); status != http.StatusOK {
		t.Fatalf("a message: %d %v", status, answer) // else nothing but a clean stop would be remembered of it
	}
	first, second := &visitor{t: t}, &visitor{t: t}
	first.enter(before)
	second.enter(before)
	if code := before.end(); code != exitOK {
		t.Fatalf("exit %d; log:\n%s", code, before.log)
	}

	after := serveEmbedded(t, data...)
	for line, want := range map[string]bool{"default": true, "quiet": false} {
		if _, figures := call(t, http.MethodGet, after.admin+lineAPI+line, nil, ""); figures["degraded"] != want {
			t.Errorf("%s is degraded: %v, want %v", line, figures["degraded"], want)
		}
	}
	if status, answer := call(t, http.MethodPatch, after.admin+lineAPI+"default", nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("resume: %d %v", status, answer)
	}
	newcomer := &visitor{t: t}
	newcomer.enter(after)
	if answer := second.position(after); answer["state"] != "waiting" || answer["reason"] != "degraded" {
		t.Errorf("the second one after the restart: %v", answer)
	}
	for i, v := range []*visitor{first, second, newcomer} {
		if answer := v.position(after); answer["position"] != float64(i+1) {
			t.Errorf("visitor %d after the restart: %v", i+1, answer)
		}
	}
	newcomer.until("admitted", after)
}

// What one instance is told is so at the other: a new line, and each setting of
// it, also taken back.
func TestLinesAndSettingsReachEveryInstance(t *testing.T) {
	t.Parallel()
	shared := sharedStores(t)
	a := serveEmbedded(t, append(shared, "SLUICE_LINES=second")...)
	b := serveEmbedded(t, shared...)
	if status, _ := call(t, http.MethodGet, b.admin+lineAPI+"second", nil, ""); status != http.StatusOK {
		t.Errorf("a line that the other instance is configured with: %d", status)
	}
	if status, answer := call(t, http.MethodPut, a.admin+lineAPI+"vip", nil, `{"paused":true}`); status != http.StatusCreated {
		t.Fatalf("PUT: %d %v", status, answer)
	}
	eventually(t, "the other instance serves the line", func() bool {
		status, _ := call(t, http.MethodGet, b.public+"/queue/status?line=vip", nil, "")
		return status == http.StatusOK
	})
	if status, _ := call(t, http.MethodPut, b.admin+lineAPI+"vip", nil, "{}"); status != http.StatusOK {
		t.Errorf("created again at the other instance: %d, want %d", status, http.StatusOK)
	}
	v := &visitor{t: t, line: "vip"}
	v.enter(b)

	for _, c := range []struct{ field, set, unset string }{
		{"paused", "false", "false"},
		{"message", `"back at noon"`, ""},
		{"mode", `"passthrough"`, "normal"},
		{"rate_override", "12.5", "<nil>"},
		{"max_active", "5", "0"},
		{"max_length", "7", "0"},
		{"sold_out", "true", "false"},
		{"weight", "9", "1"},
		{"poll_budget", "50.5", "<nil>"},
		{"closes_at", `"2199-01-02T03:04:05.678Z"`, "<nil>"},
		{"opens_at", `"2020-01-02T03:04:05.678Z"`, "<nil>"},
	} {
		for _, step := range []struct{ sent, want string }{{c.set, strings.Trim(c.set, `"`)}, {"null", c.unset}} {
			body := fmt.Sprintf(`{%q:%s}`, c.field, step.sent)
			if status, answer := call(t, http.MethodPatch, a.admin+lineAPI+"vip", nil, body); status != http.StatusOK || fmt.Sprint(answer[c.field]) != step.want {
				t.Errorf("%s: %d %v", body, status, answer)
			}
			eventually(t, body+" is so at the other instance", func() bool {
				_, answer := call(t, http.MethodGet, b.admin+lineAPI+"vip", nil, "")
				return fmt.Sprint(answer[c.field]) == step.want
			})
		}
	}
}

func wireTime(t testing.TB, field any) time.Time {
	t.Helper()
	text, _ := field.(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A Redis that has lost everything, under two instances and two lines: nobody goes
// in while those who wait come back, all lines say so, and then the order, the
// settings and the directory are as they were.
func TestRedisLosesEverything(t *testing.T) {
	t.Parallel()
	url := servicetest.OwnRedis(t).URL
	environ := []string{
		"SLUICE_REDIS=" + url, "SLUICE_DATABASE=" + servicetest.MySQL(t), "SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3),
		"SLUICE_LINE_RECOVERY_HOLD=2s",
	}
	a, b := serveEmbedded(t, environ...), serveEmbedded(t, environ...)
	if status, answer := call(t, http.MethodPut, a.admin+lineAPI+"vip", nil, `{"weight":3,"paused":true,"message":"soon"}`); status != http.StatusCreated {
		t.Fatalf("PUT: %d %v", status, answer)
	}
	pause(t, a)
	eventually(t, "the other instance serves the line", func() bool {
		_, line := call(t, http.MethodGet, b.admin+lineAPI+"vip", nil, "")
		return line["paused"] == true
	})
	crowd := make([]*visitor, 0, 20)
	for n := range cap(crowd) {
		v := &visitor{t: t, line: []string{"default", "vip"}[n%2]}
		v.enter([]*instance{a, b}[n/2%2])
		crowd = append(crowd, v)
	}
	if status, answer := call(t, http.MethodPatch, b.admin+lineAPI+"default", nil, `{"paused":false,"rate_override":5,"message":"go"}`); status != http.StatusOK {
		t.Fatalf("open: %d %v", status, answer)
	}
	crowd[0].until("admitted", a) // the sale runs

	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []*instance{a, b} {
		for _, line := range []string{"default", "vip"} {
			var figures map[string]any
			eventually(t, line+" says that it is degraded", func() bool {
				_, figures = call(t, http.MethodGet, i.admin+lineAPI+line, nil, "")
				return figures["degraded"] == true
			})
			// Nobody was told more than 1.2 s here, and the hold is two more.
			if left := wireTime(t, figures["hold_until"]).Sub(wireTime(t, figures["server_time"])); left > 3500*time.Millisecond {
				t.Errorf("%s is held for another %s", line, left)
			}
		}
	}
	// Those who poll are back in order, from the last one on to the first. Nobody goes in
	// while that is looked at.
	first := map[string]float64{}
	for n := len(crowd) - 1; n > 0; n-- {
		if answer := crowd[n].position(b); answer["state"] != "waiting" && answer["state"] != "admitted" {
			t.Errorf("visitor %d is %v", n, answer)
		}
	}
	pause(t, a)
	for n, v := range crowd {
		answer := v.position(a)
		if answer["state"] != "waiting" {
			continue
		}
		if position := answer["position"].(float64); position <= first[v.line] {
			t.Errorf("visitor %d stands at %v, behind %v", n, position, first[v.line])
		} else {
			first[v.line] = position
		}
	}
	if listed, err := client.SMembers(t.Context(), "sluice:lines").Result(); err != nil || len(listed) != 2 {
		eventually(t, "the directory is back", func() bool {
			return client.SCard(t.Context(), "sluice:lines").Val() == 2
		})
	}
	if _, line := call(t, http.MethodGet, b.admin+lineAPI+"vip", nil, ""); line["weight"] != 3.0 || line["paused"] != true || line["message"] != "soon" {
		t.Errorf("the settings after the loss: %v", line)
	}
	if status, answer := call(t, http.MethodPatch, b.admin+lineAPI+"default", nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("open again: %d %v", status, answer)
	}
	for n := 2; n < len(crowd); n += 2 {
		crowd[n].until("admitted", a, b)
	}
	eventually(t, "nothing is degraded any more", func() bool {
		_, line := call(t, http.MethodGet, a.admin+lineAPI+"vip", nil, "")
		return line["degraded"] == false && line["waiting"] == 10.0
	})
}
