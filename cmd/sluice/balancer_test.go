package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// probeEvery is how often the balancer asks for readiness; one failure takes an
	// instance out.
	probeEvery = 100 * time.Millisecond
	// probeTimeout is far above what a busy machine needs: an instance must not be
	// out because the test is slow.
	probeTimeout = 10 * time.Second
)

// balancer stands in front of instances at fixed addresses: it asks each whether it
// is ready, gives what comes to those that are, in turn, and repeats nothing.
type balancer struct {
	backends []*backend
	turn     atomic.Uint64
}

type backend struct {
	public, admin string // addresses
	ready         atomic.Bool
}

// newBalancer probes until the test ends.
func newBalancer(t *testing.T, backends ...*backend) *balancer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var probes sync.WaitGroup
	for _, b := range backends {
		probes.Go(func() { b.probe(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		probes.Wait()
	})
	return &balancer{backends: backends}
}

func (b *backend) probe(ctx context.Context) {
	for tick := time.NewTicker(probeEvery); ctx.Err() == nil; <-tick.C {
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		status, _, err := try(asking, http.MethodGet, "", "http://"+b.admin+"/readyz", nil, "")
		cancel()
		b.ready.Store(err == nil && status == http.StatusOK)
	}
}

// pick is the address of an instance that is ready; empty if none is.
func (b *balancer) pick() string {
	n := b.turn.Add(1)
	for i := range uint64(len(b.backends)) {
		if one := b.backends[(n+i)%uint64(len(b.backends))]; one.ready.Load() {
			return one.public
		}
	}
	return ""
}

// requests balances requests, over connections that it keeps; it returns its URL.
func (b *balancer) requests(t *testing.T) string {
	t.Helper()
	kept := &http.Transport{MaxIdleConnsPerHost: 100}
	proxy := &httputil.ReverseProxy{
		Transport: once{kept},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", b.pick()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			http.Error(w, "the balancer: "+r.URL.Host+": "+err.Error(), http.StatusBadGateway)
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.Close()
		kept.CloseIdleConnections()
	})
	return front.URL
}

// connections balances connections and looks at nothing in them; it returns its URL.
func (b *balancer) connections(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.join(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait() // the clients have closed theirs by now
	})
	return "http://" + ln.Addr().String()
}

// join copies both ways until both sides have ended.
func (b *balancer) join(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	far, err := (&net.Dialer{Timeout: probeTimeout}).Dial("tcp", b.pick())
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	server := far.(*net.TCPConn)
	var both sync.WaitGroup
	pass := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil && !errors.Is(err, net.ErrClosed) {
			_ = to.SetLinger(0) // a reset is passed on as one
			_ = to.Close()
			return
		}
		_ = to.CloseWrite()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// once sends each request once: the transport itself would send a GET again that found
// its connection closed, and hide it.
type once struct{ *http.Transport }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.GetBody = nil
	if r.Body == nil || r.Body == http.NoBody {
		r.Body = struct{ io.ReadCloser }{http.NoBody} // not known to be none, so not repeatable
	}
	return o.Transport.RoundTrip(r)
}
