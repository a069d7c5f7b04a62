package web

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/orders"
	"sluice/queue"
)

// coupon adds one of 500 off and returns its id.
func (f *fixture) coupon(quantity int64, line string) int64 {
	f.t.Helper()
	id, err := f.orders.AddCoupon(context.Background(), orders.Coupon{Name: "First come", Quantity: quantity, Discount: 500, Line: line})
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func claimOf(coupon int64) string { return fmt.Sprintf("/coupons/%d/claim", coupon) }

// claimed is what the answer to a claim says.
type claimed struct {
	Code      string
	Remaining int64
}

func (f *fixture) claim(coupon int64, token string) (c claimed) {
	f.t.Helper()
	f.public("POST", claimOf(coupon), "", bearerToken(token)).want(201).into(&c)
	return c
}

func TestClaimACouponAndBuyWithIt(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id, coupon := f.product(10, ""), f.coupon(2, "")
		_, first := f.admitted()
		_, second := f.admitted()
		_, third := f.admitted()
		a := f.public("POST", claimOf(coupon), "", bearerToken(first)).want(201).golden("claim_new")
		var mine claimed
		a.into(&mine)
		if again := f.public("POST", claimOf(coupon), "{}", bearerToken(first)).want(200); again.body != a.body {
			t.Errorf("%s after %s", again.body, a.body)
		}
		if got := f.claim(coupon, second); got.Code == mine.Code || got.Remaining != 0 {
			t.Errorf("%+v after %+v", got, mine)
		}
		f.public("POST", claimOf(coupon), "", bearerToken(third)).problem(409, "sold_out")
		f.public("POST", claimOf(coupon), "", bearerToken(first)).want(200) // who has one has one

		withCode := func(code string) string {
			return strings.Replace(cart(id, 1), "}]", `}],"coupon_code":"`+code+`"`, 1)
		}
		f.public("POST", "/orders", withCode("NOSUCH"), jsonType, bearerToken(first)).problem(409, "coupon_invalid")
		f.public("POST", "/orders", withCode(mine.Code), jsonType, bearerToken(first)).want(201).golden("order_coupon")
		f.public("POST", "/orders", withCode(mine.Code), jsonType, bearerToken(first)).want(200)
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(first)).problem(409, "token_spent")
		f.public("POST", "/orders", withCode(mine.Code), jsonType, bearerToken(third)).problem(409, "coupon_spent")
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(third)).want(201)
	})
}

func TestClaimsRefused(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		coupon := f.coupon(10, "")
		_, token := f.admitted()
		for _, path := range []string{"/coupons/x/claim", "/coupons/0/claim", "/coupons/99/claim", "/coupons/99999999999999999999/claim"} {
			f.public("POST", path, "").problem(401, "token_missing") // who you are first
			f.public("POST", path, "", bearerToken(token)).problem(404, "coupon_not_found")
		}
		for _, body := range []string{`{"code":"mine"}`, "[]", "{"} {
			f.public("POST", claimOf(coupon), body, bearerToken(token)).problem(400, "invalid_request")
		}
		f.public("POST", claimOf(f.coupon(10, "side")), "", bearerToken(token)).problem(403, "token_other_line")
		now := f.watch.Now().Truncate(time.Millisecond)
		early := must(f.tokens.Mint(queue.Admission{Line: DefaultLine, Subject: "a", TicketID: "b", Place: 1,
			AdmittedAt: now, NotBefore: now.Add(time.Second), ExpiresAt: now.Add(time.Minute)}))(t)
		f.public("POST", claimOf(coupon), "", bearerToken(early)).problem(425, "token_too_early")
		if c := f.claim(coupon, token); c.Remaining != 9 {
			t.Errorf("%d of 10 are left after one claim", c.Remaining)
		}
	})
}

// A claim is something new, and not for a token whose time is over: not even for one
// that has claimed before.
func TestClaimsEndWithTheToken(t *testing.T) {
	tokenEnds(t, func(t *testing.T, f *fixture, end func()) {
		coupon := f.coupon(10, "")
		_, unused := f.admitted()
		_, token := f.admitted()
		f.claim(coupon, token)
		end()
		f.public("POST", claimOf(coupon), "", bearerToken(unused)).problem(401, "token_expired")
		f.public("POST", claimOf(coupon), "", bearerToken(token)).problem(401, "token_expired")
	})
}

func TestCoupons(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		f.admin("POST", "/admin/api/coupons", `{"name":"Early birds","quantity":100,"discount":500}`, jsonType).want(201).golden("admin_coupon")
		f.coupon(3, "side")
		for _, body := range []string{`{}`, `{"name":"x"}`, `{"name":"x","quantity":0}`, `{"name":"","quantity":1}`, `{"name":"x","quantity":1,"discount":-1}`,
			`{"name":"x","quantity":1,"line":"nosuch"}`, `{"name":"x","quantity":1,"code":"MINE"}`, `{"name":"x","quantity":"1"}`} {
			f.admin("POST", "/admin/api/coupons", body, jsonType).problem(400, "invalid_request")
		}
		_, token := f.admitted()
		f.claim(1, token)
		time.Sleep(time.Second)
		f.public("GET", "/coupons", "").want(200).golden("coupons")
		f.public("GET", "/coupons/1", "").want(200).golden("coupon")
		for _, id := range []string{"3", "0", "-1", "x", "1.0", "99999999999999999999"} {
			f.public("GET", "/coupons/"+id, "").problem(404, "coupon_not_found")
		}
	})
}

func TestClaimsWaitForAWorker(t *testing.T) {
	store, with := stubborn()
	with.orders.Workers, with.orders.Deadline = 1, 100*time.Millisecond
	inBubble(t, with, func(t *testing.T, f *fixture) {
		id, coupon := f.product(10, ""), f.coupon(1, "")
		_, buyer := f.admitted()
		_, token := f.admitted()
		gate := make(chan struct{})
		store.set(nil, gate)
		slow := make(chan answered)
		go func() { slow <- f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(buyer)) }()
		synctest.Wait()
		f.public("POST", claimOf(coupon), "", bearerToken(token)).problem(503, "overloaded")
		close(gate)
		(<-slow).want(201)
		f.claim(coupon, token)
	})
}
