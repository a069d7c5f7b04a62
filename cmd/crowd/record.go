package main

import (
	"cmp"
	"net/http"
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
	epClaim
	epOrder
	epTrick
	endpoints
)

func (e endpoint) String() string {
	return [...]string{"POST /queue/enter", "GET /queue/position", "POST /queue/leave", "POST /coupons/…/claim", "POST /orders", "tricks"}[e]
}

// recorder gathers what happens while the crowd runs.
type recorder struct {
	entered, admitted, ordered, ended, closed atomic.Int64
	requests, polls, errors                   atomic.Int64
	arrived, lastArrived                      atomic.Int64 // who entered first, and when the last of them was told, in ns from the start
	everybody                                 atomic.Bool  // has entered
	away                                      [halves]trouble
	measured                                  [endpoints]measured
	lateness                                  measured // of what was due
	arrivals                                  measured // how late they were
	settled                                   measured // polls after everybody had entered

	mu         sync.Mutex
	growths    []growth
	comebacks  []comeback
	denials    []denial
	allTricks  []trick
	losses     []loss
	failed     map[string]int64 // requests without an answer, by troubleOf
	bypasses   []span
	lastIn     int64 // the server's time of the latest admission heard of
	toldMost   time.Duration
	serverZero int64 // the server's time, in ms, at the start of the run
}

// half of the service that a request is for.
type half uint8

const (
	queueHalf half = iota
	orderHalf
	halves
)

// trouble is what visitors met of a service that was away.
type trouble struct {
	unanswered  atomic.Int64 // no connection, or no answer in time
	unavailable atomic.Int64 // answered with a 5xx
}

func (t *trouble) meet(status int, err error) {
	switch {
	case err != nil:
		t.unanswered.Add(1)
	case status >= http.StatusInternalServerError:
		t.unavailable.Add(1)
	}
}

func (e endpoint) half() half {
	if e == epClaim || e == epOrder {
		return orderHalf
	}
	return queueHalf
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

// add notes a time.
func (m *measured) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(d)
}

// ms is a quantile in milliseconds, once nothing runs any more.
func (m *measured) ms(quantile float64) float64 {
	return float64(m.latencies.ValueAtQuantile(quantile)) / 1000
}

func newRecorder() *recorder {
	r := &recorder{failed: map[string]int64{}}
	for i := range r.measured {
		r.measured[i].init()
	}
	r.lateness.init()
	r.arrivals.init()
	r.settled.init()
	return r
}

func (t *trouble) figures() troubleFigures {
	return troubleFigures{Unanswered: t.unanswered.Load(), Unavailable: t.unavailable.Load()}
}

// request notes one request. The refusals of tricks are no errors.
func (r *recorder) request(ep endpoint, took time.Duration, a answer, err error) {
	r.requests.Add(1)
	if ep == epPosition {
		r.polls.Add(1)
		if r.everybody.Load() && err == nil {
			r.settled.add(took)
		}
	}
	if err != nil {
		r.fails(err)
	}
	if ep != epTrick {
		r.away[ep.half()].meet(a.Status, err)
	}
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

// fails notes what kept a request from being answered.
func (r *recorder) fails(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[troubleOf(err)]++
}

// arrives notes that one of so many has entered for the first time.
func (r *recorder) arrives(all int, at time.Duration) {
	r.lastArrived.Store(int64(at))
	if r.arrived.Add(1) == int64(all) {
		r.everybody.Store(true)
	}
}

// moment is where the run stands.
func (r *recorder) moment(second int) moment {
	m := moment{
		Second: second, Entered: r.entered.Load(), Admitted: r.admitted.Load(), Ordered: r.ordered.Load(),
		Errors: r.errors.Load(), Requests: r.requests.Load(), Polls: r.polls.Load(),
	}
	m.Queue = r.away[queueHalf].figures()
	m.Orders = r.away[orderHalf].figures()
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

// lossEcho is for how long an instance that is behind may still tell of a loss that
// is over.
const lossEcho = 3 * time.Second

// goesOn is whether an answer that tells of a loss tells of one that is known. If
// somebody was let in since, the line had come back.
func (r *recorder) goesOn(l loss, at time.Duration) bool {
	over := r.lastIn > l.server+waitedSlack
	return at-l.to < lossEcho || !over && at-l.to < lossGap
}

// degraded notes that the line said it had lost its memory.
func (r *recorder) degraded(server int64, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.losses); n > 0 && r.goesOn(r.losses[n-1], at) {
		r.losses[n-1].to = max(at, r.losses[n-1].to)
		r.losses[n-1].server = min(server, r.losses[n-1].server)
		return
	}
	r.losses = append(r.losses, loss{from: at, to: at, server: server})
}

// letIn notes an admission.
func (r *recorder) letIn(server int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastIn = max(r.lastIn, server)
}

// bypassed notes that somebody waits and the line is not kept.
func (r *recorder) bypassed(server int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bypasses = extend(r.bypasses, server)
}

// bypassGap is how long nothing may be heard of a bypass until the next is another.
const bypassGap = 5000

// extend adds a moment to the spans that it is near to; moments come about in order.
func extend(spans []span, at int64) []span {
	if n := len(spans); n > 0 && at >= spans[n-1].from-bypassGap && at <= spans[n-1].to+bypassGap {
		spans[n-1].from, spans[n-1].to = min(spans[n-1].from, at), max(spans[n-1].to, at)
		return spans
	}
	return append(spans, span{at, at})
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
		growths: r.growths, comebacks: r.comebacks, denials: r.denials, tricks: r.allTricks, losses: r.losses, bypasses: r.bypasses,
		longest: r.toldMost,
	}
}
