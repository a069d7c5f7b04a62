package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

func TestEnterAnswersAPlaceAndItsTicket(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		first := f.public("POST", "/queue/enter", "{}").want(201).golden("enter_new")
		ticket := first.standing().Ticket
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200).golden("enter_again")
		second := f.enter()
		if second == ticket {
			t.Fatal("two visitors have one ticket")
		}
		got := f.public("GET", "/queue/position", "", ticketHeader(second)).want(200).golden("position_waiting").standing()
		if got.Position != 2 || got.Waiting != 2 {
			t.Errorf("position %d of %d instead of 2 of 2", got.Position, got.Waiting)
		}
	})
}

func TestTicketCookie(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for _, tc := range []struct {
			target, name string
			headers      headers
			secure       bool
		}{
			{"/queue/enter", "sluice_ticket", nil, false},
			{"/queue/enter?line=default", "sluice_ticket", nil, false},
			{"/queue/enter?line=side", "sluice_ticket_side", nil, false},
			{"/queue/enter", "sluice_ticket", headers{"X-Forwarded-Proto: https"}, true},
		} {
			a := f.public("POST", tc.target, "", tc.headers...).want(201)
			c := onlyCookie(t, a)
			if c.Name != tc.name || c.Value != a.standing().Ticket || c.Path != "/" || !c.HttpOnly ||
				c.SameSite != http.SameSiteLaxMode || c.Secure != tc.secure || c.MaxAge != int((12*time.Hour).Seconds()) {
				t.Errorf("%s: cookie %v", tc.target, c)
			}
			query := strings.TrimPrefix(tc.target, "/queue/enter")
			f.public("GET", "/queue/position"+query, "", "Cookie: "+c.Name+"="+c.Value).want(200)
		}
	})
}

func onlyCookie(t *testing.T, a answered) *http.Cookie {
	t.Helper()
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies: %v", len(cookies), a.header)
	}
	return cookies[0]
}

func TestHeaderWinsOverCookie(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		first, second := f.enter(), f.enter()
		got := f.public("GET", "/queue/position", "", ticketHeader(second), "Cookie: sluice_ticket="+first).standing()
		if got.Position != 2 {
			t.Errorf("position %d: the cookie won", got.Position)
		}
	})
}

func TestEnterTakesABadTicketForNone(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.TicketTTL = time.Hour }}, func(t *testing.T, f *fixture) {
		old := f.enter()
		time.Sleep(time.Hour)
		for _, ticket := range []string{"rubbish", old, old[:len(old)-2] + "xx"} {
			for _, how := range []string{ticketHeader(ticket), "Cookie: sluice_ticket=" + ticket} {
				if got := f.public("POST", "/queue/enter", "", how).want(201).standing(); got.Ticket == ticket {
					t.Errorf("%s: the old ticket is back", how)
				}
			}
		}
	})
}

func TestEnterAfterTheEndIsANewPlaceForTheSameVisitor(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		old := f.enter()
		f.enter()
		f.public("POST", "/queue/leave", "", ticketHeader(old)).want(204)
		f.public("GET", "/queue/position", "", ticketHeader(old)).want(200).golden("position_left")
		got := f.public("POST", "/queue/enter", "", ticketHeader(old)).want(201).standing()
		if got.Position != 2 || f.subject(got.Ticket) != f.subject(old) {
			t.Errorf("position %d, subject %q", got.Position, f.subject(got.Ticket))
		}
	})
}

func (f *fixture) subject(ticket string) string {
	f.t.Helper()
	return must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(f.t).Subject
}

func TestEnterBody(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for _, body := range []string{"", "  ", "{}", " {\n} "} {
			f.public("POST", "/queue/enter", body).want(201)
		}
		for _, body := range []string{"[]", "null", `""`, "{", "{}{}", `{"a":1}`, "\xff"} {
			f.public("POST", "/queue/enter", body).problem(400, "invalid_request")
		}
		waitingIs(t, f, 4)
	})
}

func waitingIs(t *testing.T, f *fixture, want int64) {
	t.Helper()
	if got := must(f.line.Snapshot(context.Background()))(t).Waiting; got != want {
		t.Errorf("%d wait instead of %d", got, want)
	}
}

func TestCrossSiteIsRefused(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		for _, foreign := range []headers{
			{"Sec-Fetch-Site: cross-site"},
			{"Host: shop.test", "Origin: https://evil.test"},
			{"Host: shop.test", "Origin: null"},
			{"Host: shop.test", "Origin: https://shop.test.evil.test"},
			{"Host: shop.test:8080", "Origin: http://shop.test:8081"},
			{"Host: shop.test", "Origin: https://sub.shop.test", "Sec-Fetch-Site: same-site"},
		} {
			for _, path := range []string{"/queue/enter", "/queue/leave"} {
				a := f.public("POST", path, "", append(foreign, ticketHeader(ticket))...).problem(403, "origin_refused")
				if a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s %v: a cookie was set", path, foreign)
				}
			}
		}
		for _, own := range []headers{
			{"Sec-Fetch-Site: same-origin", "Host: shop.test", "Origin: https://shop.test"},
			{"Host: shop.test:443", "Origin: https://shop.test"},
			{"Host: Shop.test:8080", "Origin: http://shop.test:8080"},
			{"Sec-Fetch-Site: none"},
		} {
			f.public("POST", "/queue/enter", "", append(own, ticketHeader(ticket))...).want(200)
		}
		waitingIs(t, f, 1)
	})
}

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
		claims, err := f.tokens.Verify(got.Token, f.watch.Now().Add(time.Duration(got.UsableInMS)*time.Millisecond), f.server.epoch)
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

func TestPassthroughAdmitsOnEnter(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.admin("PATCH", "/admin/api/lines/default", `{"mode":"passthrough"}`, jsonType).want(200)
		got := f.public("POST", "/queue/enter", "").want(201).standing()
		if got.State != "admitted" || got.Token == "" || got.Ticket == "" {
			t.Errorf("%+v", got)
		}
		f.public("GET", "/queue/status", "").want(200).golden("status_passthrough")
	})
}

func TestSpentAndRemoved(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		ticket, token := f.admitted()
		claims := must(f.tokens.Verify(token, f.watch.Now(), f.server.epoch))(t)
		if err := f.line.Spend(context.Background(), []queue.Completion{{Subject: claims.Subject, TicketID: claims.TicketID}}); err != nil {
			t.Fatal(err)
		}
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_spent")

		other := f.enter()
		path := "/admin/api/lines/default/visitors/" + f.subject(other)
		f.admin("DELETE", path, "", jsonType).want(204)
		f.admin("DELETE", path, "", jsonType).problem(404, "not_found")
		f.public("GET", "/queue/position", "", ticketHeader(other)).want(200).golden("position_removed")
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
		if got := say(`{"paused":null,"sold_out":true,"message":null}`); got.Reason != "sold_out" || got.Message != "" {
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
		for range 100 {
			last = f.enter()
		}
		if got := f.public("GET", "/queue/position", "", ticketHeader(last)).standing(); got.Estimate != nil || got.Range != nil {
			t.Errorf("an estimate without movement: %+v", got)
		}
		for range 40 { // 1 per tick
			time.Sleep(100 * time.Millisecond)
			must(f.line.Admit(context.Background(), 10))(t)
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

func TestSecondTicketOfOneVisitorIsReplaced(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		first := f.enter()
		held := must(f.tickets.Verify(first, DefaultLine, f.watch.Now()))(t)
		later := held
		later.ID, later.Place = queue.NewID(), held.Place+1000
		second := must(f.tickets.Sign(later, f.watch.Now()))(t)
		a := f.public("GET", "/queue/position", "", ticketHeader(second)).want(200)
		given := a.standing().Ticket
		if got := must(f.tickets.Verify(given, DefaultLine, f.watch.Now()))(t); got.ID != held.ID || got.Place != held.Place {
			t.Errorf("given %+v instead of %+v", got, held)
		}
		if a.header.Get(headerTicket) != given || onlyCookie(t, a).Value != given {
			t.Errorf("header or cookie differ: %v", a.header)
		}
	})
}

func TestAGenuineTicketBringsItsPlaceBack(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.enter()
		place := f.watch.Now().Add(-time.Minute)
		lost := queue.Ticket{Line: DefaultLine, Subject: queue.NewID(), ID: queue.NewID(), Place: place.UnixMicro()}
		ticket := must(f.tickets.Sign(lost, f.watch.Now()))(t)
		got := f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200).standing()
		if got.Position != 1 || !got.EnteredAt.Equal(place.Truncate(time.Millisecond)) || f.subject(got.Ticket) != lost.Subject {
			t.Errorf("%+v", got)
		}
	})
}

func TestTicketsRefused(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.TicketTTL = time.Hour }}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		_, token := f.admitted()
		foreign := must(queue.NewTickets([][]byte{[]byte("another secret that is 32 bytes.")}, time.Hour))(t)
		for name, tc := range map[string]struct {
			target string
			ticket string
			code   string
		}{
			"none":       {"/queue/position", "", "ticket_missing"},
			"rubbish":    {"/queue/position", "a.b.c", "ticket_invalid"},
			"huge":       {"/queue/position", strings.Repeat("x", 8000), "ticket_invalid"},
			"tampered":   {"/queue/position", ticket[:len(ticket)-4] + "AAAA", "ticket_invalid"},
			"other line": {"/queue/position?line=side", ticket, "ticket_invalid"},
			"token":      {"/queue/position", token, "ticket_invalid"},
			"unsigned":   {"/queue/position", "eyJhbGciOiJub25lIn0.e30.", "ticket_invalid"},
			"foreign key": {"/queue/position", must(foreign.Sign(queue.Ticket{
				Line: DefaultLine, Subject: "a", ID: "b", Place: 1}, f.watch.Now()))(t), "ticket_invalid"},
		} {
			t.Log(name)
			var h headers
			if tc.ticket != "" {
				h = headers{ticketHeader(tc.ticket)}
			}
			f.public("GET", tc.target, "", h...).problem(401, tc.code)
			f.public("POST", strings.Replace(tc.target, "position", "leave", 1), "", h...).problem(401, tc.code)
		}
		f.admin("POST", "/admin/api/lines/default/restart", "{}", jsonType).want(200)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(401, "ticket_expired")
		f.public("POST", "/queue/leave", "", ticketHeader(ticket)).want(204)
		fresh := f.enter()
		time.Sleep(time.Hour)
		f.public("GET", "/queue/position", "", ticketHeader(fresh)).problem(401, "ticket_expired")
		f.public("POST", "/queue/leave", "", ticketHeader(fresh)).want(204)
	})
}

func TestLeave(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		for range 2 { // also when already gone; body and type are ignored
			a := f.public("POST", "/queue/leave", "whatever", "Content-Type: text/plain", "Cookie: sluice_ticket="+ticket).want(204).golden("leave")
			if c := onlyCookie(t, a); c.Value != "" || !c.Expires.Before(time.Unix(1000, 0)) {
				t.Errorf("the cookie stays: %v", c)
			}
		}
		waitingIs(t, f, 0)
	})
}

func TestLinesNotFound(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for _, line := range []string{"nosuch", "UPPER", "a%20b", "..%2f", strings.Repeat("a", 200), "%00"} {
			f.public("POST", "/queue/enter?line="+line, "").problem(404, "line_not_found")
			f.public("GET", "/queue/position?line="+line, "").problem(404, "line_not_found")
			f.public("POST", "/queue/leave?line="+line, "").problem(404, "line_not_found")
			f.public("GET", "/queue/status?line="+line, "").problem(404, "line_not_found")
			f.admin("GET", "/admin/api/lines/"+line, "").problem(404, "line_not_found")
		}
	})
}

func TestFullLine(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.Initial.MaxLength = 1 }}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		a := f.public("POST", "/queue/enter", "").problem(503, "queue_full")
		if a.header.Get("Set-Cookie") != "" {
			t.Error("a cookie without a place")
		}
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200)
	})
}

// deafLine is a line whose store does not answer: some calls fail, some hang.
type deafLine struct {
	queue.Line
	hangs bool
}

func (l deafLine) answer(ctx context.Context) error {
	if l.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("%w: connection refused", queue.ErrUnavailable)
}

func (l deafLine) Enter(ctx context.Context, _ string, _ *queue.Ticket) (queue.Standing, error) {
	return queue.Standing{}, l.answer(ctx)
}
func (l deafLine) Standing(ctx context.Context, _ queue.Ticket) (queue.Standing, error) {
	return queue.Standing{}, l.answer(ctx)
}
func (l deafLine) Leave(ctx context.Context, _ queue.Ticket) error { return l.answer(ctx) }
func (l deafLine) Remove(ctx context.Context, _ string) (bool, error) {
	return false, l.answer(ctx)
}
func (l deafLine) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	return queue.Snapshot{}, l.answer(ctx)
}
func (l deafLine) Configure(ctx context.Context, _ queue.Patch) (queue.Settings, error) {
	return queue.Settings{}, l.answer(ctx)
}
func (l deafLine) Restart(ctx context.Context) (int64, error) { return 0, l.answer(ctx) }

func TestQueueUnavailable(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprint("hangs ", hangs), func(t *testing.T) {
			deaf := func(l queue.Line) queue.Line { return deafLine{l, hangs} }
			inBubble(t, setup{line: deaf}, func(t *testing.T, f *fixture) {
				ticket := must(f.tickets.Sign(queue.Ticket{Line: DefaultLine, Subject: "a", ID: "b", Place: 1}, time.Now()))(t)
				began := time.Now()
				for _, a := range []answered{
					f.public("POST", "/queue/enter", ""),
					f.public("GET", "/queue/position", "", ticketHeader(ticket)),
					f.public("POST", "/queue/leave", "", ticketHeader(ticket)),
					f.public("GET", "/queue/status", ""),
					f.admin("GET", "/admin/api/lines", ""),
					f.admin("GET", "/admin/api/lines/default", ""),
					f.admin("PATCH", "/admin/api/lines/default", `{"paused":true}`, jsonType),
					f.admin("POST", "/admin/api/lines/default/restart", "", jsonType),
					f.admin("DELETE", "/admin/api/lines/default/visitors/x", "", jsonType),
				} {
					a.problem(503, "queue_unavailable")
				}
				if took := time.Since(began); took > 6*queueTimeout {
					t.Errorf("six calls of the line took %s", took)
				}
			})
		})
	}
}

func TestQueueErrorKeepsOthers(t *testing.T) {
	if err := queueError("x", queue.ErrFull); !errors.Is(err, queue.ErrFull) || errors.Is(err, queue.ErrUnavailable) {
		t.Error(err)
	}
}

func TestWaitingAnswerAllocatesLittle(t *testing.T) {
	f := newFixture(t, setup{})
	st := queue.Standing{State: queue.Waiting, Position: 342, Length: 1207, Ticket: queue.Ticket{Place: time.Now().UnixMicro()}}
	c := f.server.public.AcquireCtx(newRequestCtx())
	defer f.server.public.ReleaseCtx(c)
	l := f.server.byID[DefaultLine]
	got := testing.AllocsPerRun(100, func() {
		c.Response().ResetBody()
		if err := f.server.standingAnswer(c, l, st, ""); err != nil {
			t.Error(err)
		}
	})
	if got > 2 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkWaitingAnswer(b *testing.B) {
	f := newFixture(b, setup{})
	st := queue.Standing{State: queue.Waiting, Position: 342, Length: 1207, Ticket: queue.Ticket{Place: time.Now().UnixMicro()}}
	c := f.server.public.AcquireCtx(newRequestCtx())
	defer f.server.public.ReleaseCtx(c)
	l := f.server.byID[DefaultLine]
	b.ReportAllocs()
	for b.Loop() {
		c.Response().ResetBody()
		_ = f.server.standingAnswer(c, l, st, "")
	}
}

// BenchmarkPosition is a whole poll but for the socket: route, ticket, line,
// answer, metrics.
func BenchmarkPosition(b *testing.B) {
	f := newFixture(b, setup{config: func(c *Config) { c.AccessLogEvery = 0 }})
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
}
