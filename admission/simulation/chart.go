package simulation

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The pictures are SVG: text that a browser draws, small, sharp, and the same to the
// byte whenever the figures are. Colours follow the reader's light or dark mode.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.g{stroke:#d0d7de}.m{stroke:#8c959f;stroke-dasharray:2 4}
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.c3{stroke:#8250df}.d{stroke-dasharray:6 4}path{fill:none;stroke-width:1.6}
.k0{fill:#0969da}.k1{fill:#bc4c00}.k2{fill:#1a7f37}.k3{fill:#8250df}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#30363d}.m{stroke:#6e7681}.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#3fb950}.c3{stroke:#bc8cff}
.k0{fill:#58a6ff}.k1{fill:#f0883e}.k2{fill:#3fb950}.k3{fill:#bc8cff}}
</style>
`

const (
	width, left, right = 860.0, 64.0, 16.0
	panelHeight        = 132.0
)

// curve is a line in a panel. Its colour is one of four.
type curve struct {
	name   string
	colour int
	dashed bool
	values []float64 // one a second
}

type panel struct {
	title  string
	curves []curve
	log    bool
}

// Picture draws a run: what was let in and finished, the backlog, and the waits.
func (r *Run) Picture() []byte {
	n := len(r.Completed)
	rates := panel{title: "per second", log: r.Scenario.Log}
	for i, admitted := range r.Admitted {
		name := "let in"
		if len(r.Admitted) > 1 {
			name = "let in: " + r.Scenario.Lines[i].Name
		}
		rates.curves = append(rates.curves, curve{name, 1 + i, false, admitted})
	}
	closed, target, waits := make([]float64, n), make([]float64, n), make([]float64, n)
	for _, ph := range r.Scenario.Phases {
		for i := int(ph.From); i < int(ph.To); i++ {
			closed[i] = ph.Closed
		}
	}
	for i := range n {
		target[i], waits[i] = waitTarget, r.Wait(0.95, i, i+1)
	}
	rates.curves = append(rates.curves,
		curve{"orders finished", 0, false, r.Completed},
		curve{"closed loop", 0, true, closed})
	return draw(r.Scenario, n, []panel{
		rates,
		{"orders", []curve{{"backlog, with the refused that come again", 3, false, r.Backlog}}, r.Scenario.Log},
		{"seconds", []curve{{"wait for a worker, 95th percentile", 2, false, waits}, {"wait target", 2, true, target}}, false},
	})
}

func draw(s Scenario, seconds int, panels []panel) []byte {
	var b strings.Builder
	height := 46 + float64(len(panels))*(panelHeight+44) + 20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n", width, height, s.Title)
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="t" x="%g" y="24">%s</text>`+"\n", left, s.Title)
	x := func(second float64) float64 { return left + (width-left-right)*second/float64(seconds) }
	for i, p := range panels {
		p.draw(&b, 46+float64(i)*(panelHeight+44)+22, x, s)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">seconds since the beginning</text>`+"\n</svg>\n", width-right, height-6)
	return []byte(b.String())
}

func (p panel) draw(b *strings.Builder, top float64, x func(float64) float64, s Scenario) {
	most := 0.0
	for _, c := range p.curves {
		most = max(most, slices.Max(c.values))
	}
	scale := func(v float64) float64 { return v }
	if p.log {
		scale = math.Log1p
	}
	ticks := p.ticks(most)
	most = max(most, ticks[len(ticks)-1])
	y := func(v float64) float64 { return top + panelHeight*(1-scale(v)/scale(most)) }

	for _, v := range ticks {
		fmt.Fprintf(b, `<path class="g" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left, y(v), width-right, left-6, y(v)+4, v)
	}
	for second := 0.0; second <= s.Seconds; second += step(s.Seconds, 10) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%g</text>`+"\n", x(second), top+panelHeight+16, second)
	}
	for _, ph := range s.Phases[1:] {
		fmt.Fprintf(b, `<path class="m" d="M%.1f %.1fv%g"/>`+"\n", x(ph.From), top, panelHeight)
	}
	fmt.Fprintf(b, `<text x="%g" y="%.1f">%s</text>`, left, top-8, p.title)
	at := left + 90
	for _, c := range p.curves {
		key := "— "
		if c.dashed {
			key = "- - "
		}
		fmt.Fprintf(b, `<text class="k%d" x="%g" y="%.1f">%s%s</text>`, c.colour, at, top-8, key, c.name)
		at += 40 + 6.6*float64(len([]rune(c.name)))
	}
	b.WriteByte('\n')
	for _, c := range p.curves {
		class := fmt.Sprint("c", c.colour)
		if c.dashed {
			class += " d"
		}
		fmt.Fprintf(b, `<path class="%s" d="M`, class)
		for i, v := range c.values {
			fmt.Fprintf(b, "%.1f %.1f ", x(float64(i)+0.5), y(v))
		}
		b.WriteString(`"/>` + "\n")
	}
}

// ticks are round numbers from 0 to the most.
func (p panel) ticks(most float64) []float64 {
	ticks := []float64{0}
	if p.log {
		for v := 1.0; v <= most; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	by := step(max(most, 0.1), 4)
	for v := by; v <= most+by/2; v += by {
		ticks = append(ticks, math.Round(v*1000)/1000)
	}
	return ticks
}

// step is the round number of which about n make up a length.
func step(length float64, n int) float64 {
	raw := length / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range []float64{1, 2, 5} {
		if f*unit >= raw {
			return f * unit
		}
	}
	return 10 * unit
}
