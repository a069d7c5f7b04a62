//go:build prove

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// report says what was done and what was seen, on standard output and, where REPORT
// names a file, there.
func (c *chaos) report(j judged) {
	c.Helper()
	var b strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	how := "block"
	if c.bypass {
		how = "bypass"
	}
	say("# Chaos, seed %d", c.seed)
	say("\n%d visitors, 2 instances, faults over %s; `admission.on_redis_failure` %s. The run took %s.\n",
		c.visitors, c.over, how, time.Since(c.begun).Round(time.Second))
	say("| at | what | for | requests not answered | answered 503 | the last, after it | nobody let in for | no order for | |")
	say("|---|---|---|---|---|---|---|---|---|")
	for i, h := range c.happened {
		until := c.begun.Add(c.over)
		for _, next := range c.happened[i+1:] {
			if next.began.After(h.ended) {
				until = next.began
				break
			}
		}
		r := j.saw.recovery(h.began, h.ended, until)
		say("| %.1f s | %s | %.1f s | %d | %d | %s | %s | %s | %s |", h.began.Sub(c.begun).Seconds(), h.fault,
			h.ended.Sub(h.began).Seconds(), r.unanswered, r.unavailable, r.quiet, seconds(r.noneIn), seconds(r.noneOrdered), h.note)
	}
	say("\nAll of it until the next fault begins, as the crowd met it, to the whole second: when the last request was refused\n" +
		"or not answered, after the fault was undone; and the longest time in which somebody waited and nobody was told\n" +
		"that they are let in, or was told of an order.\n")
	for _, f := range j.findings {
		word := "right"
		switch {
		case len(f.wrong) > 0:
			word = "WRONG"
		case f.untried:
			word = "not tried"
		}
		say("- **%s** %s: %s", word, strings.TrimSpace(f.rule), f.seen)
		for _, w := range f.wrong {
			say("  - %s", w)
		}
	}
	say("\n## The crowd\n\n```%s```", strings.TrimRight(c.said.String(), " \n")+"\n")
	fmt.Print(b.String())
	if file := os.Getenv("REPORT"); file != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			c.Error(err)
		}
	}
}

// recovered is what visitors met of a fault.
type recovered struct {
	unanswered, unavailable int64
	quiet                   string // when the last of them was, after the end of the fault
	noneIn, noneOrdered     int    // the longest time without, in seconds
}

// recovery looks at what the crowd saw from the beginning of a fault to the next, which
// was undone in between.
func (saw crowdSaw) recovery(began, ended, next time.Time) (r recovered) {
	queue, orders := saw.between(began.Add(-time.Second), next)
	r.unanswered, r.unavailable = queue.Unanswered+orders.Unanswered, queue.Unavailable+orders.Unavailable
	r.quiet = "–"
	before, in, ordered := saw.at(began), 0, 0
	longest := func(run *int, most *int, goesOn bool) {
		*run++
		if !goesOn {
			*run = 0
		}
		*most = max(*most, *run)
	}
	for _, s := range saw.Timeline {
		at := time.UnixMilli(saw.Started).Add(time.Duration(s.Second) * time.Second)
		if !at.After(began) || at.After(next) {
			continue
		}
		if s.Queue.sum()+s.Orders.sum() > before.Queue.sum()+before.Orders.sum() {
			r.quiet = fmt.Sprintf("%.0f s", max(0, at.Sub(ended).Seconds()))
		}
		longest(&in, &r.noneIn, s.Waiting > 0 && s.In == before.In)
		longest(&ordered, &r.noneOrdered, s.Waiting > 0 && s.Ordered == before.Ordered)
		before = s
	}
	return r
}

func seconds(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d s", n)
}

func tally[N int | int64](m map[string]N) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s ×%d", k, m[k]))
	}
	return strings.Join(all, ", ")
}
