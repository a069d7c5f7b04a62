//go:build prove

package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	stepWorkers = 10 // of each instance
	waitTarget  = 500 * time.Millisecond
)

// newSteps starts two instances whose orders can be slowed down, and a product.
func newSteps(t *testing.T, environ ...string) (*stage, int64) {
	s := newStage(t)
	environ = append([]string{
		"SLUICE_ORDERS_TEST_DELAY=100ms", fmt.Sprint("SLUICE_ORDERS_WORKERS=", stepWorkers), fmt.Sprint("SLUICE_ORDERS_WAIT_TARGET=", waitTarget),
		"SLUICE_LINE_ADMISSION_TTL=10m",
	}, environ...)
	s.start(environ...)
	s.start(environ...)
	return s, s.product("")
}

// closedLoop is how many orders per second the pools of all instances do at a
// delay when enough buyers order one after the other: the ceiling.
func (s *stage) closedLoop(product int64, delay, during time.Duration) float64 {
	s.Helper()
	const line, buyers = "loop", 30 // buyers of each instance: three for each worker
	s.operator(http.MethodPut, "/admin/api/lines/"+line, map[string]any{"mode": "passthrough"})
	s.delay(delay)
	need := int(float64(len(s.instances)*stepWorkers)/delay.Seconds()*(during+4*time.Second).Seconds()) + 2*buyers*len(s.instances)
	tokens := make(chan string, need)
	var entering sync.WaitGroup
	for range 20 {
		entering.Go(func() {
			for range need/20 + 1 {
				if token := s.letIn(line); token != "" {
					select {
					case tokens <- token:
					default:
					}
				}
			}
		})
	}
	entering.Wait()
	time.Sleep(2500 * time.Millisecond) // the jitter window
	close(tokens)

	var counting atomic.Bool
	var done atomic.Int64
	stop := make(chan struct{})
	var ordering sync.WaitGroup
	for i := range buyers * len(s.instances) {
		at := s.instances[i%len(s.instances)]
		ordering.Go(func() {
			for token := range tokens {
				select {
				case <-stop:
					return
				default:
				}
				if status := postOrder(at, token, product); status == http.StatusCreated && counting.Load() {
					done.Add(1)
				}
			}
		})
	}
	time.Sleep(2*delay + time.Second)
	counting.Store(true)
	begun := time.Now()
	time.Sleep(during)
	counting.Store(false)
	rate := float64(done.Load()) / time.Since(begun).Seconds()
	close(stop)
	ordering.Wait()
	if len(tokens) == 0 && rate == 0 {
		s.Fatal("the closed loop measured nothing")
	}
	return rate
}

var keptAlive = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: time.Minute}

// letIn enters a line in passthrough and returns the token.
func (s *stage) letIn(line string) string {
	res, err := keptAlive.Post(s.instances[0].public+"/queue/enter?line="+line, "application/json", nil)
	if err != nil {
		s.Error(err)
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	_, token, _ := strings.Cut(string(body), `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	return token
}

func postOrder(at *process, token string, product int64) int {
	req, _ := http.NewRequest(http.MethodPost, at.public+"/orders", strings.NewReader(fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product)))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := keptAlive.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// second is what the instances say of themselves at one moment.
type second struct {
	at                            time.Time
	rate, capacity, backlog, busy float64
	inPipe, target, conversion    float64
	half, wait                    float64 // waits for a worker, p50 and p95 of the last 10 to 20 s, ms
	admitted                      float64
	limitedBy                     string
}

// watch reads the figures every half second until stop is closed.
func (s *stage) watch(line string, stop <-chan struct{}) func() []second {
	var all []second
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(500 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
			status, l := call(s, http.MethodGet, s.instances[0].admin+"/admin/api/lines/"+line, nil, "")
			if status != http.StatusOK {
				continue
			}
			sec := second{at: time.Now(), rate: number(l, "rate"), capacity: number(l, "capacity"), inPipe: number(l, "in_pipe"),
				target: number(l, "target"), conversion: number(l, "conversion"), admitted: number(l, "admitted")}
			sec.limitedBy, _ = l["limited_by"].(string)
			processes, _ := l["processes"].([]any)
			for _, p := range processes {
				p, _ := p.(map[string]any)
				sec.backlog += number(p, "backlog")
				sec.busy += number(p, "busy")
				sec.half = max(sec.half, number(p, "wait_ms", "p50"))
				sec.wait = max(sec.wait, number(p, "wait_ms", "p95"))
			}
			all = append(all, sec)
		}
	}()
	return func() []second { <-done; return all }
}

// The delay of orders changes under a standing line; admission follows.
func TestProveSteps(t *testing.T) {
	s, product := newSteps(t)
	delays := []time.Duration{100 * time.Millisecond, 1298 * time.Millisecond, 50 * time.Millisecond}
	ceiling := make(map[time.Duration]float64)
	for _, d := range delays {
		ceiling[d] = s.closedLoop(product, d, max(10*time.Second, 20*d)) // a slow pool finishes its orders in lumps
		t.Logf("closed loop at %s: %.1f orders/s", d, ceiling[d])
	}
	s.patch("loop", map[string]any{"paused": true})
	s.delay(delays[0])

	s.patch("default", map[string]any{"paused": true})
	// Orders that wait for a worker hold a connection each; the polls need others.
	c := s.crowd("--visitors", "24000", "--connections", "1500", "--arrival", "ramp", "--over", "20s", "--product", fmt.Sprint(product),
		"--duration", "8m")
	eventually(t, "a line stands", func() bool {
		return number(s.operator(http.MethodGet, "/admin/api/lines/default", nil), "waiting") > 18000
	})
	stop := make(chan struct{})
	figures := s.watch("default", stop)
	s.patch("default", map[string]any{"paused": false})

	measure := func(d time.Duration, from time.Time) {
		t.Helper()
		time.Sleep(time.Until(from.Add(20 * time.Second)))
		rate := float64(s.ordersBetween(from, from.Add(20*time.Second))) / 20
		t.Logf("at %s: %.1f orders/s, %.1f %% of the closed loop", d, rate, 100*rate/ceiling[d])
		if rate < 0.9*ceiling[d] {
			t.Errorf("at %s: %.1f orders/s are below 90 %% of %.1f", d, rate, ceiling[d])
		}
	}
	backlog := func() float64 {
		l := s.operator(http.MethodGet, "/admin/api/lines/default", nil)
		processes, _ := l["processes"].([]any)
		var sum float64
		for _, p := range processes {
			p, _ := p.(map[string]any)
			sum += number(p, "backlog")
		}
		return sum
	}

	measure(delays[0], time.Now().Add(10*time.Second))

	slowed := time.Now()
	s.delay(delays[1])
	time.Sleep(3 * time.Second) // what is out arrives
	deadline := time.Now().Add(3 * time.Minute)
	for backlog() > 2*stepWorkers*0.5 && time.Now().Before(deadline) {
		time.Sleep(250 * time.Millisecond)
	}
	gone := time.Now()
	t.Logf("the backlog was gone %.1f s after the step", gone.Sub(slowed).Seconds())
	measure(delays[1], gone.Add(10*time.Second))
	slowEnd := time.Now()

	s.delay(delays[2])
	measure(delays[2], slowEnd.Add(10*time.Second))
	close(stop)
	var half []float64 // of the waits, while orders were slow and the backlog was gone
	for _, f := range figures() {
		// A figure is of the last 10 to 20 s, in which who waited may have come before.
		if f.at.After(gone.Add(25*time.Second)) && f.at.Before(slowEnd) {
			half = append(half, f.half)
		}
		t.Logf("%6.1f s: rate %6.1f capacity %6.1f busy %3.0f backlog %4.0f in pipe %6.1f of %6.1f conversion %.2f wait p50 %6.0f p95 %6.0f ms admitted %6.0f %s",
			f.at.Sub(slowed).Seconds(), f.rate, f.capacity, f.busy, f.backlog, f.inPipe, f.target, f.conversion, f.half, f.wait, f.admitted, f.limitedBy)
	}
	// The law aims at this wait on average. It cannot hold it for every order: orders come
	// when visitors press the button, and ten workers that are busy 95 % of the time by
	// arrivals at random make the unlucky wait longer, whatever decides who is let in.
	if worst := slices.Max(half); worst >= float64(waitTarget.Milliseconds()) {
		t.Errorf("at %s half of the orders waited up to %.0f ms for a worker, want less than %s", delays[1], worst, waitTarget)
	}
	report := c.wait(9 * time.Minute)
	if outcomes, _ := report["outcomes"].(map[string]any); number(outcomes, "ordered") != 24000 {
		t.Errorf("not everybody who was let in ordered: %v", outcomes)
	}
}
