package web

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// known is what an admission could know: two processes, one of which takes no
// orders.
func known() admission.Overview {
	return admission.Overview{
		Reports: []admission.Report{
			{Process: "a:1:x", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Queue: true, Orders: &admission.OrdersReport{
				Capacity: 120.5, Reason: admission.ReasonMeasured, WaitTarget: 500 * time.Millisecond, Throughput: 118, Utilisation: .987,
				Workers: 10, Busy: 9, Backlog: 4, BacklogLimit: 50, Returning: 7, Completed: 1000, Refused: 3, Database: admission.DatabaseUp,
				Work: admission.Percentiles{P50: time.Millisecond, P95: 2 * time.Millisecond, P99: 3 * time.Millisecond},
				Wait: admission.Percentiles{P50: 4 * time.Millisecond, P95: 5 * time.Millisecond, P99: 6 * time.Millisecond},
			}},
			{Process: "b:2:y", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Queue: true},
		},
		Rates: admission.Rates{
			Capacity: 120.5, InPipe: 30, Target: 60.25, Budget: 135.63,
			Lines: map[string]admission.LineRate{DefaultLine: {
				Rate: 150, Why: queue.LimitedByCapacity, Share: .75, Outlook: admission.Outlook{Conversion: .5, Pending: 12.5, Lag: time.Second},
			}},
		},
		Queues: 2, Age: 250 * time.Millisecond,
	}
}

func TestFiguresOfTheAdmission(t *testing.T) {
	with := setup{config: func(c *Config) {
		c.Overview = known
		c.PollBudget = func(line string) float64 { return map[string]float64{DefaultLine: 5000}[line] }
	}}
	inBubble(t, with, func(t *testing.T, f *fixture) {
		f.enter()
		must(f.line.Admit(context.Background(), 0, queue.LimitedByBacklog))(t)
		time.Sleep(time.Second)
		must(f.line.Admit(context.Background(), 0, queue.LimitedByBacklog))(t)
		time.Sleep(time.Second)
		f.admin("GET", "/admin/api/lines/default", "").want(200).golden("admin_line_admission")
		metrics := f.admin("GET", "/metrics", "").want(200).body
		for _, want := range []string{
			`sluice_admission_capacity 120.5`, `sluice_admission_budget 135.63`, `sluice_admission_in_pipe 30`, `sluice_admission_target 60.25`,
			`sluice_queue_instances 2`, `sluice_register_age_seconds 0.25`,
			`sluice_process_capacity{process="a:1:x"} 120.5`, `sluice_process_backlog{process="a:1:x"} 4`,
			`sluice_process_backlog_limit{process="a:1:x"} 50`, `sluice_process_returning{process="a:1:x"} 7`,
			`sluice_process_workers{process="a:1:x"} 10`, `sluice_process_wait_target_seconds{process="a:1:x"} 0.5`,
			`sluice_process_throughput{process="a:1:x"} 118`, `sluice_process_utilisation_ratio{process="a:1:x"} 0.987`,
			`sluice_line_conversion_ratio{line="default"} 0.5`, `sluice_line_pending{line="default"} 12.5`,
			`sluice_line_share_ratio{line="default"} 0.75`, `sluice_line_rate_limit{line="default"} 150`,
			`sluice_line_poll_budget{line="default"} 5000`, `sluice_line_poll_budget{line="side"} 0`,
			`sluice_line_limited_by{line="default",reason="backlog"} 1`, `sluice_line_limited_by{line="default",reason="capacity"} 0`,
			`sluice_line_limited_by{line="side",reason="schedule"} 0`, `sluice_line_weight{line="default"} 1`,
			`sluice_line_hold_seconds{line="default"} 0`, `sluice_line_open{line="default"} 1`, `sluice_line_lag_seconds{line="default"} 0`,
			`sluice_line_arrived_total{line="default"} 0`, `sluice_line_left_total{line="default"} 0`, `sluice_line_given_up_total{line="default"} 0`,
		} {
			if !strings.Contains(metrics, want+"\n") {
				t.Errorf("%s is missing", want)
			}
		}
		for _, no := range []string{`process="b:2:y"`, `sluice_line_share_ratio{line="side"}`} {
			if strings.Contains(metrics, no) {
				t.Errorf("%s is a figure of nothing", no)
			}
		}
		lintMetrics(t, metrics)
	})
}

// lost makes a line that this process remembers and the store does not.
func lost(o *queue.Options) {
	o.Known = &queue.Remembered{Created: time.Now().Add(-time.Hour), Settings: o.Initial, Longest: 5 * time.Second}
}

func TestALossIsSaid(t *testing.T) {
	inBubble(t, setup{queue: lost}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		time.Sleep(time.Second)
		type line struct {
			Degraded  bool
			HoldUntil *time.Time `json:"hold_until"`
		}
		var l line
		f.admin("GET", "/admin/api/lines/default", "").want(200).into(&l)
		if !l.Degraded || l.HoldUntil == nil || l.HoldUntil.Sub(f.watch.Now()) < 10*time.Second {
			t.Fatalf("%+v", l)
		}
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_degraded").standing(); got.Reason != "degraded" || got.Estimate != nil {
			t.Errorf("%+v", got)
		}
		if got := f.status(); got.Reason == nil || *got.Reason != "degraded" || got.State != "open" || got.Estimate != nil {
			t.Errorf("%+v", got)
		}
		if body := f.admin("GET", "/metrics", "").body; strings.Contains(body, `sluice_line_hold_seconds{line="default"} 0`+"\n") {
			t.Error("no hold in the metrics")
		}
		f.admin("PATCH", "/admin/api/lines/default", `{"paused":true}`, jsonType).want(200)
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.Reason != "paused" {
			t.Errorf("an operator's word comes first: %+v", got)
		}
		f.admin("PATCH", "/admin/api/lines/default", `{"paused":false,"mode":"passthrough"}`, jsonType).want(200)
		if got := f.status(); got.Estimate != nil {
			t.Errorf("nobody passes now: %+v", got)
		}
		time.Sleep(l.HoldUntil.Sub(f.watch.Now()) + 300*time.Millisecond)
		l = line{}
		f.admin("GET", "/admin/api/lines/default", "").want(200).into(&l)
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.Reason != "" || l.Degraded || l.HoldUntil != nil {
			t.Errorf("%+v, %+v", got, l)
		}
	})
}

// sweptLine remembers who was heard.
type sweptLine struct {
	queue.Line
	mu    *sync.Mutex
	heard *[]queue.Heard // guarded by mu
}

func (l sweptLine) Sweep(ctx context.Context, heard []queue.Heard) (queue.Swept, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.heard = append(*l.heard, heard...)
	return l.Line.Sweep(ctx, heard)
}

// Each poll of somebody who waits is heard, with what they were told; whoever is
// in a draw is near no head, but the interval they were told counts.
func TestPollsAreHeard(t *testing.T) {
	for name, schedule := range map[string]func(*queue.Options){"waiting": nil, "scheduled": inAnHour} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var heard []queue.Heard
			with := setup{queue: schedule, line: func(l queue.Line) queue.Line { return sweptLine{l, &mu, &heard} }}
			inBubble(t, with, func(t *testing.T, f *fixture) {
				f.run(f.server.lines.get(DefaultLine).attendance.Run)
				got := f.public("POST", "/queue/enter", "").want(201).standing()
				told := f.told.Longest()
				if told == 0 || ceilMS(told) != got.PollAfterMS {
					t.Errorf("noted %s, told %d ms", told, got.PollAfterMS)
				}
				time.Sleep(1100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if want := name == "waiting"; got.State != name || slices.ContainsFunc(heard, func(h queue.Heard) bool {
					return h.Subject == f.subject(got.Ticket) && ceilMS(h.Told) == got.PollAfterMS
				}) != want {
					t.Errorf("%s: heard %v", got.State, heard)
				}
			})
		})
	}
}

// run runs a loop until the end of the test.
func (f *fixture) run(loop func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
}

// other is a second server of the same lines.
func (f *fixture) other() *Server {
	f.t.Helper()
	log := slog.New(slog.DiscardHandler)
	watch := queue.NewWatch(f.line, 250*time.Millisecond, log)
	f.run(watch.Run)
	cfg := f.server.cfg
	cfg.Lines = NewLines(Line{Line: f.line, Watch: watch})
	return must(New(cfg))(f.t)
}

// What an operator says to one instance, the other's visitors are told within a
// second.
func TestAChangeReachesEveryServer(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		other := f.other()
		ticket := f.enter()
		time.Sleep(time.Second)
		for _, tc := range []struct{ patch, position, status, line string }{
			{`{"paused":true,"message":"Soon"}`, `"reason":"paused","message":"Soon"`, `"state":"paused"`, `"paused":true`},
			{`{"paused":false,"sold_out":true}`, `"reason":"sold_out"`, `"reason":"sold_out"`, `"sold_out":true`},
			{`{"sold_out":null,"message":null}`, `"state":"waiting"`, `"message":""`, `"sold_out":false`},
			{`{"mode":"passthrough"}`, `"state":"waiting"`, `"mode":"passthrough"`, `"mode":"passthrough"`},
			{`{"rate_override":120}`, `"state":"waiting"`, `"line":"default"`, `"rate_override":120`},
			{`{"max_active":5,"max_length":7}`, `"state":"waiting"`, `"line":"default"`, `"max_active":5,"max_length":7`},
			{`{"weight":3,"poll_budget":50}`, `"state":"waiting"`, `"line":"default"`, `"weight":3,"poll_budget":50`},
			{`{"closes_at":"2026-01-01T00:00:00Z"}`, `"state":"closed"`, `"state":"closed"`, `"closes_at":"2026-01-01T00:00:00.000Z"`},
			{`{"closes_at":null}`, `"state":"waiting"`, `"closes_at":null`, `"closes_at":null`},
		} {
			f.admin("PATCH", "/admin/api/lines/default", tc.patch, jsonType).want(200)
			time.Sleep(time.Second)
			for _, got := range []struct{ body, want string }{
				{ask(t, other.public, "GET", "/queue/position", "", ticketHeader(ticket)).want(200).body, tc.position},
				{ask(t, other.public, "GET", "/queue/status", "").want(200).body, tc.status},
				{ask(t, other.admin, "GET", "/admin/api/lines/default", "", "Host: "+adminHost).want(200).body, tc.line},
			} {
				if !strings.Contains(got.body, got.want) {
					t.Errorf("after %s: %s is not in %s", tc.patch, got.want, got.body)
				}
			}
		}
	})
}
