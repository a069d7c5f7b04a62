package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	queued    = 4096             // spans; of about a kilobyte each
	mostSent  = 2048             // spans in one request to the collector
	lag       = 2 * time.Second  // how long a span waits for others to go with
	patience  = 10 * time.Second // for one answer of the collector
	lastWords = 2 * time.Second  // for all that is left at the end
	complain  = time.Minute      // between two lines of the log about a collector that is away
)

// outbox is where spans wait to be sent. The library has its own, which does not tell how
// many it dropped, and whose goroutine nobody can own.
type outbox struct {
	exporter sdk.SpanExporter
	log      *slog.Logger
	spans    chan sdk.ReadOnlySpan

	sent, dropped atomic.Uint64
	failing       bool      // the last batch was not taken
	complained    time.Time // when the log was told
}

func newOutbox(exporter sdk.SpanExporter, log *slog.Logger) *outbox {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &outbox{exporter: exporter, log: log, spans: make(chan sdk.ReadOnlySpan, queued)}
}

// OnStart is part of the library's interface.
func (o *outbox) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd is called on the path of requests: it never waits.
func (o *outbox) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case o.spans <- s:
	default:
		o.dropped.Add(1)
	}
}

// Shutdown is part of the library's interface.
func (o *outbox) Shutdown(context.Context) error { return nil }

// ForceFlush is part of the library's interface.
func (o *outbox) ForceFlush(context.Context) error { return nil }

// run sends until ctx ends, then what is left.
func (o *outbox) run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, stop) })()
	batch := make([]sdk.ReadOnlySpan, 0, mostSent)
	for {
		if batch = o.gather(ctx, batch[:0]); len(batch) == 0 {
			return // ctx has ended
		}
		o.send(sending, batch)
		clear(batch)
	}
}

// gather waits for spans: until there are as many as can be sent at once, or the first has
// waited for long enough. Once ctx has ended it takes what is there.
func (o *outbox) gather(ctx context.Context, batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	var due <-chan time.Time
	for len(batch) < mostSent {
		select {
		case s := <-o.spans:
			if batch = append(batch, s); due == nil {
				timer := time.NewTimer(lag)
				defer timer.Stop()
				due = timer.C
			}
		case <-due:
			return batch
		case <-ctx.Done():
			select {
			case s := <-o.spans:
				batch = append(batch, s)
			default:
				return batch
			}
		}
	}
	return batch
}

func (o *outbox) send(ctx context.Context, batch []sdk.ReadOnlySpan) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := o.exporter.ExportSpans(ctx, batch)
	if err == nil {
		o.sent.Add(uint64(len(batch)))
		if o.failing {
			o.log.Info("spans are taken again")
		}
	} else {
		o.dropped.Add(uint64(len(batch)))
		if now := time.Now(); !o.failing || now.Sub(o.complained) >= complain {
			o.complained = now
			o.log.Warn("spans are dropped: the collector does not take them", "error", err, "dropped", o.dropped.Load())
		}
	}
	o.failing = err != nil
}
