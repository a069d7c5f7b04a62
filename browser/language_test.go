package browser

import (
	"os"
	"path/filepath"
)

// languages are those of the pages, and the looks that a shop gives them.
var languages = map[string]func(world){
	"korean":       korean,
	"own look":     ownLook,
	"own template": ownTemplate,
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

// The example of a template does all that a visitor needs, in its own look: it is what
// shops begin with.
func ownTemplate(w world) {
	w.own("SLUICE_PAGES_FOLDER="+filepath.Join("..", "configs", "pages-example"), "SLUICE_PAGES_LOGO=logo.svg", "SLUICE_PAGES_NAME=Tea House")
	line := w.line(still)
	ahead := w.enter(line, 1)
	p := w.visit(line, "")
	p.state("none")
	p.until(`[...document.styleSheets].some((sheet) => sheet.href.endsWith('/own/shop.css') && sheet.cssRules.length > 0)`)
	p.click("#enter")
	p.state("waiting")
	p.untilText("#position", "^2$")
	p.choose("de")
	p.untilText("#title", "Sie sind in der Warteschlange")
	p.choose("en")
	w.look(p, "wait-template")
	w.patch(line, settings{"paused": true, "message": "Back at noon"})
	p.reason("paused")
	p.untilText("#words", "Back at noon")
	p.expect(`ERR_INTERNET_DISCONNECTED`)
	p.offline(true)
	p.trouble("offline")
	p.offline(false)
	p.trouble("")
	w.patch(line, settings{"paused": false, "message": nil})
	p.reason("")
	ahead[0].leave()
	p.untilText("#position", "^1$")
	w.patch(line, settings{"rate_override": 100})
	p.untilAtShop()
}
