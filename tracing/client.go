package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// client sends spans in protobuf over HTTP. The library's own brings gRPC with it, 69
// packages for one POST.
type client struct {
	endpoint string
	http     *http.Client
}

// Start is part of the library's interface.
func (*client) Start(context.Context) error { return nil }

// Stop is part of the library's interface.
func (*client) Stop(context.Context) error { return nil }

// UploadTraces sends them once. What is not taken is not sent again: those that come
// meanwhile are as good.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData is on the wire what the protocol calls ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("tracing: writing spans: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("tracing: sending spans: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := c.http.Do(request)
	if err != nil {
		// The library's error quotes the address, and a key may be part of its query.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("tracing: sending spans: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // or the connection is not used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("tracing: the collector answers %s", answer.Status)
	}
	return nil
}
