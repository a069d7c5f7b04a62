package web

import (
	"context"
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
		for _, body := range []string{"[]", "null", `""`, "{", "{}{}", `{"a":1}`, "\xff", "\u00a0", "\v\f", "\u2003{}"} {
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
		claims := must(f.tokens.Verify(token, f.server.now, f.server.epoch))(t)
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
