package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"sluice/orders"
	"sluice/queue"
)

// slowStore takes its time over every order, and none of the database's.
type slowStore struct {
	orders.Store
	takes time.Duration
}

func (s slowStore) Place(_ context.Context, group []orders.Request) []orders.Placed {
	time.Sleep(s.takes)
	placed := make([]orders.Placed, len(group))
	for i, r := range group {
		placed[i] = orders.Placed{Created: true, Order: orders.Order{
			ID: r.Buyer.TokenID, Buyer: r.Buyer, State: orders.Pending, Items: make([]orders.Item, len(r.Cart)),
		}}
	}
	return placed
}

// The queue's latency does not depend on that of the orders. Every worker is
// taken, the backlog is full, more buyers come back again and again, and still
// no time passes between a visitor's question and its answer: on virtual time,
// which passes only when everybody waits for something. Meanwhile the orders
// proceed as fast as their workers can and no faster.
func TestQueueIsQuickBesideSlowOrders(t *testing.T) {
	const (
		takes                  = 1298 * time.Millisecond
		workers, backlog, more = 10, 40, 30
		rounds                 = 10
	)
	slow := setup{orders: withOrders(), store: func(s orders.Store) orders.Store { return slowStore{s, takes} }}
	slow.orders.Workers, slow.orders.Backlog = workers, backlog
	slow.orders.TestDelay = takes // so that each is alone, and all workers taken
	inBubble(t, slow, func(t *testing.T, f *fixture) {
		public, admin := fasthttputil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.server.Serve(ctx, public, admin, Drain{Timeout: time.Minute}) }()

		var buyers sync.WaitGroup
		var enough atomic.Bool
		defer func() {
			enough.Store(true)
			buyers.Wait()
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // fasthttp's workers look now and then whether they were stopped
		}()
		for i := range workers + backlog + more {
			buyers.Go(func() {
				c := newClient(t, public)
				for n := 0; !enough.Load(); n++ {
					token := f.mint(fmt.Sprint("buyer-", i, "-", n))
					for !enough.Load() {
						a := c.ask("POST", "/orders", cart(1, 1), jsonType, bearerToken(token))
						if a.status == 201 {
							break
						}
						if a.status != 503 {
							t.Errorf("%d %s", a.status, a.body)
						}
						time.Sleep(time.Second)
					}
				}
			})
		}
		visitor := newClient(t, public)
		atOnce := func(method, target string, h ...string) answered {
			t.Helper()
			asked := time.Now()
			a := visitor.ask(method, target, "", h...)
			if took := time.Since(asked); took > 0 {
				t.Errorf("%s %s took %s", method, target, took)
			}
			return a
		}
		time.Sleep(takes / 8) // never at the moment when workers change hands
		before := f.orders.PoolStats()
		for range rounds {
			for range 4 {
				if stats := f.orders.PoolStats(); stats.Busy != workers || stats.Backlog != backlog {
					t.Fatalf("not saturated: %+v", stats)
				}
				ticket := atOnce("POST", "/queue/enter").want(201).standing().Ticket
				if got := atOnce("GET", "/queue/position", ticketHeader(ticket)).want(200).standing(); got.State != "waiting" || got.Position < 1 {
					t.Errorf("%+v", got)
				}
				atOnce("GET", "/queue/status").want(200)
				time.Sleep(takes / 4)
			}
		}
		after := f.orders.PoolStats()
		if got := after.Completed - before.Completed; got != rounds*workers {
			t.Errorf("%d orders in %s instead of %d", got, rounds*takes, rounds*workers)
		}
		if after.Refused == before.Refused {
			t.Error("nobody found the backlog full")
		}
	})
}

// mint makes a token for somebody who was let in.
func (f *fixture) mint(id string) string {
	f.t.Helper()
	now := f.watch.Now().Truncate(time.Millisecond)
	return must(f.tokens.Mint(queue.Admission{Line: DefaultLine, Subject: id, TicketID: id, Place: 1,
		AdmittedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Hour)}))(f.t)
}

// client keeps one connection to a server.
type client struct {
	t    *testing.T
	conn net.Conn
	read *bufio.Reader
}

func newClient(t *testing.T, server *fasthttputil.InmemoryListener) *client {
	t.Helper()
	c := must(server.Dial())(t)
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) ask(method, target, body string, h ...string) answered {
	c.t.Helper()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", method, target, len(body))
	for _, line := range h {
		request += line + "\r\n"
	}
	_, _ = fmt.Fprint(c.conn, request, "\r\n", body)
	return readAnswer(c.t, c.read, method)
}
