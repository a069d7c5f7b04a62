package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/admission"
	"sluice/orders"
	"sluice/queue"
)

func TestPlaceAndReadAnOrder(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, token := f.admitted()
		a := f.public("POST", "/orders", cart(id, 2), jsonType, bearerToken(token)).want(201).golden("order_new")
		var order struct {
			ID string `json:"order_id"`
		}
		a.into(&order)
		again := f.public("POST", "/orders", cart(id, 2), "Content-Type: application/json; charset=UTF-8", "Authorization: bearer  "+token).want(200)
		read := f.public("GET", "/orders/"+order.ID, "", bearerToken(token)).want(200).golden("order_read")
		if again.body != a.body || read.body != a.body {
			t.Errorf("three answers differ:\n%s\n%s\n%s", a.body, again.body, read.body)
		}
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(409, "token_spent")
		f.sold(t, 2)

		_, other := f.admitted()
		f.public("GET", "/orders/"+order.ID, "", bearerToken(other)).problem(403, "order_of_another")
		f.public("GET", "/orders/"+order.ID, "").problem(401, "token_missing")
		for _, id := range []string{"nosuch", "%00", strings.Repeat("9", 500), "..%2f..", "'%20or%201=1"} {
			f.public("GET", "/orders/"+id, "", bearerToken(other)).problem(404, "order_not_found")
		}
	})
}

func (f *fixture) sold(t *testing.T, want int64) {
	t.Helper()
	if got := must(f.orders.Summary(context.Background()))(t).ItemsSold; got != want {
		t.Errorf("%d sold instead of %d", got, want)
	}
}

// A line may be younger than what this process knows: whoever was let in there is
// asked to come back, and not sent away.
func TestATokenOfALineNotFoundYet(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		now := f.watch.Now().Truncate(time.Millisecond)
		token := must(f.tokens.Mint(queue.Admission{Line: "new", Subject: "a", TicketID: "b", Place: 1,
			AdmittedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Minute)}))(t)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(503, "queue_unavailable")
		f.public("GET", "/orders/x", "", bearerToken(token)).problem(503, "queue_unavailable")
		f.admin("PUT", "/admin/api/lines/new", "", jsonType).want(201)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
	})
}

// ahead is a line on a store whose clock is an hour ahead, as another node's of a
// cluster.
type ahead struct{ queue.Line }

func (l ahead) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	s, err := l.Line.Snapshot(ctx)
	s.At = s.At.Add(time.Hour)
	return s, err
}

// A token is judged by the clock of its own line, whatever another line's says.
func TestATokenIsJudgedByTheClockOfItsLine(t *testing.T) {
	inBubble(t, setup{orders: withOrders(), line: func(l queue.Line) queue.Line { return ahead{l} }}, func(t *testing.T, f *fixture) {
		side := f.server.lines.get("side").watch.Now()
		if d := f.watch.Now().Sub(side); d < time.Hour {
			t.Fatalf("the default line's clock is %s ahead", d)
		}
		order := func(line string, notBefore time.Time) answered {
			token := must(f.tokens.Mint(queue.Admission{
				Line: line, Subject: "v", TicketID: queue.NewID(), AdmittedAt: side, NotBefore: notBefore, ExpiresAt: notBefore.Add(time.Minute),
			}))(t)
			return f.public("POST", "/orders", cart(f.product(1, line), 1), jsonType, bearerToken(token))
		}
		order("side", side).want(201)
		order("side", side.Add(30*time.Minute)).problem(425, "token_too_early")
		order(DefaultLine, side.Add(time.Hour)).want(201)
		order(DefaultLine, side).problem(401, "token_expired")
	})
}

func TestTokensRefused(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		ticket, token := f.admitted()
		foreign := must(admission.NewTokens([][]byte{[]byte("another secret that is 32 bytes.")}))(t)
		now := f.watch.Now().Truncate(time.Millisecond)
		record := queue.Admission{Line: DefaultLine, Subject: "a", TicketID: "b", Place: 1,
			AdmittedAt: now, NotBefore: now.Add(-time.Second), ExpiresAt: now.Add(time.Minute)}
		for name, tc := range map[string]struct{ header, code string }{
			"none":        {"", "token_missing"},
			"basic":       {"Authorization: Basic " + token, "token_missing"},
			"empty":       {"Authorization: Bearer ", "token_missing"},
			"bare":        {"Authorization: " + token, "token_missing"},
			"rubbish":     {bearerToken("a.b.c"), "token_invalid"},
			"huge":        {bearerToken(strings.Repeat("x", 8000)), "token_invalid"},
			"a ticket":    {bearerToken(ticket), "token_invalid"},
			"tampered":    {bearerToken(token[:len(token)-4] + "AAAA"), "token_invalid"},
			"foreign key": {bearerToken(must(foreign.Mint(record))(t)), "token_invalid"},
		} {
			t.Log(name)
			h := headers{}
			if tc.header != "" {
				h = append(h, tc.header)
			}
			// Who you are is judged before what you sent.
			f.public("POST", "/orders", "no JSON, and not said to be", h...).problem(401, tc.code)
			f.public("POST", "/orders", cart(id, 1), append(h, jsonType)...).problem(401, tc.code)
			f.public("GET", "/orders/x", "", h...).problem(401, tc.code)
		}
		early := record
		early.NotBefore = f.watch.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
		raw := must(f.tokens.Mint(early))(t)
		f.public("GET", "/orders/x", "", bearerToken(raw)).problem(425, "token_too_early")
		a := f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(raw)).problem(425, "token_too_early")
		var p struct {
			RetryAfterMS int64 `json:"retry_after_ms"`
		}
		a.into(&p)
		if p.RetryAfterMS < 1400 || p.RetryAfterMS > 1500 || a.header.Get("Retry-After") != "2" {
			t.Errorf("retry after %d ms, %q s", p.RetryAfterMS, a.header.Get("Retry-After"))
		}
		time.Sleep(time.Duration(p.RetryAfterMS) * time.Millisecond)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(raw)).want(201)
		f.sold(t, 1)
	})
}

// tokenEnds runs a test for each way in which the time of a token is over, which end brings
// about.
func tokenEnds(t *testing.T, test func(t *testing.T, f *fixture, end func())) {
	for name, end := range map[string]func(*fixture){
		"expired": func(*fixture) { time.Sleep(10 * time.Second) },
		"earlier epoch": func(f *fixture) {
			f.admin("POST", "/admin/api/lines/default/restart", "", jsonType).want(200)
		},
	} {
		t.Run(name, func(t *testing.T) {
			short := setup{orders: withOrders(), queue: func(o *queue.Options) { o.AdmissionTTL = 10 * time.Second }}
			inBubble(t, short, func(t *testing.T, f *fixture) { test(t, f, func() { end(f) }) })
		})
	}
}

// A token whose time is over still reads and repeats what it made, for a while.
func TestFollowUp(t *testing.T) {
	tokenEnds(t, func(t *testing.T, f *fixture, end func()) {
		id := f.product(10, "")
		_, unused := f.admitted()
		_, token := f.admitted()
		a := f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
		var order struct {
			ID string `json:"order_id"`
		}
		a.into(&order)
		end()
		if again := f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(200); again.body != a.body {
			t.Errorf("another order: %s", again.body)
		}
		f.public("GET", "/orders/"+order.ID, "", bearerToken(token)).want(200)
		f.public("POST", "/orders", cart(id, 2), jsonType, bearerToken(token)).problem(409, "token_spent")
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(unused)).problem(401, "token_expired")
		f.sold(t, 1)
		time.Sleep(80 * time.Second) // longer than the expiry and the time for follow-ups
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(401, "token_expired")
		f.public("GET", "/orders/"+order.ID, "", bearerToken(token)).problem(401, "token_expired")
	})
}

func TestOrdersRefused(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, token := f.admitted()
		many := make([]string, orders.MaxItems+1)
		for i := range many {
			many[i] = fmt.Sprintf(`{"product_id":%d,"quantity":1}`, i+1)
		}
		one := fmt.Sprintf(`{"product_id":%d,"quantity":1}`, id)
		for _, tc := range []struct {
			body, detail string
		}{
			{"", "object"}, {"null", "object"}, {"[]", "object"}, {`"x"`, "object"},
			{"{", "well-formed"}, {`{"items":[` + one + `]}}`, "well-formed"}, {`{"items":[` + one + `]} {}`, "well-formed"},
			{`{"items":[` + one + `],}`, "well-formed"}, {"{\"items\":\"\xff\"}", "well-formed"},
			{`{"items":[` + one + `],"items":[]}`, `"/items" is there twice`},
			{`{"items":[` + one + `],"extra":1}`, `"/extra" is not known`},
			{`{"Items":[` + one + `]}`, `"/Items" is not known`},
			{`{"items":[{"product_id":1,"quantity":1,"price":1}]}`, `"/items/0/price" is not known`},
			{`{"items":[{"product_id":"1","quantity":1}]}`, `"/items/0/product_id" must be a whole number`},
			{`{"items":[{"product_id":1,"quantity":1.5}]}`, `"/items/0/quantity" must be a whole number`},
			{`{"items":[{"product_id":1,"quantity":99999999999999999999}]}`, `"/items/0/quantity" must be a whole number`},
			{`{"items":[{"product_id":1,"quantity":true}]}`, `must be a whole number`},
			{`{"items":{}}`, `"/items" must be a list`}, {`{"items":[1]}`, `"/items/0" must be an object`},
			{`{"coupon_code":1,"items":[` + one + `]}`, `"/coupon_code" must be a string`},
			{`{}`, "no items"}, {`{"items":[]}`, "no items"}, {`{"items":null}`, "no items"},
			{cart(id, 0), "quantity"}, {cart(id, -1), "quantity"}, {cart(id, orders.MaxQuantity+1), "quantity"},
			{cart(0, 1), "product_id"},
			{`{"items":[` + one + "," + one + `]}`, "twice"},
			{`{"items":[` + strings.Join(many, ",") + `]}`, "at most 100"},
			{strings.Repeat("[", 30_000), "object"}, {`{"items":` + strings.Repeat("[", 30_000), "must be an object"},
		} {
			a := f.public("POST", "/orders", tc.body, jsonType, bearerToken(token)).problem(400, "invalid_request")
			var p struct{ Detail string }
			a.into(&p)
			if !strings.Contains(p.Detail, tc.detail) {
				t.Errorf("%.80s: detail %q does not say %q", tc.body, p.Detail, tc.detail)
			}
			if strings.Contains(p.Detail, "int64") || strings.Contains(p.Detail, "Go ") || strings.Contains(p.Detail, "orders:") {
				t.Errorf("%.80s: detail %q is not for clients", tc.body, p.Detail)
			}
		}
		for _, kind := range []headers{nil, {"Content-Type: text/plain"}, {"Content-Type: application/x-www-form-urlencoded"},
			{"Content-Type: application/json; charset=latin1"}, {"Content-Type: ;;"}, {jsonType, "Content-Encoding: gzip"}} {
			f.public("POST", "/orders", cart(id, 1), append(kind, bearerToken(token))...).problem(415, "unsupported_media_type")
		}
		f.public("POST", "/orders", cart(9999, 1), jsonType, bearerToken(token)).problem(404, "product_not_found")
		f.public("POST", "/orders", cart(f.product(1, "side"), 1), jsonType, bearerToken(token)).problem(403, "token_other_line")
		f.public("POST", "/orders", cart(id, 11), jsonType, bearerToken(token)).problem(409, "sold_out")
		f.public("POST", "/orders", strings.Replace(cart(id, 1), "}]", `}],"coupon_code":"X"`, 1), jsonType, bearerToken(token)).problem(409, "coupon_invalid")
		f.sold(t, 0)
		// Nothing of it has spent the token; an empty coupon code is none.
		f.public("POST", "/orders", strings.Replace(cart(id, 10), "}]", `}],"coupon_code":""`, 1), jsonType, bearerToken(token)).want(201)
		_, late := f.admitted()
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(late)).problem(409, "sold_out").golden("problem_sold_out")
	})
}

// stubbornStore fails or waits, as told.
type stubbornStore struct {
	orders.Store
	mu   sync.Mutex
	fail error         // guarded by mu
	gate chan struct{} // guarded by mu; Place waits for it to be closed

	placing chan struct{} // where set, closed when Place begins to wait
}

func (s *stubbornStore) now() (gate chan struct{}, fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate, s.fail
}

func (s *stubbornStore) set(fail error, gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.gate = fail, gate
}

func (s *stubbornStore) Place(ctx context.Context, group []orders.Request) []orders.Placed {
	gate, fail := s.now()
	if fail != nil {
		placed := make([]orders.Placed, len(group))
		for i := range placed {
			placed[i].Err = fail
		}
		return placed
	}
	if gate != nil {
		if s.placing != nil {
			close(s.placing)
		}
		<-gate
	}
	return s.Store.Place(ctx, group)
}

func (s *stubbornStore) Claim(ctx context.Context, group []orders.ClaimRequest) []orders.Claimed {
	if _, fail := s.now(); fail != nil {
		claims := make([]orders.Claimed, len(group))
		for i := range claims {
			claims[i].Err = fail
		}
		return claims
	}
	return s.Store.Claim(ctx, group)
}

func (s *stubbornStore) BeginPayment(ctx context.Context, orderID, tokenID, method string) (orders.Payment, error) {
	if _, fail := s.now(); fail != nil {
		return orders.Payment{}, fail
	}
	return s.Store.BeginPayment(ctx, orderID, tokenID, method)
}

func (s *stubbornStore) Coupons(ctx context.Context) ([]orders.Coupon, error) {
	if _, fail := s.now(); fail != nil {
		return nil, fail
	}
	return s.Store.Coupons(ctx)
}

func (s *stubbornStore) AddCoupon(ctx context.Context, c orders.Coupon) (int64, error) {
	if _, fail := s.now(); fail != nil {
		return 0, fail
	}
	return s.Store.AddCoupon(ctx, c)
}

func (s *stubbornStore) Order(ctx context.Context, id string) (orders.Order, error) {
	if _, fail := s.now(); fail != nil {
		return orders.Order{}, fail
	}
	return s.Store.Order(ctx, id)
}

func (s *stubbornStore) Summary(ctx context.Context) (orders.Summary, error) {
	if _, fail := s.now(); fail != nil {
		return orders.Summary{}, fail
	}
	return s.Store.Summary(ctx)
}

func (s *stubbornStore) AddProduct(ctx context.Context, p orders.Product) (int64, error) {
	if _, fail := s.now(); fail != nil {
		return 0, fail
	}
	return s.Store.AddProduct(ctx, p)
}

func (s *stubbornStore) Products(ctx context.Context) ([]orders.Product, error) {
	if _, fail := s.now(); fail != nil {
		return nil, fail
	}
	return s.Store.Products(ctx)
}

func (s *stubbornStore) Ping(ctx context.Context) error {
	if _, fail := s.now(); fail != nil {
		return fail
	}
	return s.Store.Ping(ctx)
}

func stubborn() (*stubbornStore, setup) {
	store := &stubbornStore{}
	return store, setup{orders: withOrders(), store: func(real orders.Store) orders.Store {
		store.Store = real
		return store
	}}
}

func TestOverloadedThenTheSameTokenBuys(t *testing.T) {
	store, with := stubborn()
	with.orders.Workers, with.orders.Deadline = 1, 100*time.Millisecond
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, first := f.admitted()
		_, second := f.admitted()
		gate := make(chan struct{})
		store.set(nil, gate)
		slow := make(chan answered)
		go func() { slow <- f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(first)) }()
		synctest.Wait()
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(second)).problem(503, "overloaded")
		close(gate)
		(<-slow).want(201)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(second)).want(201)
		f.sold(t, 2)
	})
}

func TestInternalErrorTellsNothing(t *testing.T) {
	store, with := stubborn()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, token := f.admitted()
		store.set(errors.New("an unforeseen thing at /etc/secret"), nil)
		a := f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).problem(500, "internal_error")
		if strings.Contains(a.body, "secret") {
			t.Error(a.body)
		}
		if log := f.log.String(); !strings.Contains(log, "an unforeseen thing") || !strings.Contains(log, a.header.Get(headerRequestID)) {
			t.Errorf("not in the log: %s", log)
		}
	})
}

func TestProducts(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		f.product(10, "")
		f.product(0, "side")
		f.public("GET", "/products", "").want(200).golden("products")
		f.public("GET", "/products/2", "").want(200).golden("product")
		for _, id := range []string{"3", "0", "-1", "x", "1.0", "99999999999999999999", "%31x"} {
			f.public("GET", "/products/"+id, "").problem(404, "product_not_found")
		}
	})
}
