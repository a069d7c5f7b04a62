package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long an end-to-end test waits for something that must come.
const patience = time.Minute

// lines is an output that others can wait for.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	more chan struct{} // holds one token when text was added
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns the whole text once it contains part.
func (l *lines) await(t testing.TB, part string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if text := l.String(); strings.Contains(text, part) {
			return text
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			t.Fatalf("%q did not appear in:\n%s", part, l.String())
		}
	}
}

// instance is one running service, started through run like the command.
type instance struct {
	public, admin string // base URLs
	banner        string
	log           *lines
	end           func() (code int) // stops it and returns the exit code; may be called twice
}

var shown = regexp.MustCompile(`(?m)^  (Shop|Orders|Operator) +(http://[^/]+)/`)

// serveEmbedded starts an instance on free ports with quick batches; environ
// adds to that. It is stopped when the test ends and must exit cleanly.
func serveEmbedded(t testing.TB, environ ...string) *instance {
	t.Helper()
	i, out := begin(t, environ...)
	i.find(t, out)
	return i
}

// begin starts one that may not be ready yet: its addresses are for find to tell.
func begin(t testing.TB, environ ...string) (i *instance, out *lines) {
	t.Helper()
	environ = append([]string{
		"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA=" + t.TempDir(),
		"SLUICE_LINE_JITTER=0s", "SLUICE_LINE_INITIAL_RATE=200",
	}, environ...)
	ctx, cancel := context.WithCancel(context.Background())
	out, log := newLines(), newLines()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve"}, environ, out, log)
		_, _ = fmt.Fprintf(out, "ended with %d\nStop it\n", code) // for whoever awaits a start that failed
		ended <- code
	}()
	i = &instance{log: log, end: sync.OnceValue(func() int {
		cancel()
		return <-ended
	})}
	t.Cleanup(func() {
		if code := i.end(); code != exitOK {
			t.Errorf("exit %d; log:\n%s", code, log)
		}
	})
	return i, out
}

// find takes the addresses from the banner.
func (i *instance) find(t testing.TB, out *lines) {
	t.Helper()
	text := out.await(t, "Stop it")
	i.banner = text
	for _, found := range shown.FindAllStringSubmatch(text, -1) {
		if found[1] == "Operator" {
			i.admin = found[2]
		} else {
			i.public = found[2]
		}
	}
	if i.public == "" || i.admin == "" {
		t.Fatalf("no addresses in:\n%s\nlog:\n%s", text, i.log)
	}
}

// call sends JSON and reads JSON.
func call(t testing.TB, method, url string, header map[string]string, body string) (status int, answer map[string]any) {
	t.Helper()
	return send(t, method, "", url, header, body)
}

// callAs reads under another Host than the address.
func callAs(t testing.TB, host, url string, header map[string]string) (status int, answer map[string]any) {
	t.Helper()
	return send(t, http.MethodGet, host, url, header, "")
}

func send(t testing.TB, method, host, url string, header map[string]string, body string) (status int, answer map[string]any) {
	t.Helper()
	status, answer, err := try(t.Context(), method, host, url, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

// try sends to an instance that may be gone.
func try(ctx context.Context, method, host, url string, header map[string]string, body string) (status int, answer map[string]any, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Host = host // empty is the address itself
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	if len(raw) > 0 && json.Unmarshal(raw, &answer) != nil {
		answer = map[string]any{"text": string(raw)}
	}
	return res.StatusCode, answer, nil
}

// client keeps no connections: an idle one would be a leaked goroutine.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// visitor goes the whole way. Each step may go to another instance.
type visitor struct {
	t      testing.TB
	line   string // empty is the default line
	ticket string
	token  string
}

// to is a queue route of the visitor's line.
func (v *visitor) to(at *instance, route string) string {
	if v.line == "" {
		return at.public + route
	}
	return at.public + route + "?line=" + v.line
}

func (v *visitor) enter(at *instance) map[string]any {
	v.t.Helper()
	status, answer := call(v.t, http.MethodPost, v.to(at, "/queue/enter"), nil, "{}")
	if status != http.StatusCreated {
		v.t.Fatalf("enter: %d %v", status, answer)
	}
	v.ticket, _ = answer["ticket"].(string)
	return answer
}

func (v *visitor) position(at *instance) map[string]any {
	v.t.Helper()
	status, answer := call(v.t, http.MethodGet, v.to(at, "/queue/position"), map[string]string{"X-Queue-Ticket": v.ticket}, "")
	if status != http.StatusOK {
		v.t.Fatalf("position: %d %v", status, answer)
	}
	return answer
}

// until polls the instances in turn for the state.
func (v *visitor) until(state string, at ...*instance) map[string]any {
	v.t.Helper()
	deadline := time.Now().Add(patience)
	for n := 0; ; n++ {
		answer := v.position(at[n%len(at)])
		if answer["state"] == state {
			return answer
		}
		if time.Now().After(deadline) {
			v.t.Fatalf("not %s: %v", state, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (v *visitor) beAdmitted(at ...*instance) {
	v.t.Helper()
	answer := v.until("admitted", at...)
	v.token, _ = answer["token"].(string)
	usableIn, _ := answer["usable_in_ms"].(float64)
	time.Sleep(time.Duration(usableIn) * time.Millisecond)
}

func (v *visitor) order(at *instance, product int) (status int, answer map[string]any) {
	v.t.Helper()
	body := fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product)
	return call(v.t, http.MethodPost, at.public+"/orders", map[string]string{"Authorization": "Bearer " + v.token}, body)
}
