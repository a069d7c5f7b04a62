package browser

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"sluice/servicetest"
)

var screenshots = flag.String("screenshots", "", "write what every page shows in every state to this `folder`")

// views are the windows that every page is looked at in.
var views = []struct {
	width, height int64
	scheme        string
}{
	{390, 844, "light"}, {390, 844, "dark"}, {1280, 900, "light"}, {1280, 900, "dark"},
}

// pictured are the pictures that the README shows, by what they are called there: as much of
// them as the window has.
var pictured = map[string]string{
	"wait-waiting-1280-light": "page-waiting",
	"wait-admitted-390-light": "page-turn",
	"wait-korean-390-dark":    "page-korean",
	"shop-1280-light":         "page-shop",
	"operator-1280-light":     "page-operator",
}

// look inspects what a page shows now, in every view: nothing runs over the window's
// edge, and axe finds nothing that keeps somebody out.
func (w world) look(p *tab, name string) {
	w.Helper()
	if !w.looks {
		return
	}
	source := axe(w.T)
	for _, v := range views {
		p.size(v.width, v.height)
		p.scheme(v.scheme)
		in := fmt.Sprintf("%s-%d-%s", name, v.width, v.scheme)
		p.fits(in)
		p.accessible(source, in)
		if *screenshots != "" {
			picture := p.screenshot()
			p.keep(picture, filepath.Join(*screenshots, in+".png"))
			if name, ok := pictured[in]; ok {
				part := picture.(interface {
					SubImage(image.Rectangle) image.Image
				}).SubImage(image.Rect(0, 0, int(v.width), int(min(v.height, max(v.width*5/8, 800)))))
				p.keep(part, filepath.Join("..", "docs", "img", name+".png"))
			}
		}
	}
	// The narrowest that has to do; a window of 1280 zoomed to 200 and 400 %.
	for _, width := range []int64{640, 320} {
		p.size(width, 700)
		p.fits(fmt.Sprintf("%s-%d", name, width))
	}
	p.size(1280, 900)
}

// fits fails where a page is wider than its window.
func (p *tab) fits(in string) {
	p.t.Helper()
	over := eval[[]string](p, `(() => {
		const width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= width) return [];
		return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width + 1)
			.slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).concat(['wider than the window']);
	})()`)
	if len(over) > 0 {
		p.t.Errorf("%s: %s", in, strings.Join(over, "\n  "))
	}
}

var axeSource struct {
	once sync.Once
	text string
	err  error
}

// axe is the source of axe-core.
func axe(t testing.TB) string {
	t.Helper()
	axeSource.once.Do(func() {
		var text []byte
		text, axeSource.err = os.ReadFile(filepath.Join(servicetest.NPM(t, ".", "axe-core"), "axe.min.js"))
		axeSource.text = string(text)
	})
	if axeSource.err != nil || axeSource.text == "" {
		t.Fatalf("axe-core could not be read: %v", axeSource.err)
	}
	return axeSource.text
}

// accessible fails for what axe finds. It is put into the page by the browser, which the
// page's own policy would not allow.
func (p *tab) accessible(source, in string) {
	p.t.Helper()
	if !eval[bool](p, `typeof axe === 'object'`) {
		eval[chromedp.Void](p, source)
	}
	found := eval[string](p, `new Promise((done) => {
		// What moves in is looked at where it comes to rest.
		for (const motion of document.getAnimations()) try { motion.finish(); } catch {}
		requestAnimationFrame(() => axe.run({ resultTypes: ['violations'] }).then(({ violations }) => done(JSON.stringify(
			violations.map((v) => ({ rule: v.id, help: v.help, at: v.nodes.map((n) => n.target.join(' ') + ': ' + n.failureSummary) }))))));
	})`)
	var violations []struct {
		Rule, Help string
		At         []string
	}
	p.must(json.Unmarshal([]byte(found), &violations))
	for _, v := range violations {
		p.t.Errorf("%s: axe: %s (%s)\n  %s", in, v.Help, v.Rule, strings.Join(v.At, "\n  "))
	}
}

// screenshot is what the page shows, its whole length.
func (p *tab) screenshot() image.Image {
	p.t.Helper()
	shot := do(p, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: new(true),
	})
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	p.must(err)
	return picture
}

func (p *tab) keep(picture image.Image, file string) {
	p.t.Helper()
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	p.must(encoder.Encode(&small, picture))
	p.must(os.MkdirAll(filepath.Dir(file), 0o755))
	p.must(os.WriteFile(file, small.Bytes(), 0o644))
}
