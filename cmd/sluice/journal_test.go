package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/servicetest"
)

// journalOf is the journal as an instance tells it, newest first, each entry as
// "who what detail"; nil where it tells none.
func journalOf(t *testing.T, i *instance, token string) []string {
	t.Helper()
	status, answer := call(t, http.MethodGet, i.admin+"/admin/api/journal", bearing(token), "")
	if status != http.StatusOK {
		return nil
	}
	out := []string{}
	for _, e := range answer["entries"].([]any) {
		entry := e.(map[string]any)
		out = append(out, fmt.Sprintf("%v %v %v", entry["who"], entry["what"], entry["detail"]))
	}
	return out
}

func bearing(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// What an operator does at one instance, whatever its role, is in the journal of all of
// them, under the operator's name; what is done while Redis is away is done, and comes
// into the journal when Redis is back.
func TestJournalIsShared(t *testing.T) {
	t.Parallel()
	const alice, bob = "the-token-of-alice", "the-token-of-bob.."
	redis := servicetest.OwnRedis(t)
	environ := []string{
		"SLUICE_REDIS=" + redis.URL, "SLUICE_SECRET=" + strings.Repeat("k", 32), "SLUICE_ADMIN_TOKEN=alice=" + alice + ",bob=" + bob,
	}
	a := serveEmbedded(t, append(slices.Clone(environ), "SLUICE_ROLE=queue")...)
	b := serveEmbedded(t, append(slices.Clone(environ), "SLUICE_ROLE=queue")...)
	c := serveEmbedded(t, append(slices.Clone(environ), "SLUICE_ROLE=orders")...)
	change := func(at *instance, method, path, token, body string) {
		t.Helper()
		if status, answer := call(t, method, at.admin+path, bearing(token), body); status >= 300 {
			t.Fatalf("%s: %d %v", path, status, answer)
		}
	}
	const line = "/admin/api/lines/default"
	change(a, http.MethodPatch, line, alice, `{"rate_override":120}`)
	change(c, http.MethodPost, "/admin/api/products", bob, `{"name":"Mug","price":1200,"stock":5}`)
	for _, i := range []*instance{a, b, c} {
		got := journalOf(t, i, bob)
		if len(got) != 2 || !strings.HasPrefix(got[0], "bob add_product ") || got[1] != "alice rate_override rate_override: null → 120" {
			t.Errorf("the journal of an instance: %q", got)
		}
	}

	redis.Stop()
	eventually(t, "the store is away", func() bool {
		_, answer := call(t, http.MethodGet, a.admin+line, bearing(alice), "")
		return answer["store"] == "away"
	})
	change(a, http.MethodPatch, line, alice, `{"weight":7}`)
	change(a, http.MethodPatch, line, alice, `{"weight":8}`)
	if got := journalOf(t, a, alice); got != nil {
		t.Errorf("a journal without its store: %q", got)
	}
	a.log.await(t, "weight: 7 → 8")
	redis.Start()
	want := []string{"alice weight weight: 7 → 8", "alice weight weight: 1 → 7"} // a Redis that was emptied has forgotten the others
	eventually(t, "both are there", func() bool { return slices.Equal(journalOf(t, b, bob), want) })
}
