package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that a run came to; its JSON is what --json writes.
type report struct {
	Right     bool             `json:"right"`
	Started   int64            `json:"started_ms"` // Unix time of this machine
	Seconds   float64          `json:"seconds"`
	Visitors  int              `json:"visitors"`
	Seed      uint64           `json:"seed"`
	Outcomes  map[string]int   `json:"outcomes"`
	Endpoints []endpointReport `json:"endpoints"`
	Rates     ratesReport      `json:"rates"`
	Estimate  estimateReport   `json:"estimate"`
	Fetch     fetchReport      `json:"fetch"`
	Crowd     crowdReport      `json:"crowd"`
	Entering  enteringReport   `json:"entering"`
	Polls     pollsReport      `json:"polls"`
	// Connections has what was wrong with them by kind; Cost is of the crowd itself.
	Connections connectionsReport `json:"connections"`
	Cost        costReport        `json:"cost"`
	// Line and Ticks are null without --operator.
	Line      *lineReport  `json:"line"`
	Ticks     *ticksReport `json:"ticks"`
	JudgingMS int64        `json:"judging_ms"`
	Verdicts  []verdict    `json:"verdicts"`
	Notes     []string     `json:"notes"`
	Timeline  []moment     `json:"timeline"`
}

// endpointReport has latencies in milliseconds, of the requests that were answered.
type endpointReport struct {
	Endpoint string           `json:"endpoint"`
	Answers  int64            `json:"answers"`
	P50      float64          `json:"p50_ms"`
	P95      float64          `json:"p95_ms"`
	P99      float64          `json:"p99_ms"`
	Max      float64          `json:"max_ms"`
	Refused  map[string]int64 `json:"refused"` // by status and code
}

// ratesReport is per second: the mean from the first to the last, and the
// busiest second.
type ratesReport struct {
	Admissions     float64  `json:"admissions_per_second"`
	AdmissionsMost int      `json:"admissions_most_in_a_second"`
	Orders         float64  `json:"orders_per_second"`
	OrdersMost     int64    `json:"orders_most_in_a_second"`
	Capacity       *float64 `json:"capacity"` // mean while admitting; null without --operator
}

// estimateReport compares the first estimate of those who stayed with the wait
// that then remained.
type estimateReport struct {
	Judged int     `json:"judged"`
	Within float64 `json:"within"`       // share within 20 % or 5 s
	Range  float64 `json:"within_range"` // share whose wait was in the range told, give or take as much
	P50    float64 `json:"error_p50_ms"`
	P90    float64 `json:"error_p90_ms"`
	// Signed is the median of what was told less what was waited: far from 0, most
	// were told too much, or most too little.
	Signed float64 `json:"error_signed_p50_ms"`
}

// fetchReport is how long admissions lay until they were told.
type fetchReport struct {
	// Admissions of this crowd, and the share that was told within 10 s: by the
	// service's records, which count also those who had gone; without them, of
	// those who were told.
	Admissions int     `json:"admissions"`
	Within10   float64 `json:"within_10s"`
	Recorded   bool    `json:"recorded"`
}

// crowdReport is about the crowd itself: how late it did what was due.
type crowdReport struct {
	Requests    int64   `json:"requests"`
	PerSecond   float64 `json:"requests_per_second"`
	LatenessP50 float64 `json:"lateness_p50_ms"`
	LatenessP99 float64 `json:"lateness_p99_ms"`
	LatenessMax float64 `json:"lateness_max_ms"`
	// Requests without an answer, and answered with a 5xx.
	Unanswered  int64 `json:"unanswered"`
	Unavailable int64 `json:"unavailable"`
	Closed      int64 `json:"tabs_closed"`
	Returned    int   `json:"returned"`
	Losses      int   `json:"losses"`
}

// moment is one second of the run.
type moment struct {
	Second   int   `json:"second"`
	Entered  int64 `json:"entered"`
	Waiting  int64 `json:"waiting"`
	Admitted int64 `json:"admitted"`
	Ordered  int64 `json:"ordered"`
	Errors   int64 `json:"errors"`
	Requests int64 `json:"requests"`
	Polls    int64 `json:"polls"`
	// What visitors met of each half that was away, since the start; tricks apart.
	Queue    troubleFigures `json:"queue"`
	Orders   troubleFigures `json:"orders"`
	Operator *sample        `json:"operator,omitempty"`
}

// troubleFigures count requests without an answer, and with an answer of 5xx.
type troubleFigures struct {
	Unanswered  int64 `json:"unanswered"`
	Unavailable int64 `json:"unavailable"`
}

// newReport works out the figures.
func newReport(cfg settings, h history, rec *recorder, took time.Duration, timeline []moment) report {
	r := report{
		Seconds: took.Seconds(), Visitors: cfg.Visitors, Seed: cfg.Seed, Timeline: timeline,
		Outcomes: map[string]int{}, Verdicts: judge(h), Estimate: estimates(h.stays), Fetch: fetches(h),
	}
	r.Right = allRight(r.Verdicts)
	for _, s := range h.stays {
		r.Outcomes[s.outcome.String()]++
	}
	for ep := range endpoints {
		m := &rec.measured[ep]
		if m.latencies.TotalCount() == 0 && len(m.codes) == 0 {
			continue
		}
		r.Endpoints = append(r.Endpoints, endpointReport{
			Endpoint: ep.String(), Answers: m.latencies.TotalCount(),
			P50: m.ms(50), P95: m.ms(95), P99: m.ms(99), Max: float64(m.latencies.Max()) / 1000, Refused: m.codes,
		})
	}
	r.Rates = rates(h, timeline)
	met := rec.away[queueHalf].figures()
	met.Unanswered += rec.away[orderHalf].unanswered.Load()
	met.Unavailable += rec.away[orderHalf].unavailable.Load()
	r.Entering, r.Polls = rec.entering(), rec.polling(timeline, took)
	r.Crowd = crowdReport{
		Requests: rec.requests.Load(), PerSecond: float64(rec.requests.Load()) / took.Seconds(),
		LatenessP50: rec.lateness.ms(50), LatenessP99: rec.lateness.ms(99), LatenessMax: rec.lateness.ms(100),
		Unanswered: met.Unanswered, Unavailable: met.Unavailable,
		Closed: rec.closed.Load(), Returned: len(h.comebacks), Losses: len(h.losses),
	}
	return r
}

func rates(h history, timeline []moment) (r ratesReport) {
	all := h.admissions()
	if n := len(all); n > 1 && all[n-1].at > all[0].at {
		r.Admissions = float64(n-1) / (float64(all[n-1].at-all[0].at) / 1000)
	}
	for first, i := 0, 0; i < len(all); i++ {
		for all[first].at <= all[i].at-1000 {
			first++
		}
		r.AdmissionsMost = max(r.AdmissionsMost, i-first+1)
	}
	begin, end := -1, -1
	for i := range timeline {
		made := timeline[i].Ordered
		if i > 0 {
			made -= timeline[i-1].Ordered
		}
		if made > 0 {
			if begin < 0 {
				begin = i
			}
			end = i
		}
		r.OrdersMost = max(r.OrdersMost, made)
	}
	if begin >= 0 {
		before := int64(0)
		if begin > 0 {
			before = timeline[begin-1].Ordered
		}
		r.Orders = float64(timeline[end].Ordered-before) / float64(end-begin+1)
	}
	sum, n := 0.0, 0
	for _, s := range h.samples {
		if len(all) > 0 && s.At >= all[0].at && s.At <= all[len(all)-1].at {
			sum += s.Capacity
			n++
		}
	}
	if n > 0 {
		mean := sum / float64(n)
		r.Capacity = &mean
	}
	return r
}

// estimates judges the first estimate of everybody who stayed until admitted.
func estimates(stays []stay) (r estimateReport) {
	var errs, signed []int64
	within, inRange := 0, 0
	for _, s := range stays {
		if s.late || s.estimatedAt == 0 || s.admitted == 0 {
			continue
		}
		remained := s.admitted - s.estimatedAt
		err := max(remained-int64(s.estimate), int64(s.estimate)-remained)
		slack := max(remained/5, 5000)
		if err <= slack {
			within++
		}
		if remained >= int64(s.low)-slack && remained <= int64(s.high)+slack {
			inRange++
		}
		errs, signed = append(errs, err), append(signed, int64(s.estimate)-remained)
	}
	if len(errs) == 0 {
		return r
	}
	slices.Sort(errs)
	slices.Sort(signed)
	n := len(errs)
	return estimateReport{
		Judged: n, Within: float64(within) / float64(n), Range: float64(inRange) / float64(n),
		P50: float64(errs[n/2]), P90: float64(errs[n*9/10]), Signed: float64(signed[n/2]),
	}
}

func fetches(h history) (r fetchReport) {
	soon := 0
	count := func(admitted, fetched int64) {
		if admitted == 0 {
			return
		}
		r.Admissions++
		if fetched != 0 && fetched-admitted <= 10_000 {
			soon++
		}
	}
	ours := make(map[string]bool, len(h.stays))
	r.Recorded = h.audit != nil
	for _, s := range h.stays {
		ours[s.id] = true
		if !r.Recorded {
			count(s.admitted, s.fetched)
		}
	}
	for _, a := range h.audit {
		if ours[a.ID] {
			count(a.Admitted, a.Fetched)
		}
	}
	if r.Admissions > 0 {
		r.Within10 = float64(soon) / float64(r.Admissions)
	}
	return r
}

// write prints the report for people.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // b takes everything
	line("\nendpoint\tanswers\tp50 ms\tp95 ms\tp99 ms\tmax ms\trefused")
	for _, e := range r.Endpoints {
		line("%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%s", e.Endpoint, e.Answers, e.P50, e.P95, e.P99, e.Max, counts(e.Refused))
	}
	line("\noutcomes: %s", counts(r.Outcomes))
	capacity := ""
	if r.Rates.Capacity != nil {
		capacity = fmt.Sprintf(" at a capacity of %.1f/s", *r.Rates.Capacity)
	}
	line("admissions: %.1f/s, at most %d in a second%s; orders: %.1f/s, at most %d in a second",
		r.Rates.Admissions, r.Rates.AdmissionsMost, capacity, r.Rates.Orders, r.Rates.OrdersMost)
	if e := r.Estimate; e.Judged > 0 {
		line("first estimate of %d: %.1f %% within 20 %% or 5 s, %.1f %% in the range told; error p50 %.1f s, p90 %.1f s; told less waited p50 %+.1f s",
			e.Judged, 100*e.Within, 100*e.Range, e.P50/1000, e.P90/1000, e.Signed/1000)
	}
	if f := r.Fetch; f.Admissions > 0 {
		of := "that were told"
		if f.Recorded {
			of = "on record"
		}
		line("told within 10 s: %.1f %% of the %d admissions %s", 100*f.Within10, f.Admissions, of)
	}
	c := r.Crowd
	line("the crowd: %d requests, %.0f/s; late by p50 %.1f, p99 %.1f, at most %.1f ms; %d tabs closed, %d returns",
		c.Requests, c.PerSecond, c.LatenessP50, c.LatenessP99, c.LatenessMax, c.Closed, c.Returned)
	if c.Unanswered+c.Unavailable > 0 {
		line("trouble: %d requests without an answer, %d answered that it cannot", c.Unanswered, c.Unavailable)
	}
	r.lines(line)
	for _, n := range r.Notes {
		line("note: %s", n)
	}
	_ = t.Flush() // into b
	b.WriteByte('\n')
	for _, v := range r.Verdicts {
		v.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v verdict) write(b *strings.Builder) {
	word := "right"
	switch {
	case v.Skipped:
		word = "-"
	case !v.Right:
		word = "WRONG"
	}
	_, _ = fmt.Fprintf(b, "%-6s %-22s %d judged, %d wrong, %d excused", word, v.Rule, v.Judged, v.Wrong, v.Excused)
	if v.Note != "" {
		_, _ = fmt.Fprintf(b, " (%s)", v.Note)
	}
	b.WriteByte('\n')
	for _, e := range v.Evidence {
		b.WriteString("       " + e + "\n")
	}
}

// counts lists a map, in the order of its keys.
func counts[N int | int64](m map[string]N) string {
	if len(m) == 0 {
		return "-"
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s ×%d", k, m[k]))
	}
	return strings.Join(all, ", ")
}
