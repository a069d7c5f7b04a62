package web

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

func TestAdmittedAnswer(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		f.admit()
		time.Sleep(300 * time.Microsecond) // times are in ms, now is not
		first := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_admitted")
		got := first.standing()
		if first.header.Get("Retry-After") != "" {
			t.Error("Retry-After although admitted")
		}
		claims, err := f.tokens.Verify(got.Token, func(string) time.Time {
			return f.watch.Now().Add(time.Duration(got.UsableInMS) * time.Millisecond)
		}, f.server.epoch)
		if err != nil {
			t.Fatalf("not usable after usable_in_ms: %v", err)
		}
		now := f.watch.Now()
		if left := claims.NotBefore.Sub(now); got.UsableInMS != left.Milliseconds()+1 {
			t.Errorf("usable in %d ms instead of %s", got.UsableInMS, left)
		}
		if want := claims.ExpiresAt.Sub(now).Milliseconds(); got.ExpiresInMS != want {
			t.Errorf("expires in %d ms instead of %d", got.ExpiresInMS, want)
		}
		time.Sleep(3 * time.Second)
		again := f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200).golden("enter_admitted").standing()
		if again.Token != got.Token || again.UsableInMS != 0 {
			t.Errorf("another token, or usable in %d ms", again.UsableInMS)
		}
		time.Sleep(queue.DefaultOptions().AdmissionTTL)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_expired")
	})
}

func TestTheAnswerSaysWhyNothingMoves(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		say := func(patch string) standing {
			t.Helper()
			f.admin("PATCH", "/admin/api/lines/default", patch, jsonType).want(200)
			return f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing()
		}
		if got := say(`{"paused":true,"message":"Back \"soon\" </script> ☕"}`); got.Reason != "paused" || got.Message != `Back "soon" </script> ☕` {
			t.Errorf("%+v", got)
		}
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).golden("position_paused")
		f.public("GET", "/queue/status", "").golden("status_paused")
		if got := say(`{"paused":null,"rate_override":0,"message":null}`); got.Reason != "paused" {
			t.Errorf("a rate of nothing: %+v", got)
		}
		if got := say(`{"rate_override":null,"sold_out":true}`); got.Reason != "sold_out" || got.Message != "" {
			t.Errorf("%+v", got)
		}
		if got := say(`{"sold_out":false}`); got.Reason != "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestEstimateFollowsMovement(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		var last string
		for range 270 {
			last = f.enter()
		}
		if got := f.public("GET", "/queue/position", "", ticketHeader(last)).standing(); got.Estimate != nil || got.Range != nil {
			t.Errorf("an estimate without movement: %+v", got)
		}
		for range 210 { // 1 per tick
			time.Sleep(100 * time.Millisecond)
			must(f.line.Admit(context.Background(), 10, queue.LimitedByCapacity))(t)
		}
		got := f.public("GET", "/queue/position", "", ticketHeader(last)).standing()
		if got.Estimate == nil || *got.Estimate < 5000 || *got.Estimate > 7500 || len(got.Range) != 2 ||
			got.Range[0] > *got.Estimate || got.Range[1] < *got.Estimate {
			t.Errorf("60 places at 10/s: %+v", got)
		}
		var status struct {
			AdmittedPerSecond float64 `json:"admitted_per_second"`
			EstimatedWaitMS   *int64  `json:"estimated_wait_ms"`
		}
		f.public("GET", "/queue/status", "").want(200).into(&status)
		if status.AdmittedPerSecond < 9 || status.AdmittedPerSecond > 11 || status.EstimatedWaitMS == nil {
			t.Errorf("%+v", status)
		}
	})
}

// goneLine lets 10 in each second and finds another 5 gone.
type goneLine struct{ queue.Line }

func (l goneLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	s, err := l.Line.Snapshot(ctx)
	tenths := s.At.Sub(s.Created).Milliseconds() / 100
	s.Waiting, s.Admitted, s.Away = 1000, tenths, tenths/2
	return s, err
}

// Who was found gone was not admitted, but brings those behind nearer.
func TestAdmissionsAreNotAllThatMovesALine(t *testing.T) {
	inBubble(t, setup{line: func(l queue.Line) queue.Line { return goneLine{l} }}, func(t *testing.T, f *fixture) {
		time.Sleep(40 * time.Second)
		var status, line struct {
			Admitted float64 `json:"admitted_per_second"`
			Moved    float64 `json:"moved_per_second"`
			Estimate int64   `json:"estimated_wait_ms"`
			Range    []int64 `json:"estimated_wait_range_ms"`
		}
		f.public("GET", "/queue/status", "").want(200).into(&status)
		f.admin("GET", "/admin/api/lines/default", "").want(200).into(&line)
		metrics := f.admin("GET", "/metrics", "").want(200).body
		for _, got := range []float64{status.Admitted, line.Admitted} {
			if got < 9.5 || got > 10.5 {
				t.Errorf("%g admitted per second, want 10", got)
			}
		}
		if line.Moved < 14 || line.Moved > 16 {
			t.Errorf("moved by %g per second, want 15", line.Moved)
		}
		if r := line.Range; len(r) != 2 || status.Estimate == 0 || r[0] > status.Estimate || r[1] < status.Estimate {
			t.Errorf("a newcomer waits %d ms, and the operator is told %d", status.Estimate, r)
		}
		for _, want := range []string{`sluice_line_admitted_per_second{line="default"} 10`, `sluice_line_moved_per_second{line="default"} 15`} {
			if !strings.Contains(metrics, want) {
				t.Errorf("%s is missing", want)
			}
		}
	})
}

func TestTimesAreWrittenAsTheLibraryDoes(t *testing.T) {
	times := []time.Time{{}, time.Unix(0, 0), time.UnixMilli(253_402_300_799_999), time.UnixMilli(253_402_300_800_000), time.UnixMilli(-62_167_219_200_001)}
	for range 2000 {
		times = append(times, time.Unix(rand.Int64N(1<<36)-1<<33, rand.Int64N(1e9)).In(time.FixedZone("", rand.IntN(86_400)-43_200)))
	}
	for _, at := range times {
		if got, want := string(appendTime(nil, at)), at.UTC().Format(`"`+wireTime+`"`); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

func TestWhatIsAskedMostAllocatesLittle(t *testing.T) {
	f := newFixture(t, setup{})
	st := queue.Standing{State: queue.Waiting, Position: 342, Length: 1207, Ticket: queue.Ticket{Place: time.Now().UnixMicro()}}
	c := f.server.public.AcquireCtx(newRequestCtx())
	defer f.server.public.ReleaseCtx(c)
	l := f.server.lines.get(DefaultLine)
	for name, answer := range map[string]func() error{
		"a poll":     func() error { return f.server.standingAnswer(c, l, st, "") },
		"the status": func() error { return f.server.status(c) },
	} {
		got := testing.AllocsPerRun(100, func() {
			c.Response().ResetBody()
			if err := answer(); err != nil {
				t.Error(err)
			}
		})
		if got > 2 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkWaitingAnswer(b *testing.B) {
	f := newFixture(b, setup{})
	st := queue.Standing{State: queue.Waiting, Position: 342, Length: 1207, Ticket: queue.Ticket{Place: time.Now().UnixMicro()}}
	c := f.server.public.AcquireCtx(newRequestCtx())
	defer f.server.public.ReleaseCtx(c)
	l := f.server.lines.get(DefaultLine)
	b.ReportAllocs()
	for b.Loop() {
		c.Response().ResetBody()
		_ = f.server.standingAnswer(c, l, st, "")
	}
}

// BenchmarkPosition is a whole poll but for the socket: route, ticket, line,
// answer, metrics. With a limit all polls are of one ticket, and so meet at one lock.
func BenchmarkPosition(b *testing.B) {
	for name, factor := range map[string]int{"no limit": 0, "limit": 1_000_000_000} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, setup{config: func(c *Config) { c.AccessLogEvery, c.Limits.PollFactor = 0, factor }})
			ticket := f.enter()
			handle := f.server.public.Handler()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				ctx := newRequestCtx()
				for p.Next() {
					ctx.Request.Reset()
					ctx.Response.Reset()
					ctx.Request.SetRequestURI("/queue/position")
					ctx.Request.Header.Set(headerTicket, ticket)
					handle(ctx)
				}
				if ctx.Response.StatusCode() != 200 {
					b.Errorf("status %d", ctx.Response.StatusCode())
				}
			})
		})
	}
}
