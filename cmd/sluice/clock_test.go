package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// machine is what an instance makes of time: a line on the shared Redis, the store's
// time as it knows it, and what it signs and judges by that.
type machine struct {
	*testing.T
	line    *redisqueue.Line
	watch   *queue.Watch
	tickets *queue.Tickets
	tokens  *admission.Tokens
	store   func() time.Time // asks Redis itself
}

func newMachine(t *testing.T, url string) *machine {
	t.Helper()
	client, err := redisqueue.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	options := queue.DefaultOptions()
	options.Jitter = 0
	line, err := redisqueue.New(client, "default", options)
	if err != nil {
		t.Fatal(err)
	}
	secrets := [][]byte{[]byte(strings.Repeat("shared-secret-", 3))}
	tickets, err := queue.NewTickets(secrets, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := admission.NewTokens(secrets)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		T: t, line: line, watch: queue.NewWatch(line, time.Second, slog.New(slog.DiscardHandler)), tickets: tickets, tokens: tokens,
		store: func() time.Time {
			now, err := client.Time(context.Background()).Result()
			if err != nil {
				t.Fatal(err)
			}
			return now
		},
	}
	m.refresh()
	return m
}

func (m *machine) refresh() {
	m.Helper()
	if err := m.watch.Refresh(context.Background()); err != nil {
		m.Fatal(err)
	}
	if off := m.watch.Now().Sub(m.store()).Abs(); off > time.Minute {
		m.Errorf("this machine takes the store's time for %v off", off)
	}
}

// papers are what a visitor carries from one machine to another.
type papers struct {
	ticket, token string
	place         int64
}

// letIn takes a visitor through the line.
func (m *machine) letIn(subject string) papers {
	m.Helper()
	ctx := context.Background()
	m.refresh()
	s, err := m.line.Enter(ctx, subject, nil)
	if err != nil {
		m.Fatal(err)
	}
	if off := queue.EnteredAt(s.Ticket.Place).Sub(m.store()).Abs(); off > time.Minute {
		m.Errorf("the place is %v off the store's time", off)
	}
	ticket, err := m.tickets.Sign(s.Ticket, m.watch.Now())
	if err != nil {
		m.Fatal(err)
	}
	for range 1_000_000 { // each takes a moment, also where time stands still
		if s, err = m.line.Standing(ctx, s.Ticket); err == nil && s.State != queue.Admitted {
			_, err = m.line.Admit(ctx, 1000, queue.LimitedByCapacity)
		}
		if err != nil {
			m.Fatal(err)
		}
		if s.State == queue.Admitted {
			break
		}
	}
	token, err := m.tokens.Mint(s.Admission)
	if err != nil {
		m.Fatal(err)
	}
	return papers{ticket, token, s.Ticket.Place}
}

// judge takes the papers of another machine.
func (m *machine) judge(p papers) {
	m.Helper()
	m.refresh()
	ticket, err := m.tickets.Verify(p.ticket, "default", m.watch.Now())
	if err != nil || ticket.Place != p.place {
		m.Fatalf("the ticket: %+v, %v", ticket, err)
	}
	if s, err := m.line.Standing(context.Background(), ticket); err != nil || s.State != queue.Admitted {
		m.Errorf("stands as %+v, %v", s, err)
	}
	claims, err := m.verify(p.token, 0)
	if err != nil {
		m.Errorf("the token: %v", err)
	}
	left := claims.ExpiresAt.Sub(m.store())
	if _, err := m.verify(p.token, left+time.Minute); !errors.Is(err, admission.ErrTokenExpired) {
		m.Errorf("the token a minute after it ends: %v", err)
	}
}

// verify judges a token after some more time.
func (m *machine) verify(token string, later time.Duration) (admission.Claims, error) {
	return m.tokens.Verify(token, func(string) time.Time { return m.watch.Now().Add(later) }, func(string) (int64, bool) { return 0, true })
}

// An instance on a machine whose clock is decades behind (the time of a bubble begins in
// the year 2000) and one whose clock is right: what either signs the other takes, both end
// it at the same time, and places go on in one order.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	url := servicetest.OwnRedis(t).URL
	right := newMachine(t, url)
	first := right.letIn("first")
	var second papers
	synctest.Test(t, func(t *testing.T) {
		if year := time.Now().Year(); year > 2001 {
			t.Fatalf("the clock is not wrong: %d", year)
		}
		wrong := newMachine(t, url)
		wrong.judge(first)
		second = wrong.letIn("second")
	})
	right.judge(second)
	third := right.letIn("third")
	if first.place >= second.place || second.place >= third.place {
		t.Errorf("places %d, %d, %d", first.place, second.place, third.place)
	}
}
