package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/orders"
	"sluice/queue"
)

// moodyProvider says what it is told to say; it is silent while that is nothing.
type moodyProvider struct {
	mu    sync.Mutex
	says  *orders.Outcome // guarded by mu
	asked int             // guarded by mu
}

func (p *moodyProvider) Charge(ctx context.Context, _ orders.Payment) (orders.Outcome, error) {
	p.mu.Lock()
	p.asked++
	says := p.says
	p.mu.Unlock()
	if says == nil {
		<-ctx.Done()
		return orders.Outcome{}, ctx.Err()
	}
	return *says, nil
}

// say makes it say that, and returns how often it has been asked.
func (p *moodyProvider) say(o *orders.Outcome) (asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.says = o
	return p.asked
}

var (
	takesIt  = &orders.Outcome{Paid: true, Reference: "r"}
	declines = &orders.Outcome{Reason: "The card has expired."}
)

func paying() (*moodyProvider, *stubbornStore, setup) {
	provider := &moodyProvider{says: takesIt}
	store, with := stubborn()
	with.orders.Provider = provider
	return provider, store, with
}

// ordered places an order; paid asks for the payment of it.
func (f *fixture) ordered() (id, token string) {
	f.t.Helper()
	_, token = f.admitted()
	var order struct {
		ID string `json:"order_id"`
	}
	f.public("POST", "/orders", cart(f.product(10, ""), 1), jsonType, bearerToken(token)).want(201).into(&order)
	return order.ID, token
}

const byCard = `{"method":"card"}`

func (f *fixture) pay(id, token string) answered {
	f.t.Helper()
	return f.public("POST", "/orders/"+id+"/payment", byCard, jsonType, bearerToken(token))
}

func (f *fixture) stateOf(id, token string) string {
	f.t.Helper()
	var order struct{ State string }
	f.public("GET", "/orders/"+id, "", bearerToken(token)).want(200).into(&order)
	return order.State
}

func TestPay(t *testing.T) {
	provider, _, with := paying()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		a := f.pay(id, token).want(200).golden("payment_paid")
		time.Sleep(time.Second)
		if again := f.pay(id, token).want(200); again.body != a.body {
			t.Errorf("%s after %s", again.body, a.body)
		}
		f.public("GET", "/orders/"+id, "", bearerToken(token)).want(200).golden("order_paid")
		if asked := provider.say(nil); asked != 1 {
			t.Errorf("the provider was asked %d times", asked)
		}
	})
}

func TestDeclinedThenPaid(t *testing.T) {
	provider, _, with := paying()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		provider.say(declines)
		f.pay(id, token).problem(402, "payment_declined").golden("problem_payment_declined")
		if got := f.stateOf(id, token); got != "declined" {
			t.Errorf("the order is %s", got)
		}
		provider.say(&orders.Outcome{})
		if a := f.pay(id, token).problem(402, "payment_declined"); !strings.Contains(a.body, "may be tried again") {
			t.Errorf("without a reason the detail is %s", a.body)
		}
		provider.say(takesIt)
		f.pay(id, token).want(200)
	})
}

func TestPaymentUnknown(t *testing.T) {
	provider, _, with := paying()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		provider.say(nil)
		f.pay(id, token).want(202).golden("payment_unknown")
		if got := f.stateOf(id, token); got != "payment_unknown" {
			t.Errorf("the order is %s", got)
		}
		provider.say(takesIt)
		f.pay(id, token).want(200)
		if got := f.stateOf(id, token); got != "paid" {
			t.Errorf("the order is %s", got)
		}
	})
}

// An order is paid with the token that made it, whose time may be over, and no other.
func TestWhoMayPay(t *testing.T) {
	_, _, with := paying()
	with.queue = func(o *queue.Options) { o.AdmissionTTL = 10 * time.Second }
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		_, other := f.admitted()
		f.public("POST", "/orders/"+id+"/payment", "no JSON").problem(401, "token_missing") // who you are first
		f.pay(id, other).problem(403, "order_of_another")
		for _, id := range []string{"nosuch", "%00", strings.Repeat("9", 500), "'%20or%201=1"} {
			f.pay(id, token).problem(404, "order_not_found")
		}
		now := f.watch.Now().Truncate(time.Millisecond)
		early := must(f.tokens.Mint(queue.Admission{Line: DefaultLine, Subject: "a", TicketID: "b", Place: 1,
			AdmittedAt: now, NotBefore: now.Add(time.Second), ExpiresAt: now.Add(time.Minute)}))(t)
		f.pay(id, early).problem(425, "token_too_early")
		time.Sleep(10 * time.Second)
		f.pay(id, token).want(200)
		time.Sleep(80 * time.Second) // longer than the expiry and the time for follow-ups
		f.pay(id, token).problem(401, "token_expired")
	})
}

func TestPaymentsRefused(t *testing.T) {
	_, store, with := paying()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		path := "/orders/" + id + "/payment"
		for _, body := range []string{"", "{}", `{"method":""}`, `{"method":1}`, `{"method":"card","amount":1}`, `{"method":"` + strings.Repeat("x", 65) + `"}`} {
			f.public("POST", path, body, jsonType, bearerToken(token)).problem(400, "invalid_request")
		}
		f.public("POST", path, byCard, bearerToken(token)).problem(415, "unsupported_media_type")
		store.set(fmt.Errorf("%w: gone", orders.ErrDatabase), nil)
		f.pay(id, token).problem(503, "database_unavailable")
		store.set(errors.New("unforeseen"), nil)
		f.pay(id, token).problem(500, "internal_error")
		store.set(nil, nil)
		// The age of an order is by the database's clock, which is not virtual.
		if n, err := store.CancelUnpaid(context.Background(), -time.Minute, 10); n != 1 || err != nil {
			t.Fatalf("%d orders cancelled, %v", n, err)
		}
		f.pay(id, token).problem(409, "order_state")
		f.admin("GET", "/admin/api/orders/summary", "").want(200).golden("admin_summary_cancelled")
	})
}

func TestPaymentsElsewhere(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id, token := f.ordered()
		if a := f.pay(id, token).problem(404, "not_found"); !strings.Contains(a.body, "Payments are not taken here") {
			t.Error(a.body)
		}
	})
}
