package web

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
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
		time.Sleep(time.Second)
		a := f.admin("GET", "/metrics", "").want(200)
		for _, want := range []string{
			`sluice_http_requests_total{listener="public",route="/orders/:order_id",status="404"} 2`,
			`sluice_http_requests_total{listener="public",route="/queue/enter",status="201"} 2`,
			`sluice_http_requests_total{listener="public",route="unmatched",status="404"} 1`,
			`sluice_http_request_seconds_count{listener="public",route="/orders"} 1`,
			`sluice_line_waiting{line="default"} 1`, `sluice_line_admitted_total{line="default"} 1`, `sluice_line_waiting{line="side"} 0`,
			`sluice_orders_workers 10`, `sluice_orders_completed_total 1`, `sluice_http_connections{listener="public"}`, "go_goroutines",
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
