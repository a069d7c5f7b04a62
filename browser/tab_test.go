package browser

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is one of a browser, and all that happened in it.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []*request       // guarded by mu
	said     []string         // guarded by mu; what the page complained about
	expected []*regexp.Regexp // guarded by mu; complaints that the test is about
	asked    []string         // guarded by mu; dialogs of the browser, all of which were accepted
}

// request is one that the page made.
type request struct {
	id     network.RequestID
	method string
	url    string
	at     time.Duration // when it was made, by the browser's clock
	ended  time.Duration // when the answer was there
	status int           // 0 until the answer comes, and where none came
	bytes  float64       // of the answer on the wire, with its header
	cached bool
	failed bool
}

// before is what the answer to a page's first question is: it has no ticket yet.
const before = `/queue/position.* 401`

// open makes a tab of a visitor of its own: no cookies, nothing stored.
func open(in context.Context, t testing.TB) *tab {
	t.Helper()
	return newTab(in, t, chromedp.WithNewBrowserContext(), chromedp.WithNewWindow(true))
}

// another is a second tab of the same visitor, in a window of its own: both are seen.
func (p *tab) another() *tab {
	p.t.Helper()
	return newTab(p.ctx, p.t, chromedp.WithNewWindow(true))
}

func newTab(in context.Context, t testing.TB, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(in, options...)
	p := &tab{t: t, ctx: ctx}
	p.expect(before)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page at the end: %s", p.look())
		}
		end()
		p.judge()
	})
	p.must(chromedp.Listen(ctx, p.hear))
	do(p, network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(20 << 20))})
	return p
}

// do has the browser carry out a command.
func do[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	p.must(err)
	return result
}

func (p *tab) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// expect allows complaints that match.
func (p *tab) expect(patterns ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pattern := range patterns {
		p.expected = append(p.expected, regexp.MustCompile(pattern))
	}
}

// hear notes what happens. It may not ask the browser anything by itself.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			status := regexp.MustCompile(`status of (\d+)`).FindStringSubmatch(e.Entry.Text)
			code := ""
			if status != nil {
				code = " " + status[1]
			}
			p.said = append(p.said, fmt.Sprintf("%s: %s: %s%s", e.Entry.Source, e.Entry.Text, e.Entry.URL, code))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.said = append(p.said, "exception: "+text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.said = append(p.said, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
		}
	case *page.EventJavascriptDialogOpening:
		p.asked = append(p.asked, e.Message)
		go func() {
			_, err := chromedp.Call(p.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			_ = err // the tab may have been closed with the dialog
		}()
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, &request{
			id: e.RequestID, method: e.Request.Method, url: e.Request.URL, at: seconds(e.Timestamp),
		})
	case *network.EventResponseReceived:
		p.answered(e.RequestID, func(r *request) { r.status = int(e.Response.Status) })
	case *network.EventRequestServedFromCache:
		p.answered(e.RequestID, func(r *request) { r.cached = true })
	case *network.EventLoadingFinished:
		p.answered(e.RequestID, func(r *request) { r.bytes, r.ended = e.EncodedDataLength, seconds(e.Timestamp) })
	case *network.EventLoadingFailed:
		p.answered(e.RequestID, func(r *request) { r.failed = true })
	}
}

func seconds(at cdp.MonotonicTime) time.Duration {
	return time.Duration(float64(at) * float64(time.Second))
}

// answered finds the latest of a request: a redirect has the same id.
func (p *tab) answered(id network.RequestID, note func(*request)) {
	for i := len(p.requests) - 1; i >= 0; i-- {
		if p.requests[i].id == id {
			note(p.requests[i])
			return
		}
	}
}

// judge fails the test for what the page complained about.
func (p *tab) judge() {
	p.mu.Lock()
	defer p.mu.Unlock()
said:
	for _, complaint := range p.said {
		for _, allowed := range p.expected {
			if allowed.MatchString(complaint) {
				continue said
			}
		}
		p.t.Errorf("the page complained: %s", complaint)
	}
}

// sent are the requests so far whose address has part in it.
func (p *tab) sent(part string) (requests []request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if strings.Contains(r.url, part) {
			requests = append(requests, *r)
		}
	}
	return requests
}

// goTo opens an address and waits until it is loaded.
func (p *tab) goTo(address string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		p.t.Fatalf("open %s: %v", address, err)
	}
}

// reload loads the page again, as the visitor's key does.
func (p *tab) reload() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.must(chromedp.Do(ctx, chromedp.Reload()))
}

// back goes back as the visitor's button does.
func (p *tab) back() {
	p.t.Helper()
	entries := do(p, page.GetNavigationHistory, cdp.Empty{})
	if entries.CurrentIndex == 0 {
		p.t.Fatal("there is nothing to go back to")
	}
	do(p, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: entries.Entries[entries.CurrentIndex-1].ID})
}

// eval runs an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := tryEval[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func tryEval[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// holds reports whether an expression is true in the page now. It is not while another
// page is on its way.
func (p *tab) holds(expression string) bool {
	p.t.Helper()
	ok, err := tryEval[bool](p, "Boolean("+expression+")")
	return ok && err == nil
}

// until waits until an expression is true in the page; meanwhile the page may be
// another.
func (p *tab) until(expression string) {
	p.t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		cancel()
		if ok && err == nil {
			return
		}
		last = err
		if errors.Is(err, context.Canceled) {
			break
		}
	}
	p.t.Fatalf("it did not come: %s (%v)", expression, last)
}

// untilText waits until an element shows a text that matches.
func (p *tab) untilText(selector, pattern string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && /%s/.test(e.innerText))`, selector, pattern))
}

// click clicks an element with the mouse once it can be.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(() => { const e = document.querySelector(%q); return e && e.checkVisibility() && !e.disabled; })()`, selector))
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible)); err != nil {
		p.t.Fatalf("click %s: %v", selector, err)
	}
}

// fill types into a field in place of what is there.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.click(selector)
	eval[chromedp.Void](p, fmt.Sprintf(`document.querySelector(%q).select()`, selector))
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(text)); err != nil {
		p.t.Fatalf("type into %s: %v", selector, err)
	}
}

// look describes the page for somebody who reads why a test failed.
func (p *tab) look() string {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[location.href, document.title,
		JSON.stringify({...document.querySelector('main')?.dataset}), document.body.innerText].join('\n')`))
	if err != nil {
		return err.Error()
	}
	return text
}

// Modes of a browser that a test puts it in.

// size is that of the window, in CSS pixels.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	do(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: false,
	})
}

// scheme is light or dark; motion is reduced, so that what is measured stands still.
func (p *tab) scheme(name string) {
	p.t.Helper()
	do(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// language is what the browser asks for.
func (p *tab) language(accept string) {
	p.t.Helper()
	agent := eval[string](p, `navigator.userAgent`)
	do(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: accept})
}

// scripts has pages run theirs, or none, from the next load on.
func (p *tab) scripts(run bool) {
	p.t.Helper()
	do(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
}

// offline takes the network away, or gives it back.
func (p *tab) offline(away bool) {
	p.t.Helper()
	do(p, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: away, DownloadThroughput: -1, UploadThroughput: -1})
	do(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: away, DownloadThroughput: -1, UploadThroughput: -1}},
	})
}
