package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	rollings = 2 // times that each instance is restarted
	// shoppers is how many come through each kind of balancer at a time.
	shoppers = 6
	// shopperPolls is how long a shopper lets a connection rest, at most.
	shopperPolls = 200 * time.Millisecond
	// rollingDelay is more than the balancer needs to notice, and than a connection
	// rests.
	rollingDelay = 3 * time.Second
)

// Two instances are restarted one after the other, again and again, behind a balancer
// of requests and one of connections. Neither sends anything twice, and not one
// request fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	shared := append(sharedStores(t), "SLUICE_LINE_INITIAL_RATE=50", "SLUICE_DRAIN_DELAY="+rollingDelay.String())
	var backends []*backend
	var processes []*exec.Cmd
	start := func(b *backend) *exec.Cmd {
		_, process := startProcess(t, append(shared, "SLUICE_LISTEN="+b.public, "SLUICE_ADMIN_LISTEN="+b.admin)...)
		return process
	}
	for range 2 {
		b := &backend{public: freeAddress(t), admin: freeAddress(t)}
		backends, processes = append(backends, b), append(processes, start(b))
	}
	product := addProduct(t, &instance{admin: "http://" + backends[0].admin}, 1_000_000)
	front := newBalancer(t, backends...)
	ready := func(b *backend) { eventually(t, "the balancer finds it ready", b.ready.Load) }
	ready(backends[0])
	ready(backends[1])

	ctx, end := context.WithCancel(t.Context())
	defer end()
	var crowd sync.WaitGroup
	var all shopping
	for _, url := range []string{front.requests(t), front.connections(t)} {
		for range shoppers {
			s := &shopper{all: &all, url: url, kept: &http.Transport{}}
			crowd.Go(func() {
				defer s.kept.CloseIdleConnections()
				for ctx.Err() == nil {
					if err := s.shop(product); err != nil {
						t.Errorf("%s: %v", time.Now().Format(time.TimeOnly+".000"), err)
					}
				}
			})
		}
	}
	for range rollings {
		for i, b := range backends {
			time.Sleep(time.Second) // real: both work for a while
			t.Logf("%s: %s is restarted", time.Now().Format(time.TimeOnly+".000"), b.public)
			if code := terminate(t, processes[i]); code != exitOK {
				t.Errorf("exit %d", code)
			}
			processes[i] = start(b)
			ready(b)
		}
	}
	end()
	crowd.Wait()
	t.Logf("%d requests, %d orders", all.requests.Load(), all.orders.Load())
	if all.orders.Load() < 10*rollings {
		t.Error("too few: nothing was shown")
	}
}

// terminate asks a process to stop and returns its exit code.
func terminate(t *testing.T, process *exec.Cmd) (code int) {
	t.Helper()
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // its error is the exit code
	return process.ProcessState.ExitCode()
}

// shopping is what all shoppers did.
type shopping struct{ requests, orders atomic.Int64 }

// shopper is one visitor after another on a connection that is kept. Every failure of
// one is an error, also one that a browser would hide.
type shopper struct {
	all  *shopping
	url  string
	kept *http.Transport
}

func (s *shopper) shop(product int) error {
	status, answer, err := s.ask(http.MethodPost, "/queue/enter", nil, "{}")
	if err != nil || status != http.StatusCreated {
		return failed("enter", status, answer, err)
	}
	ticket, _ := answer["ticket"].(string)
	for answer["token"] == nil {
		time.Sleep(shopperPolls)
		status, answer, err = s.ask(http.MethodGet, "/queue/position", map[string]string{"X-Queue-Ticket": ticket}, "")
		if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
			return failed("position", status, answer, err)
		}
	}
	usableIn, _ := answer["usable_in_ms"].(float64)
	time.Sleep(time.Duration(usableIn) * time.Millisecond)
	status, answer, err = s.ask(http.MethodPost, "/orders", map[string]string{"Authorization": fmt.Sprintf("Bearer %v", answer["token"])},
		fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
	if err != nil || status != http.StatusCreated {
		return failed("order", status, answer, err)
	}
	s.all.orders.Add(1)
	return nil
}

func failed(what string, status int, answer map[string]any, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %d %v", what, status, answer)
}

func (s *shopper) ask(method, path string, header map[string]string, body string) (status int, answer map[string]any, err error) {
	s.all.requests.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := (once{s.kept}).RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, nil, err
	}
	if json.Unmarshal(raw, &answer) != nil {
		answer = map[string]any{"text": string(raw)}
	}
	return res.StatusCode, answer, nil
}
