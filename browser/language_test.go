package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// languages are those of the pages, and a browser that runs no scripts.
var languages = map[string]func(world){
	"korean":          korean,
	"own look":        ownLook,
	"without scripts": withoutScripts,
}

// The browser's language, the switch, and that the choice is kept.
func korean(w world) {
	line := w.line(still)
	w.enter(line, 4)
	p := w.tab()
	p.goTo("about:blank")
	p.language("ko-KR,ko;q=0.9,en;q=0.5")
	p.goTo(w.public + "/wait?line=" + line + "#enter")
	p.until(`document.documentElement.lang === 'ko'`)
	p.untilText("#title", "[가-힣]")
	p.untilText("#position", "^5$")
	w.look(p, "wait-korean")
	p.choose("en")
	p.untilText("#title", "in line")
	p.reload()
	p.untilText("#title", "in line")
	p.goTo(w.public + "/")
	p.until(`document.documentElement.lang === 'en'`)
	p.choose("ko")
	p.untilText("h1", "[가-힣]")
	p.untilText("[data-product] button", ".")
	w.look(p, "shop-korean")
}

// choose uses the switch of languages.
func (p *tab) choose(code string) {
	p.t.Helper()
	p.until(`document.querySelector('select[data-languages]')?.checkVisibility()`)
	eval[any](p, `(() => {
		const choice = document.querySelector('select[data-languages]');
		choice.value = '`+code+`';
		choice.dispatchEvent(new Event('change', { bubbles: true }));
	})()`)
	p.until(`document.documentElement.lang === '` + code + `'`)
}

// A shop's own name, logo, colours and language, which is written from right to left.
func ownLook(w world) {
	folder := w.TempDir()
	for name, text := range map[string]string{
		"logo.svg":      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 28"><circle cx="14" cy="14" r="12"/></svg>`,
		"texts/ar.json": `{"name": "العربية", "dir": "rtl", "wait": {"title": "أنت في الطابور", "lead": "أبق هذه الصفحة مفتوحة."}}`,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	w.own("SLUICE_PAGES_FOLDER="+folder, "SLUICE_PAGES_LOGO=logo.svg", "SLUICE_PAGES_NAME=Harbour Hall",
		"SLUICE_PAGES_ACCENT=#7a1f5c", "SLUICE_PAGES_ACCENT_DARK=#f0a8d8")
	line := w.line(still)
	w.enter(line, 2)
	p := w.tab()
	p.goTo(w.public + "/wait?lang=ar&line=" + line + "#enter")
	p.until(`document.documentElement.dir === 'rtl'`)
	p.untilText("#title", "أنت في الطابور")
	p.untilText(".bar strong", "Harbour Hall")
	p.until(`(() => { const logo = document.querySelector('.bar img'); return logo.complete && logo.naturalWidth > 0 && logo.src.includes('logo.svg'); })()`)
	p.scheme("light")
	p.until(`getComputedStyle(document.documentElement).getPropertyValue('--accent').trim() === '#7a1f5c'`)
	w.look(p, "wait-own")
}

// The waiting page for a browser that runs no scripts leads itself to one that needs none.
func withoutScripts(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	p := w.tab()
	p.goTo("about:blank")
	p.scripts(false)
	p.goTo(w.public + "/wait?line=" + line)
	p.until(`location.pathname === '/wait/plain'`)
	p.click("button[value=enter]")
	p.untilText("dd", "^2$")
	p.plainLook(w, "plain-waiting")
	ahead[0].leave()
	p.untilText("dd", "^1$")
	if !strings.HasPrefix(eval[string](p, "document.title"), "1 ") {
		w.Errorf("the title is %s", eval[string](p, "document.title"))
	}
	p.click("button[value=leave]")
	p.until(`document.querySelector('button[value=enter]')`)
	w.becomes(line, "waiting", 0.0)
	p.click("button[value=enter]")
	p.until(`document.querySelector('button[value=leave]')`)
	w.patch(line, settings{"rate_override": 100})
	p.untilText("dd", `^\d+:\d\d$`)
	p.plainLook(w, "plain-admitted")
	if n := len(p.sent("/queue/")); n != 0 {
		w.Errorf("a page without scripts asked the API %d times", n)
	}
}

// plainLook is look for a page that runs nothing and loads itself again: what looks at it
// runs in a copy.
func (p *tab) plainLook(w world, name string) {
	p.t.Helper()
	if !w.looks {
		return
	}
	html := ""
	eventually(w.T, "the page between two loads", func() (ok bool) {
		now, err := tryEval[string](p, `document.readyState === 'complete' ? document.documentElement.outerHTML : ''`)
		html = regexp.MustCompile(`<meta http-equiv="refresh"[^>]*>`).ReplaceAllString(now, "")
		return err == nil && html != ""
	})
	copied := w.tab()
	copied.goTo(w.public + "/wait/plain") // which does not load itself again for who has no place
	do(copied, page.SetDocumentContent, page.SetDocumentContentParams{
		FrameID: do(copied, page.GetFrameTree, cdp.Empty{}).FrameTree.Frame.ID, HTML: "<!doctype html>" + html,
	})
	copied.until(`[...document.styleSheets].length > 0 && getComputedStyle(document.body).marginTop === '0px'`)
	w.look(copied, name)
}
