package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice/orders"
)

func TestMetrics(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, "")
		_, token := f.admitted()
		f.enter()
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
		f.public("GET", "/orders/one", "", bearerToken(token)).want(404)
		f.public("GET", "/orders/two", "", bearerToken(token)).want(404)
		f.public("GET", "/no/such/thing", "").want(404)
		f.admin("GET", "/admin/api/lines/nosuch", "").want(404)
		time.Sleep(time.Second)
		a := f.admin("GET", "/metrics", "").want(200)
		for _, want := range []string{
			`sluice_http_requests_total{listener="public",route="/orders/:order_id",status="404"} 2`,
			`sluice_http_requests_total{listener="public",route="/queue/enter",status="201"} 2`,
			`sluice_http_requests_total{listener="public",route="unmatched",status="404"} 1`,
			`sluice_http_request_seconds_count{listener="public",route="/orders"} 1`,
			`sluice_line_waiting{line="default"} 1`, `sluice_line_admitted_total{line="default"} 1`, `sluice_line_waiting{line="side"} 0`,
			`sluice_http_problems_total{code="order_not_found",listener="public"} 2`, `sluice_http_problems_total{code="not_found",listener="public"} 1`,
			`sluice_http_problems_total{code="line_not_found",listener="admin"} 1`, `sluice_line_estimates_total{line="default",outcome="kept"} 0`,
			`sluice_orders_workers 10`, `sluice_orders_completed_total 1`, `sluice_http_connections{listener="public"}`, "go_goroutines", "go_gc_heap_live_bytes",
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s is missing", want)
			}
		}
		for _, leak := range []string{"/no/such", "/orders/one", "eyJ"} {
			if strings.Contains(a.body, leak) {
				t.Errorf("%s is a label", leak)
			}
		}
		lintMetrics(t, a.body)
	})
}

func TestPaymentAndCouponMetrics(t *testing.T) {
	provider, _, with := paying()
	inBubble(t, with, func(t *testing.T, f *fixture) {
		f.orders.IssueThrough(strictIssuer{})
		coupon := f.coupon(1, "")
		id, token := f.ordered()
		f.public("POST", claimOf(coupon), "", bearerToken(token)).problem(409, "sold_out")
		provider.say(declines)
		f.pay(id, token).problem(402, "payment_declined")
		provider.say(nil)
		f.pay(id, token).want(202)
		provider.say(takesIt)
		f.pay(id, token).want(200)
		a := f.admin("GET", "/metrics", "").want(200)
		for _, want := range []string{
			"sluice_payments_paid_total 1\n", "sluice_payments_declined_total 1\n", "sluice_payments_unknown_total 1\n",
			"sluice_payments_reconciled_total 0\n", "sluice_payments_refused_total 0\n",
			"sluice_coupons_issued_total 1\n", "sluice_coupons_sold_out_total 2\n", "sluice_coupons_bypassed_total 3\n",
			"sluice_coupons_drained_total 4\n", "sluice_coupons_refused_total 5\n",
			`sluice_http_requests_total{listener="public",route="/coupons/:coupon_id/claim",status="409"} 1`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s is missing", want)
			}
		}
		lintMetrics(t, a.body)
	})
}

// strictIssuer gives nothing to anybody, and makes its figures up.
type strictIssuer struct{}

func (strictIssuer) Claim(context.Context, orders.Coupon, orders.ClaimRequest, orders.Write) orders.Claimed {
	return orders.Claimed{Err: orders.ErrSoldOut}
}

func (strictIssuer) Stats() orders.IssuerStats {
	return orders.IssuerStats{Issued: 1, SoldOut: 2, Bypassed: 3, Drained: 4, Refused: 5}
}

func lintMetrics(t *testing.T, body string) {
	t.Helper()
	complaints, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		if strings.HasPrefix(c.Metric, "sluice_") {
			t.Errorf("%s: %s", c.Metric, c.Text)
		}
	}
}

// BenchmarkObserve is what metrics cost a request, by requests of one route on all processors.
func BenchmarkObserve(b *testing.B) {
	f := newFixture(b, setup{})
	route := f.server.metrics.route("public", "/queue/position")
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			route.observe(200, 3*time.Millisecond)
		}
	})
}
