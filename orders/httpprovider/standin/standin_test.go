package standin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/orders"
	"sluice/orders/httpprovider"
	"sluice/orders/httpprovider/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStandin(t *testing.T, opts standin.Options) *standin.Standin {
	t.Helper()
	s, err := standin.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onEach runs a test on a stand-in in process, and on one over HTTP.
func onEach(t *testing.T, opts standin.Options, run func(*testing.T, *standin.Standin, orders.Provider)) {
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		s := newStandin(t, opts)
		run(t, s, s)
	})
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		s := newStandin(t, opts)
		server := httptest.NewServer(s.Handler())
		t.Cleanup(server.Close)
		c, err := httpprovider.New(httpprovider.Options{URL: server.URL, AtOnce: 50})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		run(t, s, c)
	})
}

func payment(order string, attempt int) orders.Payment {
	return orders.Payment{OrderID: order, Attempt: attempt, Amount: 700, Method: "card"}
}

func TestOneKeyIsChargedOnce(t *testing.T) {
	t.Parallel()
	onEach(t, standin.Options{Delay: 50 * time.Millisecond}, func(t *testing.T, s *standin.Standin, provider orders.Provider) {
		const times = 40
		var asking sync.WaitGroup
		for range times {
			asking.Go(func() {
				o, err := provider.Charge(t.Context(), payment("order", 1))
				if err != nil || o != (orders.Outcome{Paid: true, Reference: "standin-order-1"}) {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		asking.Wait()
		other := payment("order", 1)
		other.Amount++
		if o, err := provider.Charge(t.Context(), other); err == nil {
			t.Errorf("another payment with the same key: %+v", o)
		}
		got := s.Report()
		if got.Requests != times+1 || got.Charges != 1 || got.Paid != 1 || got.ChargedTwice != 0 || got.PaidByOrder["order"] != 1 {
			t.Errorf("report %+v", got)
		}
		for attempt := 2; attempt <= 3; attempt++ {
			if _, err := provider.Charge(t.Context(), payment("order", attempt)); err != nil {
				t.Error(err)
			}
		}
		if got := s.Report(); got.Charges != 3 || got.Paid != 3 || got.ChargedTwice != 1 || got.PaidByOrder["order"] != 3 {
			t.Errorf("an order with three keys: %+v", got)
		}
	})
}

// TestUnheardIsCharged has every first answer be lost; whoever asks again is answered.
func TestUnheardIsCharged(t *testing.T) {
	t.Parallel()
	onEach(t, standin.Options{Timeout: 1}, func(t *testing.T, s *standin.Standin, provider orders.Provider) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		asked := make(chan error, 1)
		go func() {
			_, err := provider.Charge(ctx, payment("order", 1))
			asked <- err
		}()
		for s.Report().Unanswered == 0 {
			time.Sleep(time.Millisecond)
		}
		leave()
		if err := <-asked; err == nil {
			t.Error("answered")
		}
		if got := s.Report(); got.Paid != 1 || got.Unanswered != 1 {
			t.Errorf("report %+v", got)
		}
		if o, err := provider.Charge(t.Context(), payment("order", 1)); err != nil || !o.Paid {
			t.Errorf("again: %+v, %v", o, err)
		}
		if got := s.Report(); got.Requests != 2 || got.PaidByOrder["order"] != 1 {
			t.Errorf("report %+v", got)
		}
	})
}

// TestChargeGoesOn has whoever asked leave in the middle of the charge.
func TestChargeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandin(t, standin.Options{Delay: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if o, err := s.Charge(ctx, payment("order", 1)); err == nil {
			t.Errorf("answered %+v", o)
		}
		if got := s.Report(); got.Charges != 1 || got.Paid != 0 {
			t.Errorf("after a second: %+v", got)
		}
		if o, err := s.Charge(t.Context(), payment("order", 1)); err != nil || !o.Paid || s.Report().Paid != 1 {
			t.Errorf("the next who asks: %+v, %v", o, err)
		}
	})
}

func TestShares(t *testing.T) {
	t.Parallel()
	outcomes := func(seed uint64) string {
		s := newStandin(t, standin.Options{Decline: 0.25, Seed: seed})
		var all strings.Builder
		for i := range 2000 {
			o, err := s.Charge(t.Context(), payment(fmt.Sprint("order-", i), 1))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&all, o.Paid, " ")
		}
		if got := s.Report(); math.Abs(float64(got.Declined)-500) > 100 || got.Declined+got.Paid != 2000 {
			t.Errorf("seed %d: %d declined of 2000", seed, got.Declined)
		}
		return all.String()
	}
	first, again, other := outcomes(1), outcomes(1), outcomes(2)
	if first != again || first == other {
		t.Error("the seed does not decide")
	}
}

func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	s := newStandin(t, standin.Options{})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	const good = `{"order_id":"order","amount":700,"method":"card"}`
	for name, c := range map[string]struct {
		key, body string
		status    int
	}{
		"well":        {"k", good, 200},
		"no key":      {"", good, 400},
		"no JSON":     {"k2", "{", 400},
		"no order":    {"k2", `{"amount":700}`, 400},
		"no amount":   {"k2", `{"order_id":"order","method":"card"}`, 400},
		"far too big": {"k2", `{"order_id":"` + strings.Repeat("x", 1<<20) + `"}`, 400},
	} {
		post(t, name, server.URL, c.key, c.body, c.status)
	}
	post(t, "another", server.URL, "k", `{"order_id":"order","amount":701,"method":"card"}`, 422)
	resp, err := http.Get(server.URL + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := `map[charged_twice:0 charges:1 declined:0 paid:1 paid_by_order:map[order:1] requests:2 unanswered:0]`
	if fmt.Sprint(got) != want {
		t.Errorf("report %v, want %s", got, want)
	}
}

func post(t *testing.T, name, url, key, body string, status int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != status {
		t.Errorf("%s: status %d, want %d", name, resp.StatusCode, status)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]standin.Options{
		"delay":      {Delay: -1},
		"decline":    {Decline: 1.1},
		"timeout":    {Timeout: -0.1},
		"not a rate": {Timeout: math.NaN()},
	} {
		if _, err := standin.New(opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
