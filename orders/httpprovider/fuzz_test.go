package httpprovider

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sluice/orders"
)

// FuzzOutcome: money counts as taken, or as refused, only when status and body both say
// so; everything else is unknown, and is not quoted.
func FuzzOutcome(f *testing.F) {
	f.Add(200, []byte(`{"state":"paid","reference":"r-1"}`))
	f.Add(402, []byte(`{"state":"declined","reason":"no funds"}`))
	f.Add(200, []byte(`{"state":"declined"}`))
	f.Add(402, []byte(`{"state":"paid"}`))
	f.Add(500, []byte(`{"state":"paid"}`))
	f.Add(200, []byte(`{"State":"paid"}`))
	f.Add(200, []byte(`{"state":"paid"} {"state":"declined"}`))
	f.Add(200, []byte(`{"state":"declined","state":"paid"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got, err := outcome(status, body)
		if err != nil {
			if got != (orders.Outcome{}) || len(body) > 12 && strings.Contains(err.Error(), string(body)) {
				t.Fatalf("%d %q: %+v, %v", status, body, got, err)
			}
			return
		}
		var said struct{ State string }
		if json.Unmarshal(body, &said) != nil {
			t.Fatalf("%d with a body that is no JSON is an answer: %q", status, body)
		}
		paid := status == http.StatusOK && said.State == "paid" && got.Paid
		declined := status == http.StatusPaymentRequired && said.State == "declined" && !got.Paid
		if !paid && !declined {
			t.Fatalf("%d %q is taken for %+v", status, body, got)
		}
	})
}
