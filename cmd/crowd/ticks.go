package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ticksReport is how late the line's batches were against the grid of its ticks, as the
// instances counted it during the run. Quantiles are within a bucket of theirs.
type ticksReport struct {
	Count    int64   `json:"count"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Within20 float64 `json:"within_20ms"` // share
}

// ticks are cumulative counts by upper bound in seconds.
type ticks map[float64]int64

const tickMetric = "sluice_line_tick_late_seconds_bucket{"

// readTicks reads the counts of a line from the text of a Prometheus endpoint.
func readTicks(r io.Reader, line string) (ticks, error) {
	t := ticks{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		labels, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), tickMetric), "} ")
		if !ok || !strings.HasPrefix(lines.Text(), tickMetric) || !strings.Contains(labels, `line="`+line+`"`) {
			continue
		}
		_, bound, _ := strings.Cut(labels, `le="`)
		le, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"`), 64) // also +Inf
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		t[le] = int64(n)
	}
	return t, lines.Err()
}

// ticks adds up what all instances have counted since they started.
func (o *observer) ticks(ctx context.Context) (ticks, error) {
	all := ticks{}
	for _, u := range o.operators {
		err := o.get(ctx, u.JoinPath("metrics").String(), func(r io.Reader) error {
			t, err := readTicks(r, o.line)
			all.add(t, 1)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t ticks) add(other ticks, times int64) {
	for le, n := range other {
		t[le] += times * n
	}
}

// report works out the figures; nil without any tick.
func (t ticks) report() *ticksReport {
	var bounds []float64
	for le := range t {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 || t[bounds[len(bounds)-1]] == 0 {
		return nil
	}
	r := &ticksReport{Count: t[bounds[len(bounds)-1]]}
	r.P50, r.P99 = t.quantile(bounds, 0.5), t.quantile(bounds, 0.99)
	r.Within20 = float64(t[0.02]) / float64(r.Count)
	return r
}

// quantile is in ms, as if a bucket's were evenly spread; beyond the last bound it is that.
func (t ticks) quantile(bounds []float64, q float64) float64 {
	want := q * float64(t[bounds[len(bounds)-1]])
	low, below := 0.0, int64(0)
	for _, le := range bounds[:len(bounds)-1] {
		if n := t[le]; float64(n) >= want {
			return 1000 * (low + (le-low)*(want-float64(below))/float64(max(1, n-below)))
		}
		low, below = le, t[le]
	}
	return 1000 * low
}

// standing is where the line stands by the operator's figures: zero where they are not to
// be had.
type standing struct {
	line  *sample
	ticks ticks
}

func (o *observer) standing(ctx context.Context) (s standing) {
	// Also after a signal: the figures are of the run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	_ = anyOf(o.operators, func(u *url.URL) error {
		line, err := o.sample(ctx, u)
		if err == nil {
			s.line = &line
		}
		return err
	})
	s.ticks, _ = o.ticks(ctx)
	return s
}

// counted fills in what the line counted between two times.
func (r *report) counted(before, after standing, rec *recorder) {
	if before.line != nil && after.line != nil {
		r.Line = newLineReport(*before.line, *after.line, rec.entered.Load())
	}
	if before.ticks != nil && after.ticks != nil {
		after.ticks.add(before.ticks, -1)
		r.Ticks = after.ticks.report()
	}
}
