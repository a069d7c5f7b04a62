package benchmarks

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The picture is SVG, as those of the control law are: text, and the colours follow
// the reader's light or dark mode.
const pictureStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.g{stroke:#d0d7de}
.k0{fill:#0969da}.k1{fill:#8c959f}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#30363d}.k0{fill:#58a6ff}.k1{fill:#6e7681}}
</style>
`

const (
	pictureWidth, pictureLeft, pictureRight = 860.0, 240.0, 90.0
	barHeight, barStep                      = 16.0, 22.0
)

// couponPicture draws how long it took until everybody was answered, a bar for each
// way, on a logarithmic scale.
func couponPicture(runs []rushed, crowds []int, visitors, quantity int) []byte {
	least, most := math.Inf(1), 0.0
	for _, r := range runs {
		least, most = min(least, r.all.Seconds()), max(most, r.all.Seconds())
	}
	first, last := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if first == last {
		first--
	}
	x := func(seconds float64) float64 {
		return pictureLeft + (pictureWidth-pictureLeft-pictureRight)*(math.Log10(seconds)-first)/(last-first)
	}
	title := fmt.Sprintf("%d visitors claim one of %d coupons: until all are answered", visitors, quantity)
	height := 50 + float64(len(crowds))*34 + float64(len(runs))*barStep + 34

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n", pictureWidth, height, title)
	b.WriteString(pictureStyle)
	fmt.Fprintf(&b, `<text class="t" x="16" y="24">%s</text>`+"\n", title)
	for p := first; p <= last; p++ {
		s := math.Pow(10, p)
		fmt.Fprintf(&b, `<path class="g" d="M%.1f 40V%g"/><text x="%.1f" y="%g" text-anchor="middle">%g s</text>`+"\n", x(s), height-30, x(s), height-14, s)
	}
	y := 40.0
	for _, goroutines := range crowds {
		y += 24
		fmt.Fprintf(&b, `<text x="16" y="%.1f">from %d goroutines</text>`+"\n", y, goroutines)
		y += 10
		for _, r := range runs {
			if r.goroutines != goroutines {
				continue
			}
			colour := 1
			if r.ours {
				colour = 0
			}
			end := x(r.all.Seconds())
			fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text><rect class="k%d" x="%g" y="%.1f" width="%.1f" height="%g"/><text x="%.1f" y="%.1f">%.3g s</text>`+"\n",
				pictureLeft-8, y+12, r.name, colour, pictureLeft, y, end-pictureLeft, barHeight, end+6, y+12, r.all.Seconds())
			y += barStep
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// pathPicture draws how many requests of each path are answered in a second, a bar for
// each; ours are of another colour.
func pathPicture(s staged) []byte {
	most := 0.0
	for i := range s.paths {
		most = max(most, s.median(i, perSecond))
	}
	const room = 190.0 // for what stands behind a bar
	title := fmt.Sprintf("%d wait: requests answered in a second", s.waiting)
	height := 56 + float64(len(s.paths))*barStep
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n", pictureWidth, height, title)
	b.WriteString(pictureStyle)
	fmt.Fprintf(&b, `<text class="t" x="16" y="24">%s</text>`+"\n", title)
	for i, p := range s.paths {
		colour := 0
		if p.to == s.paths[0].to { // not our service
			colour = 1
		}
		y := 40 + float64(i)*barStep
		long := (pictureWidth - pictureLeft - room) * s.median(i, perSecond) / most
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text><rect class="k%d" x="%g" y="%.1f" width="%.1f" height="%g"/><text x="%.1f" y="%.1f">%.0f, %.0f %%, p99 %.1f ms</text>`+"\n",
			pictureLeft-8, y+12, strings.NewReplacer("`", "", "*", "").Replace(p.name), colour, pictureLeft, y, long, barHeight,
			pictureLeft+long+6, y+12, s.median(i, perSecond), s.median(i, ofConstant), s.median(i, p99))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func writePicture(t testing.TB, name string, picture []byte) {
	t.Helper()
	if *docs == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*docs, "img", name), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
