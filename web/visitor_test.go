package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

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

func TestTicketsRefused(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.TicketTTL = 10 * time.Minute }}, func(t *testing.T, f *fixture) {
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
		time.Sleep(10 * time.Minute)
		f.public("GET", "/queue/position", "", ticketHeader(fresh)).problem(401, "ticket_expired")
		f.public("POST", "/queue/leave", "", ticketHeader(fresh)).want(204)
		waitingIs(t, f, 0) // nobody is left behind in the line
	})
}

// Whoever keeps polling is given a new ticket for the same place in time: a wait
// may be longer than a ticket is good.
func TestTicketsAreRenewed(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.TicketTTL = 10 * time.Minute }}, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		first := must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(t)
		renewed := 0
		for range 5 * 60 {
			time.Sleep(10 * time.Second) // virtual
			a := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
			if got := a.standing(); got.Ticket != "" {
				if a.header.Get("X-Queue-Ticket") != got.Ticket || !strings.Contains(a.header.Get("Set-Cookie"), got.Ticket) {
					t.Fatalf("the new ticket is not in header and cookie: %v", a.header)
				}
				ticket = got.Ticket
				renewed++
			}
			if got := a.standing(); got.Position != 1 || got.Waiting != 1 {
				t.Fatalf("position %d of %d", got.Position, got.Waiting)
			}
		}
		last := must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(t)
		if last.ID != first.ID || last.Place != first.Place {
			t.Errorf("another place: %+v, first %+v", last, first)
		}
		if renewed < 8 || renewed > 10 { // in fifty minutes, a new one after each half
			t.Errorf("%d renewals", renewed)
		}
	})
}
