package load

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// The charts are SVG within the page and take their colours from it. They are narrow, so
// that a phone shows their text as it is, and wider screens several side by side.
const (
	chartWidth = 360.0
	barStep    = 34.0
	plotHeight = 120.0
	plotLeft   = 44.0
	plotRight  = 8.0
	plotTop    = 8.0
)

// bars draws the rows of a comparison that have a bar, on a logarithmic scale where
// they are far apart.
func bars(c comparison) template.HTML {
	least, most := math.Inf(1), 0.0
	n := 0
	for _, r := range c.Rows {
		if r.Bar > 0 {
			least, most = min(least, r.Bar), max(most, r.Bar)
			n++
		}
	}
	if n == 0 {
		return ""
	}
	length := func(v float64) float64 { return v / most }
	scale := ""
	if most > 30*least {
		floor := math.Log10(least) - 0.3
		length = func(v float64) float64 { return (math.Log10(v) - floor) / (math.Log10(most) - floor) }
		scale = ", logarithmic scale"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, 22+float64(n)*barStep, esc(c.Title))
	fmt.Fprintf(&b, `<text class="t" x="0" y="12">%s%s</text>`, esc(c.barTitle()), scale)
	y := 22.0
	for _, r := range c.Rows {
		if r.Bar <= 0 {
			continue
		}
		class, label := "theirs", r.Cells[0]
		if r.Step != "" {
			class, label = "ours", r.Step+": "+r.Cells[0]
		}
		fmt.Fprintf(&b, `<text x="0" y="%g">%s</text>`, y+11, esc(shorten(label, 58)))
		fmt.Fprintf(&b, `<rect class="%s" x="0" y="%g" width="%.1f" height="12" rx="2"/>`, class, y+15, max(2, length(r.Bar)*(chartWidth-60)))
		fmt.Fprintf(&b, `<text x="%.1f" y="%g">%s</text>`, max(2, length(r.Bar)*(chartWidth-60))+5, y+25, millis(r.Bar))
		y += barStep
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // made here; what is not is escaped
}

// barTitle names what the bars show.
func (c comparison) barTitle() string {
	if c.ID == inOrders {
		return "% of what the loop allows"
	}
	return "p95, ms"
}

// series is one line of a chart.
type series struct {
	name, class string
	value       func(sample) float64
}

// seenCharts draws what was seen of the machine over the time of a step.
func seenCharts(w watched) template.HTML {
	if len(w.Samples) < 2 {
		return ""
	}
	return plot(w, "processors in use", []series{
		{"service", "l0", func(s sample) float64 { return s.Cores.Service }},
		{"Redis", "l1", func(s sample) float64 { return s.Cores.Redis }},
		{"database", "l2", func(s sample) float64 { return s.Cores.Database }},
		{"load generator", "l3", func(s sample) float64 { return s.Cores.Driver }},
	}) + plot(w, "connections", []series{
		{"established", "l0", func(s sample) float64 { return float64(s.Established) }},
		{"accept queue", "l1", func(s sample) float64 { return float64(s.AcceptQueue) }},
		{"time-wait", "l2", func(s sample) float64 { return float64(s.TimeWait) }},
	}) + plot(w, "memory, MiB", []series{
		{"service", "l0", func(s sample) float64 { return float64(s.RSS) / (1 << 20) }},
		{"Redis", "l1", func(s sample) float64 { return float64(s.RedisMemory) / (1 << 20) }},
	})
}

func plot(w watched, title string, all []series) template.HTML {
	most := 0.0
	for _, s := range w.Samples {
		for _, line := range all {
			most = max(most, line.value(s))
		}
	}
	most = roundUp(most)
	end := w.Samples[len(w.Samples)-1].At.Seconds()
	x := func(s sample) float64 { return plotLeft + (chartWidth-plotLeft-plotRight)*s.At.Seconds()/end }
	y := func(v float64) float64 { return 20 + plotTop + plotHeight*(1-v/most) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s over time">`, chartWidth, 20+plotTop+plotHeight+40, esc(title))
	fmt.Fprintf(&b, `<text class="t" x="0" y="12">%s</text>`, esc(title))
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<path class="g" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, y(part*most), chartWidth-plotRight, plotLeft-5, y(part*most)+4, short(part*most))
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">0 s</text><text x="%g" y="%g" text-anchor="end">%.0f s</text>`,
		plotLeft, y(0)+14, chartWidth-plotRight, y(0)+14, end)
	at := plotLeft
	for _, line := range all {
		points := make([]string, len(w.Samples))
		for i, s := range w.Samples {
			points[i] = fmt.Sprintf("%.1f,%.1f", x(s), y(line.value(s)))
		}
		fmt.Fprintf(&b, `<polyline class="%s" points="%s"/>`, line.class, strings.Join(points, " "))
		fmt.Fprintf(&b, `<path class="%s" d="M%g %gh14"/><text x="%g" y="%g">%s</text>`, line.class, at, y(0)+26, at+17, y(0)+30, esc(line.name))
		at += 26 + 6.2*float64(len(line.name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // made here; what is not is escaped
}

// roundUp is the next number that is 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func esc(s string) string { return template.HTMLEscapeString(s) }
