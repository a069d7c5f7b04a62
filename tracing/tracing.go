// Package tracing tells a collector how long some requests took, and what of it: spans of
// OpenTelemetry, sent as OTLP over HTTP.
//
// Nothing here keeps a request waiting. Whether a request is traced is decided before
// anything is made of it, so that one that is not costs a number at random; spans are put
// into a queue of fixed length, and are dropped and counted where it is full.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options are where spans go, and of how many requests. The zero value is not usable.
type Options struct {
	// Endpoint is the collector's http:// or https:// address. Without a path it is asked
	// at /v1/traces.
	Endpoint string
	// Sample is the share of requests that are traced, 0 to 1.
	Sample float64
	// Version and Instance say which process spans are of.
	Version, Instance string
	// Log hears when spans cannot be sent, and when they can again; nil discards it.
	Log *slog.Logger
}

// Tracer traces requests. A nil Tracer traces none.
type Tracer struct {
	sample float64
	tracer trace.Tracer
	outbox *outbox
	client *client
}

// New checks the options; it starts nothing and asks nobody.
func New(o Options) (*Tracer, error) {
	// Not quoted: there may be a password in it.
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("tracing: the collector's address must be http://host or https://host")
	}
	if !(o.Sample >= 0 && o.Sample <= 1) { // not a number, also
		return nil, fmt.Errorf("tracing: the share of requests must be between 0 and 1, not %v", o.Sample)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	c := &client{endpoint: u.String(), http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
	t := &Tracer{sample: o.Sample, client: c, outbox: newOutbox(otlptrace.NewUnstarted(c), o.Log)}
	t.tracer = t.outbox.tracer(o)
	return t, nil
}

// tracer makes the library's part: spans of whoever asks, each into the outbox at its end.
func (o *outbox) tracer(opts Options) trace.Tracer {
	return sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // it is asked only for what is traced
		sdk.WithSpanProcessor(o),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "sluice"),
			attribute.String("service.version", opts.Version),
			attribute.String("service.instance.id", opts.Instance))),
	).Tracer("sluice")
}

// Run sends spans until ctx ends, and then what is left, for two seconds at most. It
// returns nil.
func (t *Tracer) Run(ctx context.Context) error {
	defer t.client.http.CloseIdleConnections()
	t.outbox.run(ctx)
	return nil
}

// Counts are what became of spans so far.
type Counts struct {
	Sent    uint64
	Dropped uint64 // the queue was full, or the collector did not take them
}

// Counts are zero of a nil Tracer.
func (t *Tracer) Counts() Counts {
	if t == nil {
		return Counts{}
	}
	return Counts{Sent: t.outbox.sent.Load(), Dropped: t.outbox.dropped.Load()}
}

// Request begins the span of a request, or returns nil where it is not traced.
//
// parent is a traceparent header of somebody who may decide that: their trace goes on here
// if they sample it, and is left alone if not. Empty, or not well-formed, the share of
// [Options] decides.
func (t *Tracer) Request(parent string) *Span {
	if t == nil {
		return nil
	}
	ctx := context.Background()
	var from trace.SpanContext
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
		from = trace.SpanContextFromContext(ctx)
	}
	if from.IsValid() && !from.IsSampled() || !from.IsValid() && rand.Float64() >= t.sample {
		return nil
	}
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return &Span{tracer: t.tracer, ctx: ctx, span: span}
}

// Span is something that takes time. A nil Span is that of something that is not traced,
// and notes nothing.
type Span struct {
	tracer trace.Tracer
	ctx    context.Context
	span   trace.Span

	// What is noted goes to the library at the end, at once: it allocates with each call.
	noted [8]attribute.KeyValue
	notes int
}

// Begin begins a span within this one.
func (s *Span) Begin(name string) *Span {
	if s == nil {
		return nil
	}
	ctx, span := s.tracer.Start(s.ctx, name)
	return &Span{tracer: s.tracer, ctx: ctx, span: span}
}

// Past notes a span within this one that has ended already, or has none of the two times.
func (s *Span) Past(name string, from, until time.Time) {
	if s == nil || from.IsZero() || until.IsZero() {
		return
	}
	_, span := s.tracer.Start(s.ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(until))
}

// Name names what is only known after it began.
func (s *Span) Name(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Text notes something; an empty value is nothing to note. There is room for eight notes,
// and what comes after them is left out. The value is kept.
func (s *Span) Text(key, value string) {
	if s != nil && value != "" {
		s.note(attribute.String(key, value))
	}
}

// Number notes a number, as [Span.Text].
func (s *Span) Number(key string, value int) {
	if s != nil {
		s.note(attribute.Int(key, value))
	}
}

func (s *Span) note(a attribute.KeyValue) {
	if s.notes < len(s.noted) {
		s.noted[s.notes] = a
		s.notes++
	}
}

// Failed notes that it did not do what it was there for.
func (s *Span) Failed() {
	if s != nil {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends it, now.
func (s *Span) End() {
	if s == nil {
		return
	}
	if s.notes > 0 {
		s.span.SetAttributes(s.noted[:s.notes]...)
	}
	s.span.End()
}

// TraceID is that of the trace, in hexadecimal digits; empty of a nil Span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}
