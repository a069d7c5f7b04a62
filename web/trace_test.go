package web

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"sluice/tracing"
)

// traced are the spans of what a test asks of a server that traces a share of it.
func traced(t *testing.T, share float64, s setup, test func(f *fixture)) []*tracepb.Span {
	t.Helper()
	var spans []*tracepb.Span
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		for _, resource := range data.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
	}))
	defer collector.Close()
	tracer := must(tracing.New(tracing.Options{Endpoint: collector.URL, Sample: share}))(t)
	more := s.config
	s.config = func(c *Config) {
		if c.Tracing = tracer; more != nil {
			more(c)
		}
	}
	test(newFixture(t, s))
	ended, end := context.WithCancel(t.Context())
	end()
	if err := tracer.Run(ended); err != nil {
		t.Fatal(err)
	}
	return spans
}

func spanOf(spans []*tracepb.Span, name string) *tracepb.Span {
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.GetName() == name })
	if i < 0 {
		return nil
	}
	return spans[i]
}

func attributes(s *tracepb.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.GetAttributes() {
		all[a.GetKey()] = a.GetValue().String()
	}
	return all
}

func TestWhatIsInASpan(t *testing.T) {
	var ticket, token, log string
	spans := traced(t, 1, setup{orders: withOrders()}, func(f *fixture) {
		ticket, token = f.admitted()
		f.public("GET", "/queue/position?line=default&secret=in-the-query", "", ticketHeader(ticket), "Cookie: sluice_ticket="+ticket,
			headerTraceParent+": 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").want(200)
		id := f.product(10, "")
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
		f.public("POST", "/orders", "{}", jsonType, bearerToken(token)).problem(400, "invalid_request")
		f.public("GET", "/queue/status", "").want(200)
		f.public("GET", "/nothing/here", "").problem(404, "not_found")
		log = f.log.String()
	})
	for name, parent := range map[string]string{
		"line.enter": "POST /queue/enter", "line.standing": "GET /queue/position",
		"orders.wait": "POST /orders", "orders.write": "POST /orders", "unmatched": "",
	} {
		s := spanOf(spans, name)
		if s == nil || (parent == "") != (len(s.GetParentSpanId()) == 0) {
			t.Errorf("%s: %v", name, s)
		} else if parent != "" && string(s.GetParentSpanId()) != string(spanOf(spans, parent).GetSpanId()) {
			t.Errorf("%s is not within %s", name, parent)
		}
	}
	known := []string{"http.request.method", "http.route", "http.response.status_code", "sluice.listener", "sluice.line", "sluice.problem"}
	refused := false
	for _, s := range spans {
		for _, secret := range []string{ticket, token, "in-the-query", "eyJ", "0af7651916cd43dd8448eb211c80319c", "127.0.0.1", "/nothing"} {
			if strings.Contains(s.String(), secret) {
				t.Errorf("%.20s is in %s", secret, s.GetName())
			}
		}
		has := attributes(s)
		for key := range has {
			if !slices.Contains(known, key) {
				t.Errorf("%s has %s", s.GetName(), key)
			}
		}
		refused = refused || s.GetName() == "POST /orders" && strings.Contains(has["sluice.problem"], "invalid_request")
	}
	if !refused {
		t.Error("the problem is missing")
	}
	for _, name := range []string{"POST /queue/enter", "GET /queue/position", "GET /queue/status", "POST /orders"} {
		if !strings.Contains(attributes(spanOf(spans, name))["sluice.line"], "default") {
			t.Errorf("%s does not name the line", name)
		}
	}
	if !strings.Contains(log, `"trace_id":"`) {
		t.Error("the log does not name the traces")
	}
}

// An order that is refused while it waits for a worker has waited, and nothing was written
// for it.
func TestTheWaitOfARefusedOrderIsTraced(t *testing.T) {
	store, with := stubborn()
	with.orders.Workers, with.orders.Deadline = 1, 20*time.Millisecond
	spans := traced(t, 1, with, func(f *fixture) {
		id := f.product(10, "")
		_, first := f.admitted()
		_, second := f.admitted()
		gate := make(chan struct{})
		store.set(nil, gate)
		slow := make(chan answered)
		go func() { slow <- f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(first)) }()
		for giveUp := time.Now().Add(30 * time.Second); f.orders.PoolStats().Busy == 0; runtime.Gosched() {
			if time.Now().After(giveUp) {
				t.Fatal("no worker took the first order")
			}
		}
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(second)).problem(503, "overloaded")
		close(gate)
		(<-slow).want(201)
	})
	parts := map[string][]string{} // of orders, by how they ended
	for _, s := range spans {
		if s.GetName() != "POST /orders" {
			continue
		}
		status := attributes(s)["http.response.status_code"]
		for _, part := range spans {
			if string(part.GetParentSpanId()) == string(s.GetSpanId()) {
				parts[status] = append(parts[status], part.GetName())
			}
		}
	}
	want := map[string][]string{"int_value:201": {"orders.wait", "orders.write"}, "int_value:503": {"orders.wait"}}
	if !maps.EqualFunc(parts, want, slices.Equal) {
		t.Errorf("%v, want %v", parts, want)
	}
}

func TestNoVisitorDecidesWhatIsTraced(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	proxies := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		follow  bool
		traced  int
	}{
		{"a visitor", nil, true, 0},
		{"a proxy that passes on what it got", proxies, false, 0},
		{"a proxy that decides", proxies, true, 1},
	} {
		spans := traced(t, 0, setup{config: func(cfg *Config) { cfg.TrustedProxies, cfg.TraceProxies = c.proxies, c.follow }}, func(f *fixture) {
			f.public("GET", "/queue/status", "", headerTraceParent+": 00-"+id+"-b7ad6b7169203331-01").want(200)
		})
		if len(spans) != c.traced {
			t.Errorf("%s: %v", c.name, spans)
		}
	}
}

func TestTracingAllocatesNothingForOthers(t *testing.T) {
	allocations := func(tracer *tracing.Tracer) float64 {
		f := newFixture(t, setup{config: func(c *Config) { c.AccessLogEvery, c.Limits.PollFactor, c.Tracing = 0, 0, tracer }})
		ticket := f.enter()
		handle := f.server.public.Handler()
		ctx := newRequestCtx()
		return testing.AllocsPerRun(1000, func() {
			ctx.Request.Reset()
			ctx.Response.Reset()
			ctx.Request.SetRequestURI("/queue/position")
			ctx.Request.Header.Set(headerTicket, ticket)
			handle(ctx)
		})
	}
	none := must(tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1"}))(t)
	if off, unsampled := allocations(nil), allocations(none); off != unsampled {
		t.Errorf("%v allocations without tracing, %v of a request that is not sampled", off, unsampled)
	}
}
