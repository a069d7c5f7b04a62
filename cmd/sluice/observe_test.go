package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestServeTraces(t *testing.T) {
	t.Parallel()
	var polls atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		polls.Add(int64(strings.Count(data.String(), "GET /queue/status")))
	}))
	defer collector.Close()
	i := serveEmbedded(t, "SLUICE_TRACING_ENDPOINT="+collector.URL, "SLUICE_TRACING_SAMPLE=1")
	for range 3 {
		call(t, http.MethodGet, i.public+"/queue/status", nil, "")
	}
	if code := i.end(); code != exitOK || polls.Load() != 3 {
		t.Errorf("exit %d, %d of 3 polls were told", code, polls.Load())
	}
}

// A collector that takes connections and never answers changes nothing, and does not keep a
// stop from its end.
func TestServeBesideASilentCollector(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer collector.Close()
	defer close(released)
	i := serveEmbedded(t, "SLUICE_TRACING_ENDPOINT="+collector.URL, "SLUICE_TRACING_SAMPLE=1")
	for range 3 {
		call(t, http.MethodGet, i.public+"/queue/status", nil, "")
	}
	if code := i.end(); code != exitOK {
		t.Errorf("exit %d: %s", code, i.log)
	}
	if !strings.Contains(i.log.String(), "spans are dropped") {
		t.Errorf("nothing is said of it: %s", i.log)
	}
}

// What is asked of a process that still waits for its stores is told of at once, and
// nothing of it is lost when it is stopped while it waits.
func TestRequestsBeforeTheStoresAreTold(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		told.Add(int64(strings.Count(data.String(), "POST /queue/enter")))
	}))
	defer collector.Close()
	at := beginEarly(t, "SLUICE_REDIS=redis://127.0.0.1:1", "SLUICE_SECRET="+strings.Repeat("shared-secret-", 3),
		"SLUICE_LOG_ACCESS_EVERY=1", "SLUICE_TRACING_ENDPOINT="+collector.URL, "SLUICE_TRACING_SAMPLE=1")
	at.misses(t, "redis", "coupons.mode")
	at.answers(t, http.MethodPost, at.public+"/queue/enter", http.StatusServiceUnavailable, "queue_unavailable")
	at.log.await(t, "path=/queue/enter")
	at.answers(t, http.MethodPost, at.public+"/queue/enter", http.StatusServiceUnavailable, "queue_unavailable")
	if code := at.end(); code != exitOK || told.Load() != 2 {
		t.Errorf("exit %d, %d of 2 enters were told", code, told.Load())
	}
	if logged := strings.Count(at.log.String(), "path=/queue/enter"); logged != 2 {
		t.Errorf("%d of 2 enters are in the log:\n%s", logged, at.log)
	}
}
