package browser

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// plains are what a browser shows that runs no scripts.
var plains = map[string]func(world){
	"without scripts":           withoutScripts,
	"without scripts, states":   plainStates,
	"without scripts, no proof": plainProof,
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

// What keeps a visitor without scripts from moving is told to them as to all others.
func plainStates(w world) {
	line := w.line(still)
	p := w.tab()
	p.goTo("about:blank")
	p.scripts(false)
	address := w.public + "/wait/plain?line=" + line
	p.goTo(address)
	p.until(`document.querySelector('button[value=enter]')`)
	p.plainLook(w, "plain-none")
	p.click("button[value=enter]")
	p.untilText("dd", "^1$")

	p.expect(`/wait/plain.* 503`)
	for _, step := range []struct {
		name   string
		change settings
		shows  string
	}{
		{"paused", settings{"paused": true, "message": "Back at noon"}, `blockquote`},
		{"sold-out", settings{"paused": false, "message": nil, "sold_out": true}, `.notice`},
		{"blocked", settings{"sold_out": false, "mode": "block"}, `.panel`},
		{"closed", settings{"mode": "normal", "closes_at": time.Now().Add(-time.Second), "message": "Thank you, all is sold"}, `blockquote`},
	} {
		before := p.plainHeading()
		w.patch(line, step.change)
		eventually(w.T, "it shows "+step.name, func() bool {
			p.goTo(address)
			return p.plainHeading() != before && p.holds(`document.querySelector('`+step.shows+`')`)
		})
		p.plainLook(w, "plain-"+step.name)
	}

	opens := w.line(settings{"rate_override": 0.0001, "opens_at": time.Now().Add(time.Hour)})
	p.goTo(w.public + "/wait/plain?line=" + opens)
	p.click("button[value=enter]")
	p.untilText("dd", "UTC")
	p.plainLook(w, "plain-scheduled")

	full := w.line(settings{"rate_override": 0.0001, "max_length": 1})
	w.enter(full, 1)
	p.goTo(w.public + "/wait/plain?line=" + full)
	p.click("button[value=enter]")
	p.until(`document.querySelector('h1') && !document.querySelector('button[value=leave]') && location.search.includes('` + full + `')`)
	p.untilText("h1", "full")
	p.plainLook(w, "plain-full")

	gone := w.line(still)
	p.goTo(w.public + "/wait/plain?lang=ko&line=" + gone)
	p.click("button[value=enter]")
	p.until(`document.querySelector('button[value=leave]')`)
	p.plainLook(w, "plain-korean")
	w.operator(http.MethodDelete, "/admin/api/lines/"+gone+"/visitors/"+p.visitorOf(gone), map[string]any{})
	eventually(w.T, "the visitor is removed", func() bool {
		p.goTo(w.public + "/wait/plain?line=" + gone)
		return p.holds(`document.querySelector('button[value=enter]')`)
	})
	p.plainLook(w, "plain-removed")
}

// plainHeading is what tells the states of the page apart: its heading and why nothing moves.
func (p *tab) plainHeading() string {
	p.t.Helper()
	return eval[string](p, `[...document.querySelectorAll('h1, .notice')].map((e) => e.innerText).join(' ')`)
}

// Where newcomers must show work, a browser without scripts cannot, and is told.
func plainProof(w world) {
	w.own("SLUICE_LIMITS_PROOF_OF_WORK=8")
	p := w.tab()
	p.goTo("about:blank")
	p.scripts(false)
	p.expect(`/wait/plain.* 4\d\d`)
	p.goTo(w.public + "/wait/plain")
	p.click("button[value=enter]")
	p.untilText("h1", "JavaScript")
	p.plainLook(w, "plain-proof")
}
