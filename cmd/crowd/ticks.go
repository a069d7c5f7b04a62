package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
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
		series, found := strings.CutPrefix(lines.Text(), tickMetric)
		labels, value, ok := strings.Cut(series, "} ")
		if !found || !ok || !strings.Contains(labels, `line="`+line+`"`) {
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

// report works out the figures; nil without any tick, and where an instance began to count
// anew in the run: then nobody knows how many there were.
func (t ticks) report() *ticksReport {
	var bounds []float64
	for le := range t {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	counts := make([]int64, len(bounds))
	for i, le := range bounds {
		counts[i] = t[le]
	}
	if !slices.IsSorted(counts) || len(bounds) == 0 || counts[0] < 0 || t[bounds[len(bounds)-1]] == 0 {
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

// viewAge is more than how old an operator's figures may be.
const viewAge = 3 * time.Second

// counted is what the line counted since before; nil without its figures. They are looked
// at again as long as they may be older than the run.
func (o *observer) counted(before standing, rec *recorder) (line *lineReport, late *ticksReport) {
	if len(o.operators) == 0 {
		return nil, nil
	}
	for end := time.Now().Add(viewAge); ; pause(context.Background(), viewAge/10) {
		after := o.standing(context.Background())
		if before.line != nil && after.line != nil {
			line = newLineReport(*before.line, *after.line, rec.entered.Load())
		}
		if late == nil && before.ticks != nil && after.ticks != nil {
			after.ticks.add(before.ticks, -1)
			late = after.ticks.report()
		}
		if line == nil || line.Exact || time.Now().After(end) {
			return line, late
		}
	}
}
