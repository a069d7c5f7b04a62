package tracing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpansReachTheCollector(t *testing.T) {
	var mu sync.Mutex
	var spans []*tracepb.Span
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err = errors.Join(err, proto.Unmarshal(body, &data)); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v: %s %s, %s", err, r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range data.GetResourceSpans() {
			if !strings.Contains(resource.String(), "sluice") || !strings.Contains(resource.String(), "an instance") {
				t.Errorf("whose is it: %s", resource.GetResource())
			}
			for _, scope := range resource.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
	}))
	defer collector.Close()
	tracer, err := New(Options{Endpoint: collector.URL, Sample: 1, Version: "1", Instance: "an instance"})
	if err != nil {
		t.Fatal(err)
	}
	request := tracer.Request("")
	request.Name("GET /a")
	request.Begin("inner").End()
	began := time.Now().Add(-time.Minute)
	request.Past("before", began, began.Add(time.Second))
	request.Past("never", time.Time{}, began)
	request.Text("line", "default")
	request.Text("nothing", "")
	request.Number("status", 503)
	request.Failed()
	request.End()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := tracer.Run(ended); err != nil {
		t.Fatal(err)
	}
	if got := tracer.Counts(); got != (Counts{Sent: 3}) || len(spans) != 3 {
		t.Fatalf("%+v; %v", got, spans)
	}
	inner, before, outer := spans[0], spans[1], spans[2]
	if inner.GetName() != "inner" || before.GetName() != "before" || outer.GetName() != "GET /a" {
		t.Errorf("names %q, %q, %q", inner.GetName(), before.GetName(), outer.GetName())
	}
	for _, s := range []*tracepb.Span{inner, before} {
		if !bytes.Equal(s.GetParentSpanId(), outer.GetSpanId()) || !bytes.Equal(s.GetTraceId(), outer.GetTraceId()) {
			t.Errorf("%s is not within the request", s.GetName())
		}
	}
	if took := before.GetEndTimeUnixNano() - before.GetStartTimeUnixNano(); took != 1e9 {
		t.Errorf("a second took %d ns", took)
	}
	if outer.GetKind() != tracepb.Span_SPAN_KIND_SERVER || outer.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(outer.GetAttributes()) != 2 {
		t.Errorf("the request: %v", outer)
	}
}

// exporter is one that does what a test wants.
type exporter func(ctx context.Context, spans int) error

func (e exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	return e(ctx, len(spans))
}
func (exporter) Shutdown(context.Context) error { return nil }

func traceTo(e exporter, log *slog.Logger) *Tracer {
	t := &Tracer{sample: 1, client: &client{http: &http.Client{Transport: &http.Transport{}}}, outbox: newOutbox(e, log)}
	t.tracer = t.outbox.tracer(Options{})
	return t
}

func TestACollectorThatNeverAnswersKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer := traceTo(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- tracer.Run(ctx) }()
		begun := time.Now()
		for range mostSent {
			tracer.Request("").End()
		}
		synctest.Wait() // they are being sent
		for range queued + 10 {
			tracer.Request("").End()
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("requests waited for %v", waited)
		}
		if got := tracer.Counts(); got.Dropped != 10 {
			t.Errorf("%+v", got)
		}
		end()
		if err := <-ran; err != nil || time.Since(begun) != lastWords {
			t.Errorf("%v, %v after the end", err, time.Since(begun))
		}
		if got := tracer.Counts(); got != (Counts{Dropped: mostSent + queued + 10}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestACollectorIsWaitedForOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		away := true
		tracer := traceTo(func(ctx context.Context, _ int) error {
			if !away {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- tracer.Run(ctx) }()
		for range 20 { // in 4 minutes
			tracer.Request("").End()
			time.Sleep(lag + patience)
			synctest.Wait()
		}
		if got := tracer.Counts(); got.Dropped != 20 {
			t.Errorf("%+v", got)
		}
		away = false
		tracer.Request("").End()
		time.Sleep(lag)
		synctest.Wait()
		if got := tracer.Counts(); got.Sent != 1 {
			t.Errorf("%+v", got)
		}
		if warned := strings.Count(log.String(), "level=WARN"); warned != 4 || strings.Count(log.String(), "taken again") != 1 {
			t.Errorf("%d warnings: %s", warned, log.String())
		}
		end()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// No secret of the endpoint may reach the log, wherever in the URL it is and whatever
// goes wrong.
func TestACollectorThatRefuses(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	hangingUp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangingUp.Close()
	for _, c := range []struct{ name, collector, says string }{
		{"not found", refusing.URL, "404"},
		{"away", "http://127.0.0.1:1", "refused"},
		{"hangs up", hangingUp.URL, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			endpoint := strings.Replace(c.collector, "//", "//user:hunter2@", 1) + "/hunter2/traces?api-key=hunter2"
			tracer, err := New(Options{Endpoint: endpoint, Sample: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			tracer.Request("").End()
			ended, end := context.WithCancel(t.Context())
			end()
			if err := tracer.Run(ended); err != nil {
				t.Fatal(err)
			}
			if got := tracer.Counts(); got != (Counts{Dropped: 1}) || !strings.Contains(log.String(), c.says) || strings.Contains(log.String(), "hunter2") {
				t.Errorf("%+v, %s", got, log.String())
			}
		})
	}
}

func TestWhoDecides(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	sampled, not := "00-"+id+"-b7ad6b7169203331-01", "00-"+id+"-b7ad6b7169203331-00"
	for _, c := range []struct {
		sample float64
		parent string
		traced bool
		theirs bool
	}{
		{0, "", false, false},
		{1, "", true, false},
		{0, sampled, true, true},
		{1, not, false, false},
		{0, "00-" + id, false, false},
		{1, "nonsense", true, false},
		{1, "00-00000000000000000000000000000000-b7ad6b7169203331-01", true, false},
	} {
		tracer := traceTo(func(context.Context, int) error { return nil }, nil)
		tracer.sample = c.sample
		span := tracer.Request(c.parent)
		if (span != nil) != c.traced || (span.TraceID() == id) != c.theirs {
			t.Errorf("share %v, parent %q: %v, %q", c.sample, c.parent, span != nil, span.TraceID())
		}
		span.End()
	}
}

func TestTheShareIsTraced(t *testing.T) {
	tracer := traceTo(func(context.Context, int) error { return nil }, nil)
	tracer.sample = 0.1
	traced := 0
	for range 10_000 {
		if tracer.Request("") != nil {
			traced++
		}
	}
	if traced < 800 || traced > 1200 { // six standard deviations
		t.Errorf("%d of 10,000", traced)
	}
}

func TestWhatIsNotTracedAllocatesNothing(t *testing.T) {
	never := traceTo(func(context.Context, int) error { return nil }, nil)
	never.sample = 0
	for name, tracer := range map[string]*Tracer{"no tracer": nil, "not sampled": never} {
		got := testing.AllocsPerRun(100, func() {
			span := tracer.Request("")
			span.Name("GET /a")
			span.Begin("inner").End()
			span.Past("before", time.Time{}, time.Time{})
			span.Text("a", "b")
			span.Number("c", 1)
			span.Failed()
			span.End()
			_ = span.TraceID()
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	if (*Tracer)(nil).Counts() != (Counts{}) {
		t.Error("no tracer has sent something")
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Endpoint: "localhost:4318"}, {Endpoint: "ftp://x"}, {Endpoint: "http://"},
		{Endpoint: "http://x", Sample: -0.1}, {Endpoint: "http://x", Sample: 1.1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for asked, want := range map[string]string{
		"http://x": "http://x/v1/traces", "https://x:4318/": "https://x:4318/v1/traces", "http://x/y": "http://x/y",
	} {
		if tracer, err := New(Options{Endpoint: asked}); err != nil || tracer.client.endpoint != want {
			t.Errorf("%s: %v, %v", asked, tracer, err)
		}
	}
}

func BenchmarkSpan(b *testing.B) {
	for name, sample := range map[string]float64{"none": 0, "each": 1} {
		b.Run(name, func(b *testing.B) {
			tracer := traceTo(func(context.Context, int) error { return nil }, nil)
			tracer.sample = sample
			b.ReportAllocs()
			for b.Loop() {
				span := tracer.Request("")
				span.Begin("inner").End()
				span.End()
			}
		})
	}
}
