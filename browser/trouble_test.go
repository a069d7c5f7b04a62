package browser

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
)

// troubles are what happens to a page that is open for half an hour.
var troubles = map[string]func(world){
	"two tabs":         twoTabs,
	"two tabs, left":   twoTabsLeft,
	"offline":          offline,
	"sleep":            sleeping,
	"restart":          restart,
	"cookies blocked":  cookiesBlocked,
	"cookies stripped": cookiesStripped,
	"back button":      backButton,
	"hidden":           hidden,
	"polls as told":    pollsAsTold,
	"turn slept away":  turnSleptAway,
	"turn given up":    turnGivenUp,
}

// One tab goes on with the turn, the other says so, and can take it over.
func twoTabs(w world) {
	line := w.line(still)
	p := w.join(line)
	q := p.another()
	q.goTo(w.public + "/wait?line=" + line)
	q.state("waiting")
	q.untilText("#position", "^1$")
	w.patch(line, settings{"rate_override": 100})
	atShop := func(p *tab) bool {
		return p.holds(`location.pathname === '/' && document.querySelector('#turn')?.checkVisibility()`)
	}
	eventually(w.T, "one of them goes on", func() bool { return atShop(p) || atShop(q) })
	if atShop(q) {
		p, q = q, p
	}
	q.state("elsewhere")
	w.look(q, "wait-elsewhere")
	q.click("#go")
	q.untilAtShop()
	w.becomes(line, "inside", 1.0)
}

func twoTabsLeft(w world) {
	line := w.line(still)
	p := w.join(line)
	q := p.another()
	q.goTo(w.public + "/wait?line=" + line)
	q.state("waiting")
	p.click("#leave")
	p.click("#leaving [value=leave]")
	p.state("left")
	q.until(`['left', 'none'].includes(document.querySelector('main').dataset.state)`)
}

func offline(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	p := w.join(line)
	p.untilText("#position", "^2$")
	p.expect(`ERR_INTERNET_DISCONNECTED`)
	p.offline(true)
	p.trouble("offline")
	p.untilText("#position", "^2$")
	w.look(p, "wait-offline")
	ahead[0].leave()
	p.offline(false)
	p.trouble("")
	p.untilText("#position", "^1$")
}

// A phone that sleeps runs nothing; when it wakes the page knows where it stands.
func sleeping(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	p := w.join(line)
	p.untilText("#position", "^2$")
	do(p, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateFrozen})
	ahead[0].leave()
	do(p, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateActive})
	p.untilText("#position", "^1$")
}

// The service is stopped and started again: everybody is where they were.
func restart(w world) {
	w.own("SLUICE_LINE_RECOVERY_HOLD=1s")
	line := w.line(still)
	w.enter(line, 2)
	p := w.join(line)
	p.untilText("#position", "^3$")
	p.expect(`ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE`, ` 503`)
	w.stop()
	p.until(`document.querySelector('main').dataset.trouble || document.querySelector('main').dataset.state === 'blocked'`)
	w.restart()
	p.state("waiting")
	p.trouble("")
	p.untilText("#position", "^3$")
	if n := len(p.sent("/queue/enter")); n != 1 {
		w.Errorf("the page entered %d times", n)
	}
}

// A browser that keeps nothing at all, and throws where it is asked to: the place lasts as
// long as the page.
func cookiesBlocked(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	browser := ownChromium(w.T, func(profile string) {
		text, err := json.Marshal(map[string]any{"profile": map[string]any{"default_content_setting_values": map[string]any{"cookies": 2}}})
		if err == nil {
			err = os.MkdirAll(filepath.Join(profile, "Default"), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(profile, "Default", "Preferences"), text, 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	})
	p := newTab(browser, w.T)
	p.goTo(w.public + "/wait?line=" + line + "#enter")
	if !eval[bool](p, `(() => { try { localStorage.length; return false; } catch { return true; } })()`) {
		w.Fatal("this browser does keep something")
	}
	p.untilText("#position", "^2$")
	ahead[0].leave()
	p.untilText("#position", "^1$")
	w.patch(line, settings{"rate_override": 100})
	p.untilAtShop()
}

// Something on the way takes cookies out: the ticket is kept in the page's storage, also
// over a reload.
func cookiesStripped(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	to, err := url.Parse(w.public)
	if err != nil {
		w.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Cookie")
		},
		ModifyResponse: func(answer *http.Response) error {
			answer.Header.Del("Set-Cookie")
			return nil
		},
	}
	front := httptest.NewServer(proxy)
	w.Cleanup(front.Close)
	p := w.tab()
	p.goTo(front.URL + "/wait?line=" + line + "#enter")
	p.untilText("#position", "^2$")
	ahead[0].leave()
	p.untilText("#position", "^1$")
	p.reload()
	p.untilText("#position", "^1$")
	if n := len(p.sent("/queue/enter")); n != 1 {
		w.Errorf("the page entered %d times", n)
	}
}

// Who looks at the shop meanwhile comes back to the place, as it is then.
func backButton(w world) {
	line := w.line(still)
	ahead := w.enter(line, 1)
	p := w.join(line)
	p.untilText("#position", "^2$")
	p.goTo(w.public + "/")
	ahead[0].leave()
	p.back()
	p.state("waiting")
	p.untilText("#position", "^1$")
	if n := len(p.sent("/queue/enter")); n != 1 {
		w.Errorf("the page entered %d times", n)
	}
}

// A page that nobody has looked at for five minutes asks once a minute where the wait is
// not known; who comes back is told at once. The page's clock is moved for that.
func hidden(w world) {
	line := w.line(still)
	w.enter(line, 1)
	p := w.join(line)
	eval[any](p, `(() => {
		const later = setTimeout, now = Date.now;
		window.pauses = [];
		window.setTimeout = (what, ms, ...more) => { pauses.push(ms); return later(what, ms, ...more); };
		window.gone = true;
		Object.defineProperty(document, 'hidden', { get: () => gone });
		document.dispatchEvent(new Event('visibilitychange'));
		Date.now = () => now() + 6 * 60_000;
	})()`)
	p.until(`pauses.some((ms) => ms >= 60_000)`)
	asked := len(p.sent("/queue/position"))
	eval[any](p, `gone = false; document.dispatchEvent(new Event('visibilitychange'))`)
	eventually(w.T, "it asks at once", func() bool { return len(p.sent("/queue/position")) > asked })
	p.until(`pauses.at(-1) < 5000`)
}

// The page asks as often as it is told, never sooner.
func pollsAsTold(w world) {
	line := w.line(still)
	p := w.join(line)
	var polls []request
	eventually(w.T, "some polls", func() bool {
		polls = p.sent("/queue/position")
		return len(polls) >= 5 && polls[4].ended > 0
	})
	told := p.told(p.sent("/queue/enter")[0])
	ended := p.sent("/queue/enter")[0].ended
	for i, poll := range polls[:5] {
		if pause := poll.at - ended; pause < told-50*time.Millisecond {
			w.Errorf("poll %d came %v after the last answer, told %v", i, pause, told)
		}
		told, ended = p.told(poll), poll.ended
	}
}

// told is what an answer says of the next poll.
func (p *tab) told(r request) time.Duration {
	p.t.Helper()
	body := do(p, network.GetResponseBody, network.GetResponseBodyParams{RequestID: r.id}).Body
	var answer struct {
		After int `json:"poll_after_ms"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.After < 100 {
		p.t.Fatalf("%s answered %s", r.url, body)
	}
	return time.Duration(answer.After) * time.Millisecond
}

// aTurnAhead is a page that counts down to a turn, for half a minute at least.
func (w *world) aTurnAhead() *tab {
	w.Helper()
	w.own("SLUICE_LINE_JITTER=10m", "SLUICE_LINE_ADMISSION_TTL=10m")
	for range 3 { // the draw of the moment may be a short one
		p := w.visit(w.line(settings{"rate_override": 100}), "#enter")
		p.until(`document.querySelector('main')?.dataset.state === 'admitted' || document.querySelector('#turn')`)
		if p.holds(`location.pathname === '/wait' && Number(/\d+/.exec(document.querySelector('#lead').textContent)) > 30`) {
			return p
		}
	}
	w.Fatal("never seen")
	return nil
}

// A page that slept through the whole turn does not go on with it: it asks what is now.
func turnSleptAway(w world) {
	p := w.aTurnAhead()
	asked := len(p.sent("/queue/position"))
	eval[any](p, `(() => {
		const now = Date.now;
		Date.now = () => now() + 60 * 60_000;
		document.dispatchEvent(new Event('visibilitychange'));
	})()`)
	eventually(w.T, "it asks", func() bool { return len(p.sent("/queue/position")) > asked || !p.at("/wait") })
	p.state("admitted") // the server's clock is where it was
}

// Who has left in another tab is not taken on by this one.
func turnGivenUp(w world) {
	p := w.aTurnAhead()
	eval[any](p, `(() => {
		const line = new URLSearchParams(location.search).get('line');
		const now = Date.now;
		new BroadcastChannel('sluice.' + line).postMessage('left');
		Date.now = () => now() + 10 * 60_000 - 15_000; // the turn could be used by now
	})()`)
	p.state("left")
	// The countdown would have gone on within a second.
	if state := eval[string](p, `new Promise((done) => setTimeout(() => done(document.querySelector('main').dataset.state), 1500))`); state != "left" {
		w.Errorf("then it is %s", state)
	}
}
