package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/servicetest"
)

// buyer is a new visitor with a token.
func buyer(t *testing.T, at ...*instance) *visitor {
	t.Helper()
	v := &visitor{t: t}
	v.enter(at[0])
	v.beAdmitted(at...)
	return v
}

// ask sends something with the visitor's token.
func (v *visitor) ask(at *instance, path, body string) (status int, answer map[string]any) {
	v.t.Helper()
	return call(v.t, http.MethodPost, at.public+path, map[string]string{"Authorization": "Bearer " + v.token}, body)
}

// ordered makes an order and returns the path of its payment.
func (v *visitor) ordered(at *instance) string {
	v.t.Helper()
	status, order := v.order(at, 1)
	if status != http.StatusCreated {
		v.t.Fatalf("order: %d %v", status, order)
	}
	return fmt.Sprintf("/orders/%v/payment", order["order_id"])
}

const byCard = `{"method":"card"}`

// What the demo offers: a coupon, an order with it, and somebody to pay.
func TestEmbeddedShop(t *testing.T) {
	t.Parallel()
	shop := serveEmbedded(t)
	if !strings.Contains(shop.banner, "Payments      a stand-in") {
		t.Errorf("the banner does not say who takes payments:\n%s", shop.banner)
	}
	v := buyer(t, shop)
	status, claim := v.ask(shop, "/coupons/1/claim", "")
	if status != http.StatusCreated || claim["remaining"] != float64(demoCoupon.Quantity-1) {
		t.Fatalf("claim: %d %v", status, claim)
	}
	status, order := v.ask(shop, "/orders", fmt.Sprintf(`{"items":[{"product_id":1,"quantity":1}],"coupon_code":%q}`, claim["code"]))
	if total := float64(demoProducts[0].Price - demoCoupon.Discount); status != http.StatusCreated || order["total"] != total {
		t.Fatalf("order: %d %v", status, order)
	}
	status, payment := v.ask(shop, fmt.Sprintf("/orders/%v/payment", order["order_id"]), byCard)
	if status != http.StatusOK || payment["state"] != "paid" {
		t.Errorf("payment: %d %v", status, payment)
	}
	_, sum := call(t, http.MethodGet, shop.admin+"/admin/api/orders/summary", nil, "")
	if states, _ := sum["by_state"].(map[string]any); states["paid"] != 1.0 || sum["revenue"] != order["total"] {
		t.Errorf("summary: %v", sum)
	}
}

// With coupons.mode redis the instances give out one number of coupons together, and
// Redis turns away who comes too late.
func TestCouponsThroughRedis(t *testing.T) {
	t.Parallel()
	for _, ack := range []string{"committed", "issued"} {
		t.Run(ack, func(t *testing.T) {
			t.Parallel()
			environ := append(sharedStores(t), "SLUICE_COUPONS_MODE=redis", "SLUICE_COUPONS_ACK="+ack)
			one, two := serveEmbedded(t, environ...), serveEmbedded(t, environ...)
			_, made := call(t, http.MethodPost, one.admin+"/admin/api/coupons", nil, `{"name":"The only one","quantity":1}`)
			path := fmt.Sprintf("/coupons/%v/claim", made["coupon_id"])
			first, second := buyer(t, one, two), buyer(t, two, one)
			status, claim := first.ask(one, path, "")
			if status != http.StatusCreated {
				t.Fatalf("claim: %d %v", status, claim)
			}
			// As long as Redis has not been told what there is, the database answers.
			eventually(t, "Redis turns somebody away", func() bool {
				if status, answer := second.ask(two, path, ""); status != http.StatusConflict || answer["code"] != "sold_out" {
					t.Fatalf("the second of one: %d %v", status, answer)
				}
				_, metrics := call(t, http.MethodGet, two.admin+"/metrics", nil, "")
				return !strings.Contains(fmt.Sprint(metrics), "sluice_coupons_sold_out_total 0\n")
			})
			if status, again := first.ask(two, path, ""); status != http.StatusOK || again["code"] != claim["code"] {
				t.Errorf("the first again: %d %v", status, again)
			}
		})
	}
}

// The provider is asked over HTTP, once for an order.
func TestPaymentsOverHTTP(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, errs := newLines(), newLines()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"payment-stub", "--listen", "127.0.0.1:0", "--delay", "0s"}, nil, out, errs)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	_, line, _ := strings.Cut(out.await(t, "\n"), "payment stub: ")
	provider := strings.TrimSpace(line)

	shop := serveEmbedded(t, "SLUICE_PAYMENTS_PROVIDER="+provider)
	if !strings.Contains(shop.banner, provider) {
		t.Errorf("the banner does not name the provider:\n%s", shop.banner)
	}
	v := buyer(t, shop)
	payment := v.ordered(shop)
	for range 2 {
		if status, answer := v.ask(shop, payment, byCard); status != http.StatusOK || answer["state"] != "paid" {
			t.Errorf("payment: %d %v", status, answer)
		}
	}
	if _, report := call(t, http.MethodGet, provider+"/charges", nil, ""); report["paid"] != 1.0 || report["requests"] != 1.0 {
		t.Errorf("the provider did %v", report)
	}
}

// A shop that takes payments elsewhere is told what becomes of its orders.
func TestPaymentsElsewhere(t *testing.T) {
	t.Parallel()
	const note = "payments.provider is not set"
	database := "SLUICE_DATABASE=" + servicetest.MySQL(t)
	shop := serveEmbedded(t, database)
	if status, answer := call(t, http.MethodPost, shop.admin+"/admin/api/products", nil, `{"name":"Kettle","stock":1}`); status != http.StatusCreated {
		t.Fatalf("product: %d %v", status, answer)
	}
	v := buyer(t, shop)
	if status, answer := v.ask(shop, v.ordered(shop), byCard); status != http.StatusNotFound || answer["code"] != "not_found" {
		t.Errorf("payment: %d %v", status, answer)
	}
	if !strings.Contains(shop.log.String(), note) {
		t.Errorf("no note in:\n%s", shop.log)
	}
	if kept := serveEmbedded(t, database, "SLUICE_ORDERS_PAY_WITHIN=0s"); strings.Contains(kept.log.String(), note) {
		t.Errorf("a note, although unpaid orders are kept:\n%s", kept.log)
	}
}
