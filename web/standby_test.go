package web

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// awayLine is a line whose store can go away: then calls hang.
type awayLine struct {
	queue.Line
	away atomic.Bool
}

// now is the line, or one that does not answer.
func (l *awayLine) now() queue.Line {
	if l.away.Load() {
		return deafLine{l.Line, true}
	}
	return l.Line
}

func (l *awayLine) Enter(ctx context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	return l.now().Enter(ctx, subject, held)
}
func (l *awayLine) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	return l.now().Standing(ctx, t)
}
func (l *awayLine) Leave(ctx context.Context, t queue.Ticket) error { return l.now().Leave(ctx, t) }
func (l *awayLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	return l.now().Snapshot(ctx)
}
func (l *awayLine) Configure(ctx context.Context, p queue.Patch) (queue.Settings, error) {
	return l.now().Configure(ctx, p)
}
func (l *awayLine) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if l.away.Load() {
		return queue.Batch{}, deafLine{l.Line, true}.answer(ctx)
	}
	return l.Line.Admit(ctx, rate, why)
}

// withStandby runs a test in front of a store that can go away.
func withStandby(t *testing.T, s setup, test func(*testing.T, *fixture, *awayLine)) {
	t.Helper()
	var store *awayLine
	s.line = func(l queue.Line) queue.Line {
		store = &awayLine{Line: l}
		return store
	}
	inBubble(t, s, func(t *testing.T, f *fixture) { test(t, f, store) })
}

// goAway takes the store away and waits until that is known.
func (l *awayLine) goAway() {
	l.away.Store(true)
	time.Sleep(2 * time.Second)
}

func (l *awayLine) comeBack() {
	l.away.Store(false)
	time.Sleep(2 * time.Second)
}

// operatorView is what an operator sees of the standby.
type operatorView struct {
	Store       string
	Mode        string
	ModeInForce string  `json:"mode_in_force"`
	LimitedBy   *string `json:"limited_by"`
	Warning     *string
	ViewAgeMS   int64 `json:"view_age_ms"`
	Waiting     int64
	Message     string
	Bypassed    int64
	Unrecorded  int64
}

func (f *fixture) seen() (v operatorView) {
	f.t.Helper()
	f.admin("GET", "/admin/api/lines/default", "").want(200).into(&v)
	return v
}

type statusView struct {
	State, Mode       string
	LimitedBy         *string `json:"limited_by"`
	Reason            *string
	Waiting           int64
	EstimatedWaitMS   *int64  `json:"estimated_wait_ms"`
	AdmittedPerSecond float64 `json:"admitted_per_second"`
}

func (f *fixture) statusNow() (v statusView) {
	f.t.Helper()
	f.public("GET", "/queue/status", "").want(200).into(&v)
	return v
}

func TestBlockedWhileTheStoreIsAway(t *testing.T) {
	withStandby(t, setup{standby: queue.ModeBlock}, func(t *testing.T, f *fixture, store *awayLine) {
		ticket := f.enter()
		f.enter()
		time.Sleep(300 * time.Millisecond)
		store.goAway()
		time.Sleep(10 * time.Second)
		began := time.Now()
		for _, a := range []answered{
			f.public("POST", "/queue/enter", ""),
			f.public("GET", "/queue/position", "", ticketHeader(ticket)),
			f.public("POST", "/queue/leave", "", ticketHeader(ticket)),
		} {
			if a.problem(503, "queue_unavailable"); !strings.Contains(a.body, "Tickets stay good") {
				t.Error(a.body)
			}
		}
		status, seen := f.statusNow(), f.seen()
		f.admin("GET", "/admin/api/lines", "").want(200)
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %s", took)
		}
		if status.State != "open" || status.Mode != "block" || status.LimitedBy == nil || *status.LimitedBy != "block" || status.Waiting != 2 ||
			status.Reason == nil || *status.Reason != "degraded" || status.EstimatedWaitMS != nil {
			t.Errorf("status %+v", status)
		}
		if seen.Store != "away" || seen.Mode != "normal" || seen.ModeInForce != "block" || *seen.LimitedBy != "block" || seen.Waiting != 2 ||
			seen.Warning == nil || seen.ViewAgeMS < 10_000 {
			t.Errorf("operators see %+v", seen)
		}
		for _, want := range []string{
			`sluice_line_store_away{line="default"} 1`, `sluice_line_mode{line="default",mode="block"} 1`,
			`sluice_line_mode{line="default",mode="normal"} 0`, `sluice_line_limited_by{line="default",reason="block"} 1`,
		} {
			if !strings.Contains(f.admin("GET", "/metrics", "").body, want) {
				t.Errorf("no %s", want)
			}
		}
		if ready := f.admin("GET", "/readyz", "").want(200).body; !strings.Contains(ready, "line default") {
			t.Error(ready)
		}
		if strings.Contains(f.log.String(), `"msg":"not available"`) {
			t.Errorf("each second is logged: %s", f.log)
		}
		store.comeBack()
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.State != "waiting" || got.Position != 1 {
			t.Errorf("afterwards %+v", got)
		}
		if got := f.seen(); got.Store != "there" || got.ModeInForce != "normal" || got.Warning != nil {
			t.Errorf("afterwards operators see %+v", got)
		}
		if got := f.statusNow(); got.Mode != "normal" || got.Reason != nil {
			t.Errorf("afterwards status %+v", got)
		}
	})
}

// A blocked crowd is told to come back as its budget allows, and that is remembered: the
// hold after a loss has to wait for it.
func TestBlockedCrowdIsNoStampede(t *testing.T) {
	budget := 0.0 // none while they enter: nobody is told a long interval then
	withStandby(t, setup{standby: queue.ModeBlock, config: func(c *Config) {
		c.PollBudget = func(string) float64 { return budget }
	}}, func(t *testing.T, f *fixture, store *awayLine) {
		var ticket string
		for range 300 {
			ticket = f.enter()
		}
		time.Sleep(300 * time.Millisecond)
		store.goAway()
		budget = 10
		var sum time.Duration
		const asked = 200
		for range asked {
			var p struct {
				RetryAfterMS int64 `json:"retry_after_ms"`
			}
			f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(503, "queue_unavailable").into(&p)
			sum += time.Duration(p.RetryAfterMS) * time.Millisecond
		}
		if mean := sum / asked; mean < 29*time.Second {
			t.Errorf("300 visitors at 10 polls a second are told %s", mean)
		}
		if got := f.told.Longest(); got < 30*time.Second {
			t.Errorf("noted as told: %s", got)
		}
	})
}

func TestBlockedByAnOperator(t *testing.T) {
	withStandby(t, setup{standby: queue.ModeBypass, orders: withOrders()}, func(t *testing.T, f *fixture, _ *awayLine) {
		id := f.product(10, "")
		first := f.enter()
		f.admin("PATCH", "/admin/api/lines/default", `{"rate_override":100}`, jsonType).want(200)
		time.Sleep(time.Second)
		f.admin("PATCH", "/admin/api/lines/default", `{"rate_override":null}`, jsonType).want(200)
		token := f.public("GET", "/queue/position", "", ticketHeader(first)).want(200).standing().Token
		time.Sleep(queue.DefaultOptions().Jitter)
		ticket := f.enter()
		f.admin("PATCH", "/admin/api/lines/default", `{"mode":"block"}`, jsonType).want(200)
		a := f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(503, "queue_unavailable")
		var p struct {
			RetryAfterMS int64 `json:"retry_after_ms"`
		}
		if a.into(&p); p.RetryAfterMS < 2000 || p.RetryAfterMS > 3000 {
			t.Errorf("told to come back in %d ms", p.RetryAfterMS)
		}
		if got := f.seen(); got.Store != "there" || got.Mode != "block" || got.ModeInForce != "block" || got.Warning != nil {
			t.Errorf("%+v", got)
		}
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
		if strings.Contains(f.log.String(), `"msg":"not available"`) {
			t.Errorf("an operator's word is logged: %s", f.log)
		}
		f.admin("PATCH", "/admin/api/lines/default", `{"mode":null}`, jsonType).want(200)
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.Position != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// An operator can speak while the store is away, but for what only the store can judge.
func TestChangesWhileTheStoreIsAway(t *testing.T) {
	kept := 0
	withStandby(t, setup{standby: queue.ModeBypass, config: func(c *Config) {
		c.Lines.get(DefaultLine).keep = func() error { kept++; return nil }
	}}, func(t *testing.T, f *fixture, store *awayLine) {
		store.goAway()
		began := time.Now()
		var v operatorView
		f.admin("PATCH", "/admin/api/lines/default", `{"mode":"block","message":"Back soon"}`, jsonType).want(200).into(&v)
		if v.Mode != "block" || v.ModeInForce != "block" || v.Message != "Back soon" || v.Warning == nil || kept != 1 {
			t.Errorf("%+v, kept %d times", v, kept)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %s", took)
		}
		f.public("POST", "/queue/enter", "").problem(503, "queue_unavailable")
		f.admin("PATCH", "/admin/api/lines/default", `{"opens_at":null}`, jsonType).problem(503, "queue_unavailable")
		f.admin("PATCH", "/admin/api/lines/default", `{"weight":0}`, jsonType).problem(400, "invalid_request")
		f.admin("POST", "/admin/api/lines/default/restart", "", jsonType).problem(503, "queue_unavailable")
		// What holds here is not told to have failed, whichever way it was asked for.
		f.admin("PUT", "/admin/api/lines/default", `{"message":"Back at noon"}`, jsonType).want(200).into(&v)
		if v.Message != "Back at noon" || v.Warning == nil || kept != 2 {
			t.Errorf("%+v, kept %d times", v, kept)
		}
		store.comeBack()
		if got := f.seen(); got.Mode != "block" || got.Message != "Back at noon" || got.Warning != nil {
			t.Errorf("afterwards %+v", got)
		}
		if s := must(f.line.Snapshot(context.Background()))(t).Settings; s.Mode != queue.ModeBlock || s.Message != "Back at noon" {
			t.Errorf("in the store %+v", s)
		}
	})
}

// Let in without the line: tokens order, who waits keeps the place that nobody knows.
func TestBypassedWhileTheStoreIsAway(t *testing.T) {
	withStandby(t, setup{
		standby: queue.ModeBypass, steady: admission.Steady{Rate: 1, Queues: 1}, orders: withOrders(),
	}, func(t *testing.T, f *fixture, store *awayLine) {
		id := f.product(10, "")
		first, second := f.enter(), f.enter()
		time.Sleep(300 * time.Millisecond)
		store.goAway()
		in := f.public("GET", "/queue/position", "", ticketHeader(first)).want(200).standing()
		if in.State != "admitted" || in.Token == "" {
			t.Fatalf("%+v", in)
		}
		if again := f.public("GET", "/queue/position", "", ticketHeader(first)).want(200).standing(); again.Token != in.Token {
			t.Errorf("another token: %+v", again)
		}
		a := f.public("GET", "/queue/position", "", ticketHeader(second)).want(200)
		waits := a.golden("position_bypass").standing()
		if waits.State != "waiting" || !strings.Contains(a.body, `"position":null`) || waits.Waiting != 2 || waits.Reason != "degraded" || waits.PollAfterMS < 800 {
			t.Errorf("%s", a.body)
		}
		new := f.public("POST", "/queue/enter", "").want(201).standing()
		if new.State != "waiting" || new.Ticket == "" || new.Waiting != 3 {
			t.Errorf("a newcomer is told %+v", new)
		}
		if status := f.statusNow(); status.Mode != "bypass" || *status.LimitedBy != "bypass" || status.EstimatedWaitMS != nil {
			t.Errorf("status %+v", status)
		}
		if seen := f.seen(); seen.ModeInForce != "bypass" || seen.Bypassed != 1 || seen.Unrecorded != 1 {
			t.Errorf("operators see %+v", seen)
		}
		for _, want := range []string{`sluice_line_bypassed_total{line="default"} 1`, `sluice_line_bypass_unrecorded{line="default"} 1`} {
			if !strings.Contains(f.admin("GET", "/metrics", "").body, want) {
				t.Errorf("no %s", want)
			}
		}
		f.public("POST", "/queue/leave", "", ticketHeader(second)).problem(503, "queue_unavailable")
		time.Sleep(queue.DefaultOptions().Jitter)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(in.Token)).want(201)
		f.admin("PATCH", "/admin/api/lines/default", `{"max_length":1}`, jsonType).want(200)
		f.public("POST", "/queue/enter", "").want(201) // a permit was there
		f.public("POST", "/queue/enter", "").problem(503, "queue_full")
	})
}
