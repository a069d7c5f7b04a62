package web

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/journal"
)

// entries are what the journal of a fixture tells, newest first, each as
// "who line what detail".
func (f *fixture) entries() []string {
	f.t.Helper()
	var told struct{ Entries []entryJSON }
	f.admin("GET", "/admin/api/journal", "").want(200).into(&told)
	out := make([]string, len(told.Entries))
	for i, e := range told.Entries {
		line := "-"
		if e.Line != nil {
			line = *e.Line
		}
		out[i] = fmt.Sprintf("%s %s %s %s", e.Who, line, e.What, e.Detail)
	}
	return out
}

// Every change writes one entry, with what was and what is; what was refused, or only
// read, writes none.
func TestEveryChangeIsInTheJournal(t *testing.T) {
	delayed := withOrders()
	delayed.TestDelay = 5 * time.Millisecond
	inBubble(t, setup{orders: delayed}, func(t *testing.T, f *fixture) {
		f.admin("GET", "/admin/api/journal", "").want(200).golden("journal_empty")
		changes := []struct{ method, path, body, entry string }{
			{"PATCH", "/lines/default", `{"paused":true}`, "local default pause paused: false → true"},
			{"PATCH", "/lines/default", `{"paused":null}`, "local default resume paused: true → false"},
			{"PATCH", "/lines/side", `{"paused":true,"message":"Back soon"}`, `local side pause paused: false → true; message: "" → "Back soon"`},
			{"PATCH", "/lines/side", `{"paused":false,"message":null}`, `local side resume paused: true → false; message: "Back soon" → ""`},
			{"PATCH", "/lines/default", `{"rate_override":120}`, "local default rate_override rate_override: null → 120"},
			{"PATCH", "/lines/default", `{"rate_override":0.5}`, "local default rate_override rate_override: 120 → 0.5"},
			{"PATCH", "/lines/default", `{"rate_override":null}`, "local default rate_override rate_override: 0.5 → null"},
			{"PATCH", "/lines/default", `{"message":"Back \"soon\"\n"}`, `local default message message: "" → "Back \"soon\"\n"`},
			{"PATCH", "/lines/default", `{"mode":"passthrough"}`, "local default mode mode: normal → passthrough"},
			{"PATCH", "/lines/default", `{"mode":null,"max_active":7}`, "local default settings mode: passthrough → normal; max_active: 0 → 7"},
			{"PATCH", "/lines/side", `{"opens_at":"2030-01-02T03:04:05Z"}`, "local side opens_at opens_at: null → 2030-01-02T03:04:05.000Z"},
			{"PUT", "/lines/default", `{"weight":3}`, "local default weight weight: 1 → 3"},
			{"PUT", "/lines/vip", `{"weight":2,"sold_out":true}`, "local vip create_line sold_out: true; weight: 2"},
			{"PUT", "/lines/plain", ``, "local plain create_line "},
			{"POST", "/lines/side/restart", `{}`, "local side restart epoch: 0 → "},
			{"POST", "/products", `{"name":"Mug, price 1,\n\u202e","price":1200,"stock":5,"line":"side"}`, `local side add_product 1: "Mug, price 1,\n\u202e", price 1200, stock 5`},
			{"POST", "/coupons", `{"name":"Ten","quantity":9,"discount":100}`, `local - add_coupon 1: "Ten", discount 100, quantity 9`},
			{"PATCH", "/orders", `{"test_delay_ms":20}`, "local - test_delay test_delay_ms: 5 → 20, of this process"},
		}
		for i, c := range changes {
			if a := f.admin(c.method, "/admin/api"+c.path, c.body, jsonType); a.status >= 300 {
				t.Fatalf("%s %s: %s", c.path, c.body, a.body)
			}
			if got := f.entries(); len(got) != i+1 || !strings.HasPrefix(got[0], c.entry) {
				t.Fatalf("%s %s: %d entries, the last is %q", c.path, c.body, len(got), got[0])
			}
		}
		f.admin("GET", "/admin/api/journal?limit=3", "").want(200).golden("journal")
		ticket := f.enter()
		subject := must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(t).Subject
		f.admin("DELETE", "/admin/api/lines/default/visitors/"+subject, "", jsonType).want(204)
		if got := f.entries(); got[0] != "local default remove_visitor "+subject {
			t.Error(got[0])
		}
		for path, body := range map[string]string{
			"PATCH /lines/default": `{"rate_override":-1}`, "PATCH /lines/nosuch": `{"paused":true}`, "POST /products": `{"name":""}`,
			"POST /coupons": `{"name":""}`, "PATCH /orders": `{"test_delay_ms":-1}`, "POST /lines/default/restart": `{"x":1}`,
			"PUT /lines/NO": `{}`, "DELETE /lines/default/visitors/nobody": ``, "PATCH /lines/side": `{}`,
		} {
			method, path, _ := strings.Cut(path, " ")
			f.admin(method, "/admin/api"+path, body, jsonType)
		}
		if got := f.entries(); len(got) != len(changes)+1 {
			t.Errorf("%d entries after refusals: %q", len(got), got)
		}
		for _, limit := range []string{"0", "-1", "1001", "x", "1e3"} {
			f.admin("GET", "/admin/api/journal?limit="+limit, "").problem(400, "invalid_request")
		}
		if n := strings.Count(f.log.String(), `"msg":"an operator's change"`); n != len(changes)+1 {
			t.Errorf("%d entries in the log", n)
		}
		for _, secret := range []string{ticket, "seed"} {
			if strings.Contains(strings.Join(f.entries(), "\n"), secret) {
				t.Errorf("the journal tells %q", secret)
			}
		}
	})
}

// A setting that is added to what can be changed must be told in the journal too.
func TestEverySettingHasItsWords(t *testing.T) {
	var names []string
	for i := range reflect.TypeFor[patchRequest]().NumField() {
		names = append(names, reflect.TypeFor[patchRequest]().Field(i).Tag.Get("json"))
	}
	var told []string
	for _, s := range settings {
		told = append(told, s.name)
	}
	if !slices.Equal(names, told) {
		t.Errorf("can be changed: %v; is told: %v", names, told)
	}
}

// Each operator is known by their own token, however many there are.
func TestOperatorsAreKnownByTheirTokens(t *testing.T) {
	operators := []Operator{{"alice", "the token of alice"}, {"bob", "the token of bob.."}, {"carol", "the token of carol"}}
	inBubble(t, setup{config: func(c *Config) { c.Operators = operators }}, func(t *testing.T, f *fixture) {
		for _, o := range operators {
			if a := f.admin("GET", "/admin/api/me", "", bearerToken(o.Token)).want(200); a.body != `{"who":"`+o.Name+`"}` {
				t.Errorf("%s is %s", o.Name, a.body)
			}
			f.admin("PATCH", "/admin/api/lines/default", `{"sold_out":true}`, jsonType, bearerToken(o.Token)).want(200)
		}
		for _, wrong := range []string{"the token of", "the token of alice,the token of bob..", "alice=the token of alice", ""} {
			if a := f.admin("GET", "/admin/api/me", "", bearerToken(wrong)); a.status != 401 {
				t.Errorf("%q: %d", wrong, a.status)
			}
		}
		var told struct{ Entries []struct{ Who string } }
		f.admin("GET", "/admin/api/journal", "", bearerToken(operators[0].Token)).want(200).into(&told)
		if len(told.Entries) != 3 || told.Entries[0].Who != "carol" || told.Entries[2].Who != "alice" {
			t.Errorf("%+v", told)
		}
		for _, o := range operators {
			if strings.Contains(f.log.String(), o.Token) {
				t.Errorf("the token of %s is in the log", o.Name)
			}
		}
	})
}

// deafJournal does not answer while away is set.
type deafJournal struct {
	journal.Journal
	away atomic.Bool
}

func (j *deafJournal) Add(ctx context.Context, e journal.Entry) error {
	if j.away.Load() {
		<-ctx.Done()
		return errors.Join(journal.ErrUnavailable, ctx.Err())
	}
	return j.Journal.Add(ctx, e)
}

func (j *deafJournal) Latest(ctx context.Context, n int) ([]journal.Entry, error) {
	if j.away.Load() {
		<-ctx.Done()
		return nil, errors.Join(journal.ErrUnavailable, ctx.Err())
	}
	return j.Journal.Latest(ctx, n)
}

// A journal that does not answer undoes no change and delays none for long; what it
// missed is in the log at once, and in the journal when it answers again.
func TestJournalThatIsAway(t *testing.T) {
	deaf := &deafJournal{}
	with := setup{config: func(c *Config) {
		deaf.Journal = c.Journal.Journal
		c.Journal = journal.NewBook(deaf, c.Log)
	}}
	inBubble(t, with, func(t *testing.T, f *fixture) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.server.cfg.Journal.Run(ctx) }()
		deaf.away.Store(true)
		began := time.Now()
		for _, body := range []string{`{"paused":true}`, `{"weight":2}`, `{"weight":3}`} {
			f.admin("PATCH", "/admin/api/lines/default", body, jsonType).want(200)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("three changes took %s", took)
		}
		if view, _ := f.watch.View(); !view.Settings.Paused || view.Settings.Weight != 3 {
			t.Errorf("%+v", view.Settings)
		}
		f.admin("GET", "/admin/api/journal", "").problem(503, "queue_unavailable")
		if n := strings.Count(f.log.String(), `"level":"ERROR"`); n != 3 || !strings.Contains(f.log.String(), "weight: 2 → 3") {
			t.Errorf("%d errors in the log: %s", n, f.log)
		}
		deaf.away.Store(false)
		time.Sleep(3 * time.Second)
		want := []string{"local default weight weight: 2 → 3", "local default weight weight: 1 → 2", "local default pause paused: false → true"}
		if got := f.entries(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What is in the journal is what an operator reads; a detail is never longer than a
// screen.
func TestClip(t *testing.T) {
	if got := clip(strings.Repeat("가", 5), 3); got != "가가가…" {
		t.Error(got)
	}
	if got := clip("a\xffb", 9); got != "a\ufffdb" {
		t.Error(got)
	}
}
