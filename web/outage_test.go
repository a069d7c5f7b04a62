package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/orders"
	"sluice/queue"
)

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
func (l deafLine) Export(ctx context.Context) ([]queue.Record, error) { return nil, l.answer(ctx) }
func (l deafLine) Restart(ctx context.Context) (int64, error)         { return 0, l.answer(ctx) }

func TestQueueUnavailable(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprint("hangs ", hangs), func(t *testing.T) {
			deaf := func(l queue.Line) queue.Line { return deafLine{l, hangs} }
			inBubble(t, setup{line: deaf}, func(t *testing.T, f *fixture) {
				ticket := must(f.tickets.Sign(queue.Ticket{Line: DefaultLine, Subject: "a", ID: "b", Place: 1}, time.Now()))(t)
				f.admin("GET", "/admin/api/lines/default/audit", "").problem(503, "queue_unavailable")
				f.admin("PATCH", "/admin/api/lines/default", `{"opens_at":null}`, jsonType).problem(503, "queue_unavailable")
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
				began = time.Now()
				f.admin("PUT", "/admin/api/lines/default", `{"paused":true}`, jsonType).problem(503, "queue_unavailable")
				if took := time.Since(began); took > createTimeout {
					t.Errorf("a line is made in vain for %s", took)
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

func TestDatabaseUnavailable(t *testing.T) {
	store, with := stubborn()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, coupon := f.product(10, ""), f.coupon(1, "")
		_, token := f.admitted()
		store.set(fmt.Errorf("%w: dial tcp: root:secret@db refused", orders.ErrDatabase), nil)
		for _, a := range []answered{
			f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)),
			f.public("GET", "/orders/x", "", bearerToken(token)),
			f.admin("GET", "/admin/api/orders/summary", ""),
			f.public("POST", claimOf(coupon), "", bearerToken(token)),
			f.admin("POST", "/admin/api/products", `{"name":"x","price":1,"stock":1}`, jsonType),
			f.admin("POST", "/admin/api/coupons", `{"name":"x","quantity":1}`, jsonType),
		} {
			if a.problem(503, "database_unavailable"); strings.Contains(a.body, "secret") {
				t.Errorf("the cause is told: %s", a.body)
			}
		}
		f.admin("GET", "/readyz", "").want(200).golden("readyz_database_away")
		f.public("GET", "/products", "").want(200) // the last ones read
		f.public("GET", "/coupons", "").want(200)
		store.set(nil, nil)
		f.admin("GET", "/readyz", "").want(200).golden("readyz")
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
	})
}

func TestCatalogueBeforeTheFirstReading(t *testing.T) {
	store, with := stubborn()
	store.set(orders.ErrDatabase, nil)
	inBubble(t, with, func(t *testing.T, f *fixture) {
		f.public("GET", "/products", "").problem(503, "database_unavailable")
		f.public("GET", "/products/1", "").problem(503, "database_unavailable")
		f.public("GET", "/coupons", "").problem(503, "database_unavailable")
		f.public("GET", "/coupons/1", "").problem(503, "database_unavailable")
		f.admin("GET", "/readyz", "").want(503)
	})
}

// The log says why, once per second however many ask, and no password of it.
func TestCausesAreLogged(t *testing.T) {
	store, with := stubborn()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, token := f.admitted()
		causes := func() (lines []string) {
			for line := range strings.Lines(f.log.String()) {
				if strings.Contains(line, `"msg":"not available"`) {
					lines = append(lines, line)
				}
			}
			return lines
		}
		store.set(fmt.Errorf("%w: dial mysql://root:p@ss@db: refused: %s", orders.ErrDatabase, token), nil)
		var last answered
		for range 5 {
			last = f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(503, "database_unavailable")
		}
		if got := causes(); len(got) != 1 || !strings.Contains(got[0], "dial ***db: refused: ***") || !strings.Contains(got[0], `"left_out":0`) ||
			!strings.Contains(got[0], `"route":"/orders"`) || !strings.Contains(got[0], `"code":"database_unavailable"`) {
			t.Fatalf("%q", got)
		}
		time.Sleep(causeEvery)
		last = f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(503, "database_unavailable")
		if got := causes(); len(got) != 2 || !strings.Contains(got[1], `"left_out":4`) || !strings.Contains(got[1], last.header.Get(headerRequestID)) {
			t.Errorf("%q", got)
		}
		for _, secret := range []string{"root", "p@ss", "eyJ"} {
			if strings.Contains(strings.Join(causes(), ""), secret) {
				t.Errorf("%s is in the log", secret)
			}
		}
		store.set(nil, nil)
		f.admin("PATCH", "/admin/api/lines/default", `{"max_length":1}`, jsonType).want(200)
		f.enter()
		f.public("POST", "/queue/enter", "").problem(503, "queue_full")
		f.orders.Stop(0)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(503, "shutting_down")
		if got := causes(); len(got) != 2 {
			t.Errorf("routine is logged: %q", got[2:])
		}
	})
}

// One code's storm hides no other's cause.
func TestCausesAreCountedByCode(t *testing.T) {
	var cs causes
	now := time.Now()
	for _, tc := range []struct {
		code    string
		after   time.Duration
		leftOut int
		due     bool
	}{
		{"a", 0, 0, true}, {"a", 0, 0, false}, {"b", 0, 0, true}, {"a", causeEvery - 1, 0, false},
		{"a", causeEvery, 2, true}, {"a", causeEvery, 0, false}, {"b", causeEvery, 0, true}, {"a", 2 * causeEvery, 1, true},
	} {
		if leftOut, due := cs.due(tc.code, now.Add(tc.after)); leftOut != tc.leftOut || due != tc.due {
			t.Errorf("%+v: %d, %v", tc, leftOut, due)
		}
	}
}
