package browser

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// operators are what the operator's page is there for.
var operators = map[string]func(world){
	"operator changes": operatorChanges,
	"operator waits":   operatorWaits,
	"operator acts":    operatorActs,
	"operator watches": operatorWatches,
	"operator login":   operatorLogin,
}

// manage opens the operator's page on a line.
func (w world) manage(line string) *tab {
	w.Helper()
	p := w.tab()
	p.size(1280, 900)
	p.goTo(w.admin + "/admin?line=" + line)
	p.until(`document.querySelector('#state')?.checkVisibility()`)
	return p
}

func operatorWatches(w world) {
	line := w.line(still)
	w.enter(line, 3)
	p := w.manage(line)
	for _, chart := range []string{"waiting", "pace", "capacity", "estimate", "pool", "backlog", "latency", "errors"} {
		p.until(`document.querySelector('figure[data-chart=` + chart + `]').querySelector('svg, canvas')`)
	}
	p.untilText("#now", "3")
	w.look(p, "operator")
}

// journalled waits until the journal shows an entry, whatever else is in it: it has
// those of all lines, which other tests change meanwhile.
func journalled(p *tab, pattern string) {
	p.t.Helper()
	p.untilText("#journal li", pattern)
}

// Every setting of a line: asked about, changed, and written down.
func operatorChanges(w world) {
	line := w.line(still)
	p := w.manage(line)
	p.click("#pause")
	p.until(`document.querySelector('#confirm').open`)
	w.look(p, "operator-confirm")
	p.click("#confirm [data-do=cancel]")
	p.until(`!document.querySelector('#confirm').open`)
	if w.figures(line)["paused"] != false {
		w.Error("it was paused though the operator did not confirm")
	}
	p.click("#pause")
	p.click("#confirm [data-do=confirm]")
	w.becomes(line, "paused", true)
	journalled(p, line+`\s+pause`)

	opens, closes := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
	const local = "2006-01-02T15:04:05"
	for _, change := range []struct {
		field, typed string
		want         any
	}{
		{"message", "Back at noon", "Back at noon"},
		{"rate_override", "12.5", 12.5},
		{"max_active", "7", 7.0},
		{"max_length", "70", 70.0},
		{"weight", "5", 5.0},
		{"poll_budget", "300", 300.0},
		{"opens_at", opens.Format(local), opens},
		{"closes_at", closes.Format(local), closes},
		{"mode", "passthrough", "passthrough"},
	} {
		p.patch(change.field, change.typed)
		w.becomes(line, change.field, change.want)
		journalled(p, line+`\s+`+strings.ReplaceAll(change.field, "_", " "))
	}
	p.until(`!document.querySelector('#confirm').open`)
	p.click("form[data-patch=rate_override] [data-clear]")
	p.click("#confirm [data-do=confirm]")
	w.becomes(line, "rate_override", nil)
}

// A change that is on its way cannot be given up: the operator would not hear that it was made.
func operatorWaits(w world) {
	line := w.line(still)
	p := w.manage(line)
	eval[any](p, `(() => {
		const send = window.fetch;
		window.fetch = async (path, init) => {
			if (init?.method === 'PATCH') await new Promise((done) => { window.goOn = done; });
			return send(path, init);
		};
	})()`)
	p.click("#pause")
	p.click("#confirm [data-do=confirm]")
	p.until(`window.goOn`)
	eval[any](p, `document.querySelector('#confirm [data-do=cancel]').click()`)
	eval[any](p, `goOn()`)
	w.becomes(line, "paused", true)
	p.until(`document.querySelector('#done').textContent && !document.querySelector('#confirm').open`)
}

// patch fills a form in and confirms.
func (p *tab) patch(field, value string) {
	p.t.Helper()
	p.until(`!document.querySelector('#confirm').open`) // the last change may be made before its answer is here
	form := "form[data-patch=" + field + "]"
	eval[chromedp.Void](p, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q).elements[%q];
		field.closest('details')?.setAttribute('open', '');
		field.value = %q;
		field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`, form, field, value))
	p.click(form + " button:not([type=button])")
	p.click("#confirm [data-do=confirm]")
	p.until(`!document.querySelector('#confirm').open`)
}

// becomes waits until the API says so too.
func (w world) becomes(line, field string, want any) {
	w.Helper()
	eventually(w.T, fmt.Sprintf("%s of %s becomes %v", field, line, want), func() bool {
		got := w.figures(line)[field]
		if at, ok := want.(time.Time); ok {
			text, _ := got.(string)
			is, err := time.Parse(time.RFC3339, text)
			return err == nil && is.Equal(at)
		}
		return reflect.DeepEqual(got, want)
	})
}

// What is no setting: a visitor is taken out, goods are added, a line is made, and begun anew.
func operatorActs(w world) {
	line := w.line(still)
	v := w.join(line)
	p := w.manage(line)
	p.click("#soldOut")
	p.click("#confirm [data-do=confirm]")
	w.becomes(line, "sold_out", true)
	v.reason("sold_out")

	p.write("#remove", map[string]string{"visitor": v.visitor()})
	p.click("#confirm [data-do=confirm]")
	v.state("removed")
	journalled(p, line+`\s+remove visitor`)

	name := "new " + line
	p.write("#product", map[string]string{"name": name, "price": "1200", "stock": "9"})
	p.click("#confirm [data-do=confirm]")
	journalled(p, `add product\s+\d+: "`+name)
	p.until(`!document.querySelector('#confirm').open`)
	p.write("#coupon", map[string]string{"name": "Coupon " + line, "quantity": "3", "discount": "100"})
	p.click("#confirm [data-do=confirm]")
	journalled(p, `add coupon\s+\d+: "Coupon `+line)
	buyer := w.tab()
	buyer.goTo(w.public + "/")
	buyer.untilText("#products", name)

	w.enter(line, 1)
	w.becomes(line, "waiting", 1.0)
	epoch := w.figures(line)["epoch"]
	p.until(`!document.querySelector('#confirm').open`)
	p.click("#restart")
	p.until(`document.querySelector('#confirm [data-do=confirm]').disabled`)
	p.fill("#confirm [name=typed]", line)
	p.click("#confirm [data-do=confirm]")
	eventually(w.T, "another epoch", func() bool { return w.figures(line)["epoch"] != epoch })
	journalled(p, line+`\s+restart`)

	p.until(`!document.querySelector('#confirm').open`)
	p.write("#create", map[string]string{"line": "x" + line})
	p.click("#confirm [data-do=confirm]")
	p.until(`document.querySelector('#lines').value === 'x` + line + `'`)
}

// write fills a form in and sends it.
func (p *tab) write(form string, fields map[string]string) {
	p.t.Helper()
	eval[chromedp.Void](p, fmt.Sprintf(`document.querySelector(%q).closest('details').open = true`, form))
	for name, value := range fields {
		p.fill(fmt.Sprintf("%s [name=%s]", form, name), value)
	}
	p.click(form + " button:not([type=button])")
	p.until(`document.querySelector('#confirm').open`)
}

// Where the listener asks for a token, nothing is shown without.
func operatorLogin(w world) {
	const token = "a-token-of-ann-for-this-test"
	w.own("SLUICE_ADMIN_TOKEN=ann=" + token)
	p := w.tab()
	p.expect(`/admin/api/.* 401`)
	p.goTo(w.admin + "/admin")
	p.until(`document.querySelector('#login').checkVisibility()`)
	w.look(p, "operator-login")
	p.fill("#login [name=token]", "not-the-token-of-anybody")
	p.click("#login button")
	p.until(`document.querySelector('#trouble').checkVisibility()`)
	p.fill("#login [name=token]", token)
	p.click("#login button")
	p.until(`document.querySelector('#live').checkVisibility()`)
	p.reload()
	p.until(`document.querySelector('#live').checkVisibility()`)
	p.untilText("#who", "ann")
}

// An hour of updates, made faster, leaves nothing behind. The process is of its own: the
// journal and the lines of other tests would be seen to grow.
func TestOperatorPageForAnHour(t *testing.T) {
	t.Parallel()
	const most, settled = 1200, 200
	w := world{T: t, begin: embedded}
	w.own()
	line := w.line(still)
	w.enter(line, 3)
	p := w.tab()
	p.size(390, 844)
	do(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		{ const later = setTimeout; window.setTimeout = (what, ms, ...more) => later(what, ms === 100 ? 1 : ms, ...more); }`})
	p.goTo(w.admin + "/admin?every=100&line=" + line)
	updates := func() int { return len(p.sent("/admin/api/lines?")) + len(p.sent("/history?")) }
	held := func() (heap float64, nodes int64) {
		do(p, heapprofiler.CollectGarbage, cdp.Empty{})
		do(p, heapprofiler.CollectGarbage, cdp.Empty{})
		return do(p, runtime.GetHeapUsage, cdp.Empty{}).UsedSize, do(p, memory.GetDOMCounters, cdp.Empty{}).Nodes
	}
	eventually(w.T, "some updates", func() bool { return updates() >= settled })
	heap, nodes := held()
	for deadline := time.Now().Add(3 * patience); updates() < most; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("only %d updates", updates())
		}
	}
	heapAfter, nodesAfter := held()
	w.Logf("after %d updates %.0f KB and %d nodes, after %d %.0f KB and %d nodes", settled, heap/1024, nodes, updates(), heapAfter/1024, nodesAfter)
	if heapAfter > heap+1<<20 || nodesAfter > nodes+200 {
		w.Errorf("the page grew from %.0f to %.0f bytes and from %d to %d nodes", heap, heapAfter, nodes, nodesAfter)
	}
	if n := w.figures(line)["waiting"]; n != 3.0 {
		w.Errorf("%v wait", n)
	}
}
