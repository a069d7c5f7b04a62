package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestClientSpeaksTheContract(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprintf("%s %s ticket=%s auth=%s type=%s %s", r.Method, r.RequestURI,
			r.Header.Get("X-Queue-Ticket"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body))
		switch r.URL.Path {
		case "/queue/position":
			_, _ = io.WriteString(w, `{"line":"side","state":"waiting","position":342,"waiting":1207,"estimated_wait_ms":31000,
				"estimated_wait_range_ms":[26000,38000],"poll_after_ms":3000,"server_time":"2026-01-02T03:04:09.001Z","reason":"degraded"}`)
		case "/queue/leave":
			w.WriteHeader(http.StatusNoContent)
		case "/orders":
			w.Header().Set("Retry-After", "2")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"type":"about:blank","status":503,"code":"overloaded","retry_after_ms":1250}`)
		case "/coupons/3/claim":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"coupon_id":3,"code":"c-1","remaining":4}`)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"state":"admitted","ticket":"a.b.c","token":"d.e.f","usable_in_ms":840,"expires_in_ms":180000}`)
		}
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient([]*url.URL{u}, "side", 7, 3, 2, time.Second, false)
	t.Cleanup(c.close)

	if a, err := c.enter(0, ""); err != nil || a.Status != 201 || a.Ticket != "a.b.c" || a.Token != "d.e.f" || a.UsableIn != 840 || a.ExpiresIn != 180_000 {
		t.Errorf("%+v %v", a, err)
	}
	a, err := c.position(0, "t1")
	if err != nil || a.Status != 200 || a.State != "waiting" || a.Position != 342 || a.Estimate.ms != 31_000 || a.Range[1] != 38_000 || a.PollAfter != 3000 || a.Reason != "degraded" {
		t.Errorf("%+v %v", a, err)
	}
	if got := int64(a.ServerTime); got != time.Date(2026, 1, 2, 3, 4, 9, 1e6, time.UTC).UnixMilli() {
		t.Error(got)
	}
	if a, err := c.leave(0, "t2"); err != nil || a.Status != 204 {
		t.Errorf("%+v %v", a, err)
	}
	// The body is more exact than the header.
	if a, err := c.order(0, "tok", 3, ""); err != nil || a.Status != 503 || a.Code != "overloaded" || a.RetryAfter != 1250*time.Millisecond {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := c.claim(0, "tok"); err != nil || a.Status != 201 || a.Coupon != "c-1" || a.Code != "" {
		t.Errorf("%+v %v", a, err)
	}
	_, _ = c.order(0, "tok", 1, "c-1")
	want := []string{
		"POST /queue/enter?line=side ticket= auth= type= ",
		"GET /queue/position?line=side ticket=t1 auth= type= ",
		"POST /queue/leave?line=side ticket=t2 auth= type= ",
		`POST /orders ticket= auth=Bearer tok type=application/json {"items":[{"product_id":7,"quantity":3}]}`,
		"POST /coupons/3/claim ticket= auth=Bearer tok type= ",
		`POST /orders ticket= auth=Bearer tok type=application/json {"items":[{"product_id":7,"quantity":1}],"coupon_code":"c-1"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	server.Close()
	if _, err := c.position(0, "t1"); err == nil {
		t.Error("an answer from a server that is gone")
	}
}

// Where newcomers are asked for work the crowd does it, as a browser would.
func TestClientProvesItsWork(t *testing.T) {
	const challenge = "a-challenge"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proof := r.Header.Get("X-Queue-Proof")
		if sum := sha256.Sum256([]byte(proof)); !strings.HasPrefix(proof, challenge+":") || sum[0] != 0 || sum[1] >= 16 {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"proof_required","challenge":"`+challenge+`","bits":12}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"state":"waiting","ticket":"a.b.c"}`)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient([]*url.URL{u}, "default", 1, 0, 1, time.Second, false)
	t.Cleanup(c.close)
	if a, err := c.enter(0, ""); err != nil || a.Status != 201 || a.Ticket != "a.b.c" {
		t.Errorf("%+v %v", a, err)
	}
	for _, zeroBits := range []int{-1, 0, maxProofBits + 1} {
		if _, err := prove(challenge, zeroBits); err == nil {
			t.Errorf("%d bits", zeroBits)
		}
	}
}

func TestDecode(t *testing.T) {
	if a, err := decode(503, []byte("2"), []byte("<html>")); err != nil || a.RetryAfter != 2*time.Second {
		t.Errorf("%+v %v", a, err) // of a proxy
	}
	if _, err := decode(200, nil, []byte("<html>")); err == nil {
		t.Error("took HTML for an answer")
	}
}

func TestReadClaims(t *testing.T) {
	jwt := func(payload string) string { return newFake().jwt("%s", payload) }
	c, err := readClaims(jwt(`{"jti":"x","place":1767323045678901,"iat":1767323045.678,"exp":1767323100}`))
	if err != nil || c.ID != "x" || c.Place != 1767323045678901 || milliseconds(c.IssuedAt) != 1767323045678 {
		t.Errorf("%+v %v", c, err)
	}
	for _, bad := range []string{"", "a", "a.b", "a.!.c", jwt(`{`), jwt(`{"place":1}`)} {
		if _, err := readClaims(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestReadAudit(t *testing.T) {
	got, err := readAudit(strings.NewReader("place,entered,admitted,fetched,outcome,ticket_id\n" +
		"17,2026-01-02T03:04:05.678Z,2026-01-02T03:04:06.000Z,,admitted,abc\n,2026-01-02T03:04:05.678Z,,,scheduled,def\n"))
	ms := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC).UnixMilli()
	want := []record{
		{ID: "abc", Place: 17, Entered: ms, Admitted: ms + 322, Outcome: "admitted"},
		{ID: "def", Entered: ms, Outcome: "scheduled"},
	}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "place,entered\n1,2\n", "place,entered,admitted,fetched,outcome,ticket_id\nx,,,,,a\n", "place,entered,admitted,fetched,outcome,ticket_id\n1\n"} {
		if _, err := readAudit(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestOnlyThisMachineUnlessToldOtherwise(t *testing.T) {
	for raw, ok := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://[::1]:8080/": true, "https://localhost": true, "http://127.9.9.9": true,
		"http://192.0.2.1:8080": false, "http://0.0.0.0:8080": false, "http://[2001:db8::1]": false,
		"127.0.0.1:8080": false, "ftp://127.0.0.1": false, "http://": false, "http://127.0.0.1/?x=1": false, "http://u:p@127.0.0.1": false,
	} {
		if _, err := parseTarget(t.Context(), raw, false); (err == nil) != ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := parseTarget(t.Context(), "http://192.0.2.1:8080", true); err != nil {
		t.Error(err)
	}
}

// A name that was this machine when it was checked may be another one later.
func TestDialsThisMachineAlone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	conn, err := dialer(time.Second, false).Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	elsewhere, err := url.Parse("http://192.0.2.1:9")
	if err != nil {
		t.Fatal(err)
	}
	c := newClient([]*url.URL{elsewhere}, "default", 1, 0, 1, time.Second, false)
	defer c.close()
	if _, err := c.enter(0, ""); err == nil || !strings.Contains(err.Error(), "--allow-remote") {
		t.Errorf("a visitor: %v", err)
	}
	o := newObserver([]*url.URL{elsewhere}, nil, "", "default", false)
	defer o.close()
	if _, err := o.status(t.Context()); err == nil || !strings.Contains(err.Error(), "--allow-remote") {
		t.Errorf("the observer: %v", err)
	}
}
