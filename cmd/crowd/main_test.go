package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveFake puts a fake behind HTTP, in real time.
func serveFake(t *testing.T, f *fake) string {
	say := func(w http.ResponseWriter, a answer, err error) {
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(a.Status)
		if a.Status != http.StatusNoContent {
			_ = json.NewEncoder(w).Encode(a)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /queue/enter", func(w http.ResponseWriter, r *http.Request) {
		a, err := f.enter(0, r.Header.Get("X-Queue-Ticket"))
		say(w, a, err)
	})
	mux.HandleFunc("GET /queue/position", func(w http.ResponseWriter, r *http.Request) {
		a, err := f.position(0, r.Header.Get("X-Queue-Ticket"))
		say(w, a, err)
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		a, err := f.order(0, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), 1, "")
		say(w, a, err)
	})
	mux.HandleFunc("GET /queue/status", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"state":"open"}`) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestRunJudgesAndReports(t *testing.T) {
	quick := func(broken string) *fake {
		f := newFake()
		f.rate, f.told, f.usable, f.broken = 1000, 20*time.Millisecond, 0, broken
		return f
	}
	file := filepath.Join(t.TempDir(), "report.json")
	receipts := filepath.Join(t.TempDir(), "receipts.csv")
	args := []string{"--visitors", "50", "--connections", "8", "--order-delay", "0", "--settle", "0", "--json", file, "--receipts", receipts, "--target"}
	var out, errs bytes.Buffer
	if code := run(t.Context(), append(args, serveFake(t, quick(""))), &out, &errs); code != exitRight {
		t.Fatalf("%d\n%s%s", code, &out, &errs)
	}
	for _, w := range []string{"POST /queue/enter", "p95 ms", "outcomes: ordered ×50", "right  place order kept", "-      batch never exceeded"} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("%q is not in\n%s", w, &out)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil || !r.Right || r.Outcomes["ordered"] != 50 || len(r.Verdicts) != 6 || r.Fetch.Within10 != 1 {
		t.Errorf("%v %s", err, raw)
	}

	if got, err := os.ReadFile(receipts); err != nil || strings.Count(string(got), ",order-") != 50 || !strings.HasPrefix(string(got), "ticket_id,order_id,coupon_code\nticket-") {
		t.Errorf("%v %s", err, got)
	}

	out.Reset()
	if code := run(t.Context(), append(args, serveFake(t, quick("forgetful"))), &out, &errs); code != exitWrong || !strings.Contains(out.String(), "WRONG  nobody lost") {
		t.Errorf("%d\n%s%s", code, &out, &errs)
	}
	// A run in which nobody is admitted has shown nothing.
	none := quick("")
	none.rate = 0
	out.Reset()
	if code := run(t.Context(), append([]string{"--duration", "100ms"}, append(args, serveFake(t, none))...), &out, &errs); code != exitWrong || !strings.Contains(out.String(), "nothing to judge it by") {
		t.Errorf("%d\n%s%s", code, &out, &errs)
	}
}

func TestBadUsage(t *testing.T) {
	open := serveFake(t, newFake())
	for _, args := range [][]string{
		{"more"},
		{"--no-such-flag"},
		{"--target", "http://192.0.2.1"},
		{"--operator", "http://192.0.2.1", "--target", open},
		{"--targets", open + ",http://192.0.2.1"},
		{"--visitors", "0"},
		{"--connections", "20001"},
		{"--arrival", "late"},
		{"--close-share", "1.5"},
		{"--order-share", "NaN"},
		{"--roam", "-0.1"},
		{"--over", "-1s"},
		{"--timeout", "0"},
		{"--replays", "-1"},
		{"--arrival", "early", "--target", open}, // the line is open
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage || !strings.HasPrefix(errs.String(), "crowd: ") {
			t.Errorf("%v: %d %s", args, code, &errs)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &out, &errs); code != exitRight || !strings.Contains(out.String(), "--allow-remote") {
		t.Errorf("%d %s", code, &errs)
	}
}
