package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/golang-jwt/jwt/v5"
)

// states are those of the waiting page, each reached as a visitor and an operator reach it.
var states = map[string]func(world){
	"state none":      stateNone,
	"state waiting":   stateWaiting,
	"state next":      stateNext,
	"state paused":    statePaused,
	"state sold out":  stateSoldOut,
	"state scheduled": stateScheduled,
	"state closed":    stateClosed,
	"state full":      stateFull,
	"state blocked":   stateBlocked,
	"state bypass":    stateBypass,
	"state bypassed":  stateBypassed,
	"state admitted":  stateAdmitted,
	"state expired":   stateExpired,
	"state spent":     stateSpent,
	"state left":      stateLeft,
	"state removed":   stateRemoved,
	"state unknown":   stateUnknown,
	"state login":     stateLogin,
	"state degraded":  stateDegraded,
	"state held":      stateHeld,
	"state away":      stateStoreAway,
}

func stateNone(w world) {
	p := w.visit(w.line(still), "")
	p.state("none")
	w.look(p, "wait-none")
	p.click("#enter")
	p.state("waiting")
}

func stateWaiting(w world) {
	line := w.line(still)
	ahead := w.enter(line, 5)
	p := w.join(line)
	w.enter(line, 3)
	p.untilText("#position", "^6$")
	p.untilText("#behind", "^3$")
	if strings.Contains(p.address(), "#") {
		w.Errorf("the fragment is still in %s", p.address())
	}
	w.look(p, "wait-waiting")
	best := 0.0
	for i, v := range ahead[:4] {
		v.leave()
		p.untilText("#position", fmt.Sprintf("^%d$", 5-i))
		p.until(fmt.Sprintf("document.title.startsWith('%d ·')", 5-i))
		now := eval[float64](p, `document.querySelector('#progress').value`)
		if now <= best {
			w.Errorf("the bar went from %v to %v", best, now)
		}
		best = now
	}
	// A reload keeps the place and what the bar has shown.
	p.reload()
	p.untilText("#position", "^2$")
	if now := eval[float64](p, `document.querySelector('#progress').value`); now < best {
		w.Errorf("the bar went from %v to %v by a reload", best, now)
	}
	if n := len(p.sent("/queue/enter")); n != 1 {
		w.Errorf("the page entered %d times", n)
	}
}

func stateNext(w world) {
	p := w.join(w.line(still))
	p.untilText("#position", "^1$")
	w.look(p, "wait-next")
}

func statePaused(w world) {
	line := w.line(still)
	w.enter(line, 1)
	p := w.join(line)
	w.patch(line, settings{"paused": true, "message": "Back at noon <b>sharp</b>"})
	p.reason("paused")
	p.untilText("#message", "Back at noon <b>sharp<")
	w.look(p, "wait-paused")
	w.patch(line, settings{"paused": false, "message": nil})
	p.reason("")
	p.until(`!document.querySelector('#message').checkVisibility()`)
}

func stateSoldOut(w world) {
	line := w.line(still)
	p := w.join(line)
	w.patch(line, settings{"sold_out": true})
	p.reason("sold_out")
	w.look(p, "wait-sold-out")
}

// Before the opening nobody has a place; the draw gives one.
func stateScheduled(w world) {
	line := w.line(settings{"rate_override": 0.0001, "opens_at": time.Now().Add(time.Hour)})
	p := w.visit(line, "#enter")
	p.state("scheduled")
	p.untilText("#countdown", `^(1:00:00|\d+:\d\d)$`)
	w.look(p, "wait-scheduled")
	w.patch(line, settings{"opens_at": time.Now().Add(2 * time.Second)})
	p.state("waiting")
	p.untilText("#position", "^1$")
}

func stateClosed(w world) {
	line := w.line(still)
	p := w.join(line)
	w.patch(line, settings{"closes_at": time.Now().Add(-time.Second), "message": "Thank you, all is sold"})
	p.state("closed")
	w.look(p, "wait-closed")

	late := w.tab()
	late.expect(`/queue/enter.* 409`)
	late.goTo(w.public + "/wait?line=" + line + "#enter")
	late.state("closed")
}

// A full line is tried again by the page itself.
func stateFull(w world) {
	line := w.line(settings{"rate_override": 0.0001, "max_length": 1})
	ahead := w.enter(line, 1)
	p := w.tab()
	p.expect(`/queue/enter.* 503`)
	p.goTo(w.public + "/wait?line=" + line + "#enter")
	p.state("full")
	p.untilText("#countdown", `\d`)
	w.look(p, "wait-full")
	ahead[0].leave()
	p.state("waiting")
}

func stateBlocked(w world) {
	line := w.line(still)
	p := w.join(line)
	p.expect(`/queue/(position|enter).* 503`)
	w.patch(line, settings{"mode": "block"})
	p.state("blocked")
	w.look(p, "wait-blocked")
	w.patch(line, settings{"mode": "normal"})
	p.state("waiting")
	p.untilText("#position", "^1$")
}

// A bypass lets people in without the line, as it is able to.
func stateBypass(w world) {
	line := w.line(settings{"rate_override": 0.0001})
	p := w.join(line)
	w.patch(line, settings{"mode": "bypass", "rate_override": nil})
	p.untilAtShop()
}

// Who comes when a bypass has let in as many as it may waits without a place, and is told.
func stateBypassed(w world) {
	w.own("SLUICE_LINE_INITIAL_RATE=0.01")
	line := w.line(settings{"mode": "bypass"})
	w.enter(line, 3)
	p := w.join(line)
	p.reason("bypass")
	w.look(p, "wait-bypass")
	w.patch(line, settings{"mode": "normal", "rate_override": 100})
	p.untilAtShop()
}

// Admitted visitors of a batch go on spread over a while, and see how long.
func stateAdmitted(w world) {
	w.own("SLUICE_LINE_JITTER=10m", "SLUICE_LINE_ADMISSION_TTL=10m")
	for range 3 { // a draw may be over before it was seen
		p := w.visit(w.line(settings{"rate_override": 100}), "#enter")
		p.until(`document.querySelector('main')?.dataset.state === 'admitted' || document.querySelector('#turn')`)
		if p.holds(`location.pathname === '/wait' && !/ [0-5] s/.test(document.querySelector('#lead').textContent)`) {
			p.untilText("#countdown", `^\d+:\d\d$`)
			if !eval[bool](p, `document.querySelector('#go').matches('[disabled], [aria-disabled=true]')`) {
				w.Error("the page offers to go on before the turn can be used")
			}
			w.look(p, "wait-admitted")
			return
		}
	}
	w.Error("never seen")
}

// Who comes back after the turn has passed may get in line again.
func stateExpired(w world) {
	w.own("SLUICE_LINE_ADMISSION_TTL=1s")
	line := w.line(settings{"rate_override": 100})
	p := w.visit(line, "#enter")
	w.comeBack(p, line, "expired")
	w.look(p, "wait-expired")
	p.click("#enter")
	p.until(`document.querySelector('main').dataset.state !== 'expired'`)
}

// comeBack opens the waiting page again and again until it shows a state; before, it
// takes the visitor to the shop.
func (w world) comeBack(p *tab, line, state string) {
	w.Helper()
	at := w.public + "/wait?line=" + line
	eventually(w.T, "the turn ends as "+state, func() bool {
		p.until(`location.pathname === '/' || !['joining', 'waiting', 'admitted', undefined].includes(document.querySelector('main')?.dataset.state)`)
		if p.at("/wait") {
			return eval[string](p, `document.querySelector('main').dataset.state`) == state
		}
		p.goTo(at)
		return false
	})
}

func stateSpent(w world) {
	line := w.line(settings{"rate_override": 100})
	p := w.visit(line, "#enter")
	p.untilAtShop()
	if status := eval[int](p, order); status != http.StatusCreated {
		w.Fatalf("the order: %d", status)
	}
	p.goTo(w.public + "/wait?line=" + line)
	w.comeBack(p, line, "spent")
	w.look(p, "wait-spent")
}

// order spends the turn that the shop holds.
const order = `fetch('/orders', {
	method: 'POST', body: '{"items":[{"product_id":1,"quantity":1}]}',
	headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + JSON.parse(sessionStorage.getItem('sluice.turn')).token},
}).then((answer) => answer.status)`

func stateLeft(w world) {
	line := w.line(still)
	p := w.join(line)
	p.click("#leave")
	w.look(p, "wait-leaving")
	p.click("#leaving [value=stay]")
	p.state("waiting")
	p.click("#leave")
	p.click("#leaving [value=leave]")
	p.state("left")
	w.look(p, "wait-left")
	w.becomes(line, "waiting", 0.0)
	p.click("#enter")
	p.state("waiting")
}

func stateRemoved(w world) {
	line := w.line(still)
	p := w.join(line)
	w.operator(http.MethodDelete, "/admin/api/lines/"+line+"/visitors/"+p.visitor(), map[string]any{})
	p.state("removed")
	w.look(p, "wait-removed")
}

// visitor is whom the ticket in the cookies is about.
func (p *tab) visitor() string { p.t.Helper(); return p.visitorOf("") }

// visitorOf is whom the ticket of a line is about, where there may be several.
func (p *tab) visitorOf(line string) string {
	p.t.Helper()
	for _, c := range do(p, network.GetCookies, network.GetCookiesParams{}).Cookies {
		parts := strings.Split(c.Value, ".")
		if !strings.HasPrefix(c.Name, "sluice_ticket") || !strings.HasSuffix(c.Name, line) || len(parts) != 3 {
			continue
		}
		var claims struct {
			Subject string `json:"sub"`
		}
		text, err := base64.RawURLEncoding.DecodeString(parts[1])
		p.must(err)
		p.must(json.Unmarshal(text, &claims))
		return claims.Subject
	}
	p.t.Fatal("no ticket among the cookies")
	return ""
}

func stateUnknown(w world) {
	p := w.tab()
	p.expect(`/queue/position.* 404`)
	p.goTo(w.public + "/wait?line=nosuch")
	p.state("unknown")
	w.look(p, "wait-unknown")
}

// The shop's login comes in the fragment, and leaves no trace in the address.
func stateLogin(w world) {
	key := strings.Repeat("a shop's own key ", 3)
	file := filepath.Join(w.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		w.Fatal(err)
	}
	w.own("SLUICE_IDENTITY_MODE=jwt", "SLUICE_IDENTITY_KEY="+file)
	line := w.line(still)
	p := w.visit(line, "")
	p.state("login")
	w.look(p, "wait-login")
	login, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": "ann", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(key))
	if err != nil {
		w.Fatal(err)
	}
	p.goTo(w.public + "/?")
	p.goTo(w.public + "/wait?line=" + line + "#enter&login=" + login)
	p.state("waiting")
	if strings.Contains(p.address(), login) {
		w.Error("the login is in the address")
	}
	p.reload()
	p.state("waiting")
}

// The line's store forgets everything: those who ask again are put back where they were.
func stateDegraded(w world) {
	if w.redis == nil {
		return // embedded there is no store that could
	}
	w.own("SLUICE_LINE_RECOVERY_HOLD=2s")
	line := w.line(still)
	w.enter(line, 2)
	p := w.join(line)
	p.untilText("#position", "^3$")
	if _, err := w.redis.Ask("FLUSHALL"); err != nil {
		w.Fatal(err)
	}
	p.reason("degraded")
	p.untilText("#position", "^3$")
	p.reason("")
	p.untilText("#position", "^3$")
}

// A process that is back after its end lets nobody in until those in line have asked
// again. Places that others have not come back for yet are no progress: the bar would stand
// full, and never goes back.
func stateHeld(w world) {
	if w.redis != nil {
		return // the line outlives the process there
	}
	w.own("SLUICE_LINE_RECOVERY_HOLD=8m")
	line := w.line(still)
	ahead := w.enter(line, 2)
	p := w.join(line)
	p.untilText("#position", "^3$")
	p.expect(`ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE`, ` 503`)
	for _, v := range ahead {
		v.gone.Store(true) // and silent until the page has been told a place without them
	}
	w.stop()
	w.restart()
	p.reason("degraded")
	p.untilText("#position", "^1$")
	for _, v := range ahead {
		v.gone.Store(false)
	}
	p.untilText("#position", "^3$")
	p.trouble("")
	if now := eval[float64](p, `document.querySelector('#progress').value`); now != 0 {
		w.Errorf("the bar is at %v of a way not yet begun", now)
	}
	w.look(p, "wait-degraded")
}

func stateStoreAway(w world) {
	if w.redis == nil {
		return // as above
	}
	w.own("SLUICE_LINE_RECOVERY_HOLD=1s")
	line := w.line(still)
	w.enter(line, 1)
	p := w.join(line)
	p.untilText("#position", "^2$")
	p.expect(`/queue/position.* 503`)
	w.redis.Stop()
	p.state("blocked")
	w.redis.Start()
	p.state("waiting")
	p.untilText("#position", "^2$")
}

// untilAtShop waits until the page has gone on to the shop with the turn, and the shop
// has taken it out of the address.
func (p *tab) untilAtShop() {
	p.t.Helper()
	p.until(`location.pathname === '/' && document.querySelector('#turn')?.checkVisibility() && !location.href.includes('sluice_token')`)
}

func (p *tab) address() string { p.t.Helper(); return eval[string](p, "location.href") }

func (p *tab) at(path string) bool { p.t.Helper(); return eval[string](p, "location.pathname") == path }
