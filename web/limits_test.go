package web

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"sluice/queue"
)

// askedLine counts what the store is asked.
type askedLine struct {
	queue.Line
	standings, enters, leaves atomic.Int64
}

func (l *askedLine) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	l.standings.Add(1)
	return l.Line.Standing(ctx, t)
}

func (l *askedLine) Enter(ctx context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	l.enters.Add(1)
	return l.Line.Enter(ctx, subject, held)
}

func (l *askedLine) Leave(ctx context.Context, t queue.Ticket) error {
	l.leaves.Add(1)
	return l.Line.Leave(ctx, t)
}

func (l *askedLine) asked() int64 { return l.standings.Load() + l.enters.Load() + l.leaves.Load() }

// withLimits is a setup with limits, and the line whose calls it counts.
func withLimits(l Limits) (setup, *askedLine) {
	store := &askedLine{}
	return setup{
		line: func(l queue.Line) queue.Line { store.Line = l; return store },
		config: func(c *Config) {
			c.Limits = l
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/32")} // where the tests come from
		},
	}, store
}

func TestPollingFarTooFastIsRefused(t *testing.T) {
	with, store := withLimits(Limits{PollFactor: 20})
	inBubble(t, with, func(t *testing.T, f *fixture) {
		if err := f.watch.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ticket, patient := f.enter(), f.enter()
		told := f.public("GET", "/queue/position", "", ticketHeader(patient)).want(200).standing().PollAfterMS
		// As often as the ticket may; the enter was once, and all at the same moment.
		for range 19 {
			f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
		}
		before := store.asked()
		refused := f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(429, "rate_limited")
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).problem(429, "rate_limited")
		f.public("POST", "/queue/leave", "", ticketHeader(ticket)).problem(429, "rate_limited")
		if store.asked() != before {
			t.Error("the line was asked")
		}
		// Nobody makes another's ticket refused by showing something like it.
		f.public("GET", "/queue/position", "", ticketHeader(patient[:len(patient)-3]+"abc")).problem(401, "ticket_invalid")
		f.public("GET", "/queue/position", "", ticketHeader(patient)).want(200)

		var p struct {
			Retry int64 `json:"retry_after_ms"`
		}
		if refused.into(&p); p.Retry > told {
			t.Errorf("told to wait %d ms with intervals of %d", p.Retry, told)
		}
		time.Sleep(time.Duration(p.Retry) * time.Millisecond)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).problem(429, "rate_limited")
		time.Sleep(time.Minute)
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); got.Position != 1 {
			t.Errorf("position %d: the place was not kept", got.Position)
		}
	})
}

// Whose wait is over is told no interval, and has none to keep; asking without end is
// bounded all the same.
func TestPollingAfterTheEndIsBounded(t *testing.T) {
	with, store := withLimits(Limits{PollFactor: 20})
	inBubble(t, with, func(t *testing.T, f *fixture) {
		ticket, _ := f.admitted()
		began := store.asked()
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			f.public("GET", "/queue/position", "", ticketHeader(ticket))
		}
		if asked := store.asked() - began; asked < 200 || asked > 230 {
			t.Errorf("the line was asked %d times in 10 s", asked)
		}
	})
}

func from(address string) string { return "X-Forwarded-For: " + address }

func TestEnteringFromOneAddressIsBounded(t *testing.T) {
	with, store := withLimits(Limits{EnterPerAddress: 3})
	inBubble(t, with, func(t *testing.T, f *fixture) {
		const home = "198.51.100.7"
		var tickets []string
		for range 3 {
			tickets = append(tickets, f.public("POST", "/queue/enter", "", from(home)).want(201).standing().Ticket)
		}
		before := store.enters.Load()
		refused := f.public("POST", "/queue/enter", "", from(home)).problem(429, "rate_limited")
		if refused.header.Get("Set-Cookie") != "" || store.enters.Load() != before {
			t.Error("somebody refused got somewhere")
		}
		// Whoever is in is no newcomer: a reload, a poll, and coming back from being away.
		for range 10 {
			if got := f.public("POST", "/queue/enter", "", from(home), ticketHeader(tickets[0])).want(200).standing(); got.Position != 1 || got.Ticket == "" {
				t.Errorf("%+v", got)
			}
			f.public("GET", "/queue/position", "", from(home), ticketHeader(tickets[1])).want(200)
		}
		// Whoever has left is.
		f.public("POST", "/queue/leave", "", from(home), ticketHeader(tickets[2])).want(204)
		f.public("POST", "/queue/enter", "", from(home), ticketHeader(tickets[2])).problem(429, "rate_limited")
		// Neither another address, nor what the visitor made up, changes that.
		f.public("POST", "/queue/enter", "", from("198.51.100.8")).want(201)
		f.public("POST", "/queue/enter", "", from("203.0.113.1, "+home)).problem(429, "rate_limited")
		// One visitor of IPv6 has a whole network.
		for i := range 3 {
			f.public("POST", "/queue/enter", "", from(fmt.Sprintf("2001:db8:0:1::%d", i+1))).want(201)
		}
		f.public("POST", "/queue/enter", "", from("2001:db8:0:1:ffff::1")).problem(429, "rate_limited")
		f.public("POST", "/queue/enter", "", from("2001:db8:0:2::1")).want(201)

		time.Sleep(20 * time.Second) // a third of a minute, one of three
		f.public("POST", "/queue/enter", "", from(home)).want(201)
		f.public("POST", "/queue/enter", "", from(home)).problem(429, "rate_limited")
	})
}

// Who was refused by the line has not entered.
func TestOnlyNewPlacesCount(t *testing.T) {
	with, _ := withLimits(Limits{EnterPerAddress: 3})
	inBubble(t, with, func(t *testing.T, f *fixture) {
		ticket := f.enter()
		f.admin("PATCH", "/admin/api/lines/default", `{"max_length":1}`, jsonType).want(200)
		for range 20 {
			f.public("POST", "/queue/enter", "").problem(503, "queue_full")
		}
		f.admin("PATCH", "/admin/api/lines/default", `{"max_length":null}`, jsonType).want(200)
		f.enter()
		// A ticket of an earlier epoch is none.
		f.admin("POST", "/admin/api/lines/default/restart", `{}`, jsonType).want(200)
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(201)
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).problem(429, "rate_limited")
	})
}

// Entering and leaving leaves a record each time, for as long as a ticket lives: with
// limits one address leaves no more than it may enter.
func TestEnteringAndLeavingIsBounded(t *testing.T) {
	with, store := withLimits(Limits{EnterPerAddress: 60, PollFactor: 20})
	inBubble(t, with, func(t *testing.T, f *fixture) {
		ticket, before := "", store.leaves.Load()
		for range 6000 { // 10 minutes
			time.Sleep(100 * time.Millisecond)
			a := f.public("POST", "/queue/enter", "", ticketHeader(ticket))
			if a.status == 201 {
				ticket = a.standing().Ticket
				f.public("POST", "/queue/leave", "", ticketHeader(ticket)).want(204)
			}
		}
		if left := store.leaves.Load() - before; left < 600 || left > 660 {
			t.Errorf("%d tickets have ended", left)
		}
	})
}
