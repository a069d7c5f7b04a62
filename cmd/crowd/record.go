package main

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// endpoint is what is measured separately.
type endpoint uint8

const (
	epEnter endpoint = iota
	epPosition
	epLeave
	epOrder
	epTrick
	endpoints
)

func (e endpoint) String() string {
	return [...]string{"POST /queue/enter", "GET /queue/position", "POST /queue/leave", "POST /orders", "tricks"}[e]
}

// recorder gathers what happens while the crowd runs.
type recorder struct {
	entered, admitted, ordered, ended, closed atomic.Int64
	requests, errors                          atomic.Int64
	measured                                  [endpoints]measured
	lateness                                  measured // of what was due

	mu         sync.Mutex
	growths    []growth
	comebacks  []comeback
	denials    []denial
	allTricks  []trick
	losses     []loss
	toldMost   time.Duration
	serverZero int64 // the server's time, in ms, at the start of the run
}

type measured struct {
	mu        sync.Mutex
	latencies *hdrhistogram.Histogram // µs
	codes     map[string]int64        // of answers that were no success
}

func (m *measured) init() {
	m.latencies = hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
	m.codes = map[string]int64{}
}

// record notes a time; the caller holds the lock.
func (m *measured) record(d time.Duration) {
	_ = m.latencies.RecordValue(max(1, min(d.Microseconds(), m.latencies.HighestTrackableValue()))) // it is in range
}

func newRecorder() *recorder {
	r := &recorder{}
	for i := range r.measured {
		r.measured[i].init()
	}
	r.lateness.init()
	return r
}

// request notes one request. The refusals of tricks are no errors.
func (r *recorder) request(ep endpoint, took time.Duration, a answer, err error) {
	r.requests.Add(1)
	m := &r.measured[ep]
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		r.errors.Add(1)
		m.codes["no answer"]++
		return
	}
	m.record(took)
	if a.Status >= 300 {
		if ep != epTrick {
			r.errors.Add(1)
		}
		code := strconv.Itoa(a.Status)
		if a.Code != "" {
			code += " " + a.Code
		}
		m.codes[code]++
	}
}

// lateBy notes how late the crowd did what was due.
func (r *recorder) lateBy(d time.Duration) {
	r.lateness.mu.Lock()
	defer r.lateness.mu.Unlock()
	r.lateness.record(d)
}

// moment is where the run stands.
func (r *recorder) moment(second int) moment {
	m := moment{
		Second: second, Entered: r.entered.Load(), Admitted: r.admitted.Load(), Ordered: r.ordered.Load(),
		Errors: r.errors.Load(), Requests: r.requests.Load(),
	}
	m.Waiting = m.Entered - m.Admitted - r.ended.Load()
	return m
}

// most bounds how much of one kind is kept as evidence: whatever goes that wrong
// is judged wrong long before.
const most = 1_000_000

func (r *recorder) growth(g growth)     { keep(r, &r.growths, g) }
func (r *recorder) comeback(c comeback) { keep(r, &r.comebacks, c) }
func (r *recorder) denied(d denial)     { keep(r, &r.denials, d) }
func (r *recorder) trick(t trick)       { keep(r, &r.allTricks, t) }

func keep[T any](r *recorder, all *[]T, one T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(*all) < most {
		*all = append(*all, one)
	}
}

// longest notes an interval that was told.
func (r *recorder) longest(told time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toldMost = max(r.toldMost, told)
}

// clock learns how the service's clock stands to ours.
func (r *recorder) clock(server int64, at time.Duration) {
	if server == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The answer that came fastest is nearest to the truth.
	if zero := server - at.Milliseconds(); zero > r.serverZero {
		r.serverZero = zero
	}
}

// lossGap is how long nothing may be heard of a loss until the next such answer
// is of another one.
const lossGap = 15 * time.Second

// degraded notes that the line said it had lost its memory.
func (r *recorder) degraded(server int64, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.losses); n > 0 && at-r.losses[n-1].to < lossGap {
		r.losses[n-1].to = max(at, r.losses[n-1].to)
		r.losses[n-1].server = min(server, r.losses[n-1].server)
		return
	}
	r.losses = append(r.losses, loss{from: at, to: at, server: server})
}

// lost adds a loss that somebody else brought about, at a time from the start.
func (r *recorder) lost(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, loss{from: at, to: at, server: r.serverZero + at.Milliseconds()})
	slices.SortFunc(r.losses, func(a, b loss) int { return cmp.Compare(a.from, b.from) })
}

// history is what was recorded, for the judge, once nothing runs any more.
func (r *recorder) history() history {
	return history{
		growths: r.growths, comebacks: r.comebacks, denials: r.denials, tricks: r.allTricks, losses: r.losses,
		longest: r.toldMost,
	}
}
