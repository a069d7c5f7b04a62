package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// cpu is time on the processors.
type cpu struct{ User, System time.Duration }

func (c cpu) since(earlier cpu) cpu {
	return cpu{c.User - earlier.User, c.System - earlier.System}
}

// collectMore collects garbage more often than Go would by itself, unless GOGC says how
// often: nearly all that a crowd holds are its visitors, who stay.
func collectMore() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(30)
	}
}

// costReport is what the crowd itself took of the machine while it ran, judging apart.
type costReport struct {
	User   float64 `json:"cpu_user_seconds"` // 0 with cpu_system_seconds: not known here
	System float64 `json:"cpu_system_seconds"`
	// PerRequest is both together, in µs.
	PerRequest float64 `json:"cpu_per_request_us"`
	Memory     uint64  `json:"memory_bytes"` // had of the system
}

func newCostReport(used cpu, requests int64) costReport {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := costReport{User: used.User.Seconds(), System: used.System.Seconds(), Memory: m.Sys - m.HeapReleased}
	if requests > 0 {
		r.PerRequest = float64((used.User + used.System).Microseconds()) / float64(requests)
	}
	return r
}

// connectionsReport is about the connections to the service.
type connectionsReport struct {
	Opened int64 `json:"opened"`
	// AllWithin is from the first to the last of as many as were asked for, in ms; 0 if
	// there never were as many.
	AllWithin float64 `json:"all_within_ms"`
	// Failed are requests without an answer, by what was wrong: troubleOf.
	Failed map[string]int64 `json:"failed"`
}

// connections tells what became of connections since the start.
func (c *client) connections() (r connectionsReport) {
	var begun, all int64
	for _, i := range c.instances {
		r.Opened += i.opened.Load()
		if at := i.begun.Load(); at != 0 && (begun == 0 || at < begun) {
			begun = at
		}
		if at := i.all.Load(); all >= 0 && at != 0 {
			all = max(all, at)
		} else {
			all = -1
		}
	}
	if all > 0 {
		r.AllWithin = float64(all-begun) / 1e6
	}
	return r
}

// enteringReport is how the visitors came, those who enter again apart.
type enteringReport struct {
	Entered   int64   `json:"entered"`
	Seconds   float64 `json:"seconds"` // from the first request to the last answer
	PerSecond float64 `json:"per_second"`
	// Late is how much later than planned they came.
	LateP50 float64 `json:"late_p50_ms"`
	LateP99 float64 `json:"late_p99_ms"`
	LateMax float64 `json:"late_max_ms"`
}

func (r *recorder) entering() enteringReport {
	e := enteringReport{
		Entered: r.arrived.Load(), Seconds: time.Duration(r.lastArrived.Load()).Seconds(),
		LateP50: r.arrivals.ms(50), LateP99: r.arrivals.ms(99), LateMax: r.arrivals.ms(100),
	}
	if e.Seconds > 0 {
		e.PerSecond = float64(e.Entered) / e.Seconds
	}
	return e
}

// pollsReport is about the polls after everybody had entered.
type pollsReport struct {
	Polls     int64   `json:"polls"`
	PerSecond float64 `json:"per_second"` // of the windows; 0 without any
	// Windows are polls per second over 10 s each.
	Windows []float64 `json:"windows_10s"`
	Least   float64   `json:"least_10s"`
	Most    float64   `json:"most_10s"`
	P50     float64   `json:"p50_ms"`
	P95     float64   `json:"p95_ms"`
	P99     float64   `json:"p99_ms"`
	// Budget is what the operator's figures last gave as the line's; null without.
	Budget *float64 `json:"budget"`
}

const windowSeconds = 10

// polling works out the figures. Seconds of the timeline in which not everybody was there
// yet, or nobody any more, are not counted.
func (r *recorder) polling(timeline []moment, took time.Duration) pollsReport {
	p := pollsReport{
		Polls: r.settled.latencies.TotalCount(), Windows: []float64{},
		P50: r.settled.ms(50), P95: r.settled.ms(95), P99: r.settled.ms(99),
	}
	for _, m := range timeline {
		if m.Operator != nil && m.Operator.Budget > 0 {
			p.Budget = &m.Operator.Budget
		}
	}
	if r.everybody.Load() {
		first := int(math.Ceil(time.Duration(r.lastArrived.Load()).Seconds())) // timeline[i] is the end of second i+1
		last := min(len(timeline), int(took.Seconds()))
		for ; first >= 1 && first+windowSeconds <= last; first += windowSeconds {
			made := timeline[first+windowSeconds-1].Polls - timeline[first-1].Polls
			p.Windows = append(p.Windows, float64(made)/windowSeconds)
		}
	}
	if len(p.Windows) == 0 {
		return p
	}
	p.Least = math.Inf(1)
	for _, w := range p.Windows {
		p.Least, p.Most = min(p.Least, w), max(p.Most, w)
		p.PerSecond += w / float64(len(p.Windows))
	}
	return p
}

// lineReport holds what the crowd did against what the line counted meanwhile.
type lineReport struct {
	Entered int64 `json:"entered"` // new tickets that the crowd was given
	// Of the line, by the operator's figures, less what they were before the run.
	Waiting  int64 `json:"waiting"`
	Away     int64 `json:"away"`
	Admitted int64 `json:"admitted"`
	Left     int64 `json:"left"`
	GivenUp  int64 `json:"given_up"`
	Sum      int64 `json:"sum"`
	// Exact is whether the sum is as many as entered.
	Exact bool `json:"exact"`
}

func newLineReport(before, after sample, entered int64) *lineReport {
	r := &lineReport{
		Entered: entered, Waiting: after.Waiting - before.Waiting, Away: after.Away - before.Away,
		Admitted: after.Admitted - before.Admitted, Left: after.Left - before.Left, GivenUp: after.GivenUp - before.GivenUp,
	}
	r.Sum = r.Waiting + r.Away + r.Admitted + r.Left + r.GivenUp
	r.Exact = r.Sum == r.Entered
	return r
}
