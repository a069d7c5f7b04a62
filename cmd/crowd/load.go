package main

import "fmt"

// lines prints what a large crowd is sent for: how it came, what it cost itself, and
// whether the line counted it right.
func (r report) lines(line func(format string, args ...any)) {
	e := r.Entering
	line("entered: %d in %.1f s, %.0f/s; late by p50 %.1f, p99 %.1f, at most %.1f ms",
		e.Entered, e.Seconds, e.PerSecond, e.LateP50, e.LateP99, e.LateMax)
	if p := r.Polls; len(p.Windows) > 0 {
		budget := ""
		if p.Budget != nil {
			budget = fmt.Sprintf(" of a budget of %.0f/s", *p.Budget)
		}
		line("then %d polls, %.0f/s%s, over 10 s from %.0f to %.0f/s; p50 %.1f, p95 %.1f, p99 %.1f ms",
			p.Polls, p.PerSecond, budget, p.Least, p.Most, p.P50, p.P95, p.P99)
	}
	c := r.Connections
	within := ""
	if c.AllWithin > 0 {
		within = fmt.Sprintf(", all that were asked for within %.0f ms", c.AllWithin)
	}
	line("connections: %d opened%s; requests without an answer: %s", c.Opened, within, counts(c.Failed))
	line("the crowd's own cost: %.1f s user and %.1f s system, %.1f µs a request; %d MiB; judged in %.1f s",
		r.Cost.User, r.Cost.System, r.Cost.PerRequest, r.Cost.Memory>>20, float64(r.JudgingMS)/1000)
	if l := r.Line; l != nil {
		word := "exactly"
		if !l.Exact {
			word = "NOT"
		}
		line("the line: %d waiting + %d away + %d admitted + %d left + %d given up = %d, %s the %d who entered",
			l.Waiting, l.Away, l.Admitted, l.Left, l.GivenUp, l.Sum, word, l.Entered)
	}
	if t := r.Ticks; t != nil {
		line("ticks: %d, late by p50 %.1f, p99 %.1f ms; %.2f %% within 20 ms", t.Count, t.P50, t.P99, 100*t.Within20)
	}
}
