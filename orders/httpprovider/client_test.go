package httpprovider

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/orders"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var payment = orders.Payment{OrderID: "order", Attempt: 3, Amount: 1400, Method: `"card"`}

func dial(t *testing.T, opts Options) *Client {
	t.Helper()
	if opts.AtOnce == 0 {
		opts.AtOnce = 10
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var path, body string
	var header http.Header
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		path, body, header = r.Method+" "+r.URL.Path, string(got), r.Header
		_, _ = io.WriteString(w, `{"state":"paid","reference":"p-1"}`)
	})
	for name, c := range map[string]struct {
		opts          Options
		authorization string
	}{
		"nothing":  {Options{URL: server.URL + "/v1/"}, ""},
		"token":    {Options{URL: server.URL + "/v1", Token: "hunter2"}, "Bearer hunter2"},
		"password": {Options{URL: strings.Replace(server.URL, "//", "//shop:hunter2@", 1) + "/v1"}, "Basic c2hvcDpodW50ZXIy"},
		"both":     {Options{URL: strings.Replace(server.URL, "//", "//shop:other@", 1) + "/v1", Token: "hunter2"}, "Bearer hunter2"},
	} {
		o, err := dial(t, c.opts).Charge(t.Context(), payment)
		if err != nil || o != (orders.Outcome{Paid: true, Reference: "p-1"}) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if path != "POST /v1/charges" || body != `{"order_id":"order","amount":1400,"method":"\"card\""}` ||
			header.Get("Idempotency-Key") != "order-3" || header.Get("Content-Type") != "application/json" ||
			header.Get("Authorization") != c.authorization {
			t.Errorf("%s: %s %s %v", name, path, body, header)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const paid, declined = `{"state":"paid","reference":"p-1"}`, `{"state":"declined","reason":"no money"}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   orders.Outcome
		known  bool
	}{
		"paid":                    {200, paid, orders.Outcome{Paid: true, Reference: "p-1"}, true},
		"paid and more":           {200, `{"id":7,"state":"paid"}`, orders.Outcome{Paid: true}, true},
		"declined":                {402, declined, orders.Outcome{Reason: "no money"}, true},
		"declined without reason": {402, `{"state":"declined"}`, orders.Outcome{}, true},

		"declined, but well":        {200, declined, orders.Outcome{}, false},
		"paid, but payment needed":  {402, paid, orders.Outcome{}, false},
		"another state":             {200, `{"state":"pending"}`, orders.Outcome{}, false},
		"no state":                  {200, `{}`, orders.Outcome{}, false},
		"a proxy's page":            {402, `<html>Payment Required: key=hunter2`, orders.Outcome{}, false},
		"half an answer":            {200, paid[:20], orders.Outcome{}, false},
		"two answers":               {200, paid + declined, orders.Outcome{}, false},
		"nothing":                   {200, "", orders.Outcome{}, false},
		"created":                   {201, paid, orders.Outcome{}, false},
		"conflict":                  {409, declined, orders.Outcome{}, false},
		"not allowed to ask":        {401, declined, orders.Outcome{}, false},
		"too many":                  {429, "", orders.Outcome{}, false},
		"broken":                    {500, paid, orders.Outcome{}, false},
		"longer than an answer is":  {200, `{"state":"paid","reference":"` + strings.Repeat("x", maxAnswer) + `"}`, orders.Outcome{}, false},
		"a header longer than that": {299, "", orders.Outcome{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.status == 299 {
					w.Header().Set("X-Long", strings.Repeat("x", 2*maxAnswer))
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			o, err := dial(t, Options{URL: server.URL}).Charge(t.Context(), payment)
			if o != c.want || (err == nil) != c.known {
				t.Errorf("%+v, %v", o, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the answer: %v", err)
			}
		})
	}
}

// TestNothingFollowsARedirect: neither the money nor the secrets.
func TestNothingFollowsARedirect(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if o, err := dial(t, Options{URL: server.URL}).Charge(t.Context(), payment); err == nil || o.Paid || asked.Load() != 0 {
		t.Errorf("%+v, %v; asked elsewhere %d times", o, err, asked.Load())
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	cut := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice who leaves
		<-r.Context().Done()
	})
	stuck := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"state":"paid",`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = away.Close()
	for name, url := range map[string]string{
		"cut": cut.URL, "silent": silent.URL, "stuck": stuck.URL, "away": "http://" + away.Addr().String(),
		"no such host": "http://no-such-host.invalid",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, Options{URL: strings.Replace(url, "//", "//shop:hunter2@", 1) + "/path-with-key-hunter2"})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			o, err := c.Charge(ctx, payment)
			if err == nil || o != (orders.Outcome{}) {
				t.Fatalf("%+v, %v", o, err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "shop") {
				t.Errorf("the error tells the URL: %v", err)
			}
			if name == "silent" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("silent: %v", err)
			}
		})
	}
}

// TestConnectionsAreKept has rounds of as many calls at once as there may be.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const atOnce, rounds = 30, 5
	var opened atomic.Int64
	var all sync.WaitGroup // of a round, so that each needs a connection
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all.Done()
		all.Wait()
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"state":"declined"}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := dial(t, Options{URL: server.URL, AtOnce: atOnce})
	for range rounds {
		var calls sync.WaitGroup
		all.Add(atOnce)
		for range atOnce {
			calls.Go(func() {
				if _, err := c.Charge(t.Context(), payment); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	// One that is given back a moment late costs one more.
	if n := opened.Load(); n > 2*atOnce {
		t.Errorf("%d connections for %d calls at once", n, atOnce)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"nothing":      {},
		"no host":      {URL: "https://"},
		"only a port":  {URL: "https://:443"},
		"other scheme": {URL: "ftp://shop:hunter2@pay"},
		"no URL":       {URL: "http://shop:hunter2@pay:port"},
		"query":        {URL: "https://pay/?key=hunter2"},
		"fragment":     {URL: "https://pay/#hunter2"},
		"none at once": {URL: "https://pay", AtOnce: -1},
	} {
		if opts.AtOnce == 0 {
			opts.AtOnce = 1
		}
		if _, err := New(opts); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
