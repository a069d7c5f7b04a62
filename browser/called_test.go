package browser

import (
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// calls are how visitors who do not look learn that it is their turn.
var calls = map[string]func(world){
	"called":     called,
	"not called": notCalled,
}

// notes keeps what a page notifies of and how many tones it plays where the page after it,
// the shop's, can still tell.
const notes = `(() => {
	const count = (name, more) => sessionStorage.setItem(name, JSON.stringify([...JSON.parse(sessionStorage.getItem(name) ?? '[]'), more]));
	window.Notification = class extends Notification {
		constructor(title, options) { super(title, options); if (title) count('test.notes', title + '|' + options.body); }
	};
	window.OscillatorNode = class extends OscillatorNode {
		constructor(...how) { super(...how); count('test.tones', how[1].frequency); }
	};
	window.noted = (name) => JSON.parse(sessionStorage.getItem(name) ?? '[]');
})()`

// listening is a tab whose notifications and tones are noted.
func (w world) listening() *tab {
	w.Helper()
	p := w.tab()
	do(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: notes})
	return p
}

// Who asked to be called and looks elsewhere hears it, is notified, and sees it in the
// title; the page waits for them, and goes on when they look.
func called(w world) {
	line := w.line(still)
	p := w.listening()
	do(p, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted,
		Origin: w.public, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID,
	})
	p.goTo(w.public + "/wait?line=" + line + "#enter")
	p.state("waiting")
	p.click("#sound")
	p.until(`document.querySelector('#sound').checked && noted('test.tones').length === 3`) // how it will sound
	p.click("#notify")
	p.until(`document.querySelector('#notify').checked`)
	p.until(`!document.querySelector('#soundNote').checkVisibility() && !document.querySelector('#notifyNote').checkVisibility()`)
	w.look(p, "wait-called")
	eval[chromedp.Void](p, `(() => {
		window.gone = true;
		Object.defineProperty(document, 'hidden', { get: () => gone });
		document.dispatchEvent(new Event('visibilitychange'));
		new MutationObserver(() => document.title.startsWith('● ') && sessionStorage.setItem('test.title', document.title))
			.observe(document.querySelector('title'), { childList: true });
	})()`)
	w.patch(line, settings{"rate_override": 100})
	p.until(`noted('test.notes').length > 0`)
	p.until(`sessionStorage.getItem('test.title')`)
	p.until(`noted('test.tones').length >= 6`)
	// It may have gone on by itself by now, on a slow machine.
	_, _ = tryEval[chromedp.Void](p, `(() => { window.gone = false; document.dispatchEvent(new Event('visibilitychange')); })()`)
	p.untilAtShop()
	if said := eval[[]string](p, `noted('test.notes')`); len(said) != 1 {
		w.Errorf("notified of %q", said)
	}
}

// Who did not ask is not called.
func notCalled(w world) {
	line := w.line(still)
	p := w.listening()
	p.goTo(w.public + "/wait?line=" + line + "#enter")
	p.state("waiting")
	if eval[bool](p, `document.querySelector('#sound').checked || document.querySelector('#notify').checked`) {
		w.Error("the switches are on from the start")
	}
	w.patch(line, settings{"rate_override": 100})
	p.untilAtShop()
	if said := eval[int](p, `noted('test.notes').length + noted('test.tones').length`); said != 0 {
		w.Errorf("called %d times", said)
	}
}
