package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/admission"
	"sluice/queue"
)

// reader is a browser without scripts: it keeps its cookies, sends the page's own forms
// and follows where it is led.
type reader struct {
	*fixture
	query   string // of the page
	cookies map[string]string
	headers headers
}

func (f *fixture) reader(query string, h ...string) *reader {
	return &reader{f, query, map[string]string{}, h}
}

const formType = "Content-Type: application/x-www-form-urlencoded"

func (r *reader) ask(method, target, body string, h ...string) answered {
	r.t.Helper()
	h = append(h, r.headers...)
	for name, value := range r.cookies {
		h = append(h, "Cookie: "+name+"="+value)
	}
	a := r.public(method, target, body, h...)
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Value == "" {
			delete(r.cookies, cookie.Name)
		} else {
			r.cookies[cookie.Name] = cookie.Value
		}
	}
	return a
}

func (r *reader) look() answered {
	r.t.Helper()
	return plainly(r.ask("GET", "/wait/plain"+r.query, ""))
}

// press sends a form as the page has it; the answer is that of the page it leads to.
func (r *reader) press(do string) answered {
	r.t.Helper()
	page := r.look()
	form := regexp.MustCompile(`<form method="post" action="(/wait/plain[^"]*)">`).FindStringSubmatch(page.body)
	if form == nil || !strings.Contains(page.body, `name="do" value="`+do+`"`) {
		r.t.Fatalf("no form to %s: %s", do, page.body)
	}
	a := r.ask("POST", strings.ReplaceAll(form[1], "&amp;", "&"), "do="+do, formType)
	if a.status != http.StatusSeeOther {
		return plainly(a)
	}
	return plainly(r.ask("GET", a.header.Get("Location"), ""))
}

// plainly holds what every such page must hold.
func plainly(a answered) answered {
	a.t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "script-src") || strings.Contains(policy, "unsafe") ||
		a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "text/html; charset=utf-8" || a.header.Get("X-Frame-Options") != "DENY" {
		a.t.Errorf("%s: %v", a.asked, a.header)
	}
	if found := regexp.MustCompile(`<script|\son\w+=|\sstyle=|javascript:|ZgotmplZ|<no value>`).FindString(a.body); found != "" {
		a.t.Errorf("%s: %s in the page", a.asked, found)
	}
	if found := regexp.MustCompile(`<(h1|p class="soft"|button[^>]*|dt|dd|title)></`).FindString(a.body); found != "" {
		a.t.Errorf("%s: nothing said in %s", a.asked, found)
	}
	if !strings.HasSuffix(a.body, "</html>\n") {
		a.t.Errorf("%s: half a page: %s", a.asked, a.body)
	}
	return a
}

// says checks that the page says all of it.
func (a answered) says(texts ...string) answered {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Errorf("%s: the page does not say %q: %s", a.asked, text, a.body)
		}
	}
	return a
}

// again is how many seconds later the page asks again; 0 is never.
func (a answered) again() int64 {
	a.t.Helper()
	m := regexp.MustCompile(`<meta http-equiv="refresh" content="(\d+); url=/wait/plain[^"]*">`).FindStringSubmatch(a.body)
	if m == nil {
		if strings.Contains(a.body, "http-equiv") {
			a.t.Errorf("%s: another refresh: %s", a.asked, a.body)
		}
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (f *fixture) change(patch string) {
	f.t.Helper()
	f.admin("PATCH", "/admin/api/lines/default", patch, jsonType).want(200)
}

// Whoever runs no scripts gets in line, waits, is let in, and comes back.
func TestPlainWait(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.enter()
		r := f.reader("")
		if a := r.look().want(200).says("Get in line", `value="enter"`); a.again() != 0 {
			t.Error("nothing to wait for, and the page asks again")
		}
		a := r.press("enter").want(200).says("You are in line", "<dd>2</dd>", "still measuring", `value="leave"`)
		if got := onlyTicket(t, r); !strings.Contains(got, ".") || a.header.Get("Sluice-State") != "waiting" {
			t.Errorf("%q, %v", got, a.header)
		}
		if a := r.press("leave").want(200).says("Get in line"); len(r.cookies) != 0 {
			t.Errorf("left with %v: %s", r.cookies, a.body)
		}
		r.press("enter").says("You are in line")
		f.admit()
		a = r.look().want(200).says("It is your turn")
		if strings.Contains(a.body, "Your turn begins in") { // the page comes back once it has
			time.Sleep(time.Duration(a.again()) * time.Second)
			a = r.look()
		}
		if a.says("demo shop needs JavaScript"); a.again() < 1 || a.again() > 30 || strings.Contains(a.body, "sluice_token") {
			t.Errorf("asks again in %d s: %s", a.again(), a.body)
		}
		time.Sleep(queue.DefaultOptions().AdmissionTTL + 3*time.Second)
		r.look().says("Your turn has passed", "Get back in line", `value="enter"`)
		r.press("enter").says("You are next")
	})
}

func onlyTicket(t *testing.T, r *reader) string {
	t.Helper()
	if len(r.cookies) != 1 {
		t.Fatalf("cookies %v", r.cookies)
	}
	for _, value := range r.cookies {
		return value
	}
	return ""
}

// The page asks again as seldom as a poll is told to, rounded up, and is heard as one.
func TestPlainAsksAsOftenAsItIsTold(t *testing.T) {
	for _, budget := range []float64{0, 0.4, 0.07} {
		config := func(c *Config) { c.PollBudget = func(string) float64 { return budget } }
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			inBubble(t, setup{config: config}, func(t *testing.T, f *fixture) {
				r := f.reader("")
				r.press("enter")
				for range 20 {
					a := r.look().want(200)
					told := f.public("GET", "/queue/position", "", ticketHeader(onlyTicket(t, r))).standing().PollAfterMS
					// Both have jitter of their own.
					if again := a.again() * 1000; again < told*2/3 || again > told*3/2+1000 {
						t.Errorf("budget %v: again in %d ms, and a poll is told %d", budget, again, told)
					}
					time.Sleep(time.Duration(a.again()) * time.Second)
				}
			})
		})
	}
}

func TestPlainSaysWhyNothingMoves(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		r := f.reader("")
		r.press("enter")
		f.change(`{"paused":true,"message":"Back <b>soon</b> \"'</script><script>alert(1)</script> ☕"}`)
		a := r.look().says("Back &lt;b&gt;soon&lt;/b&gt;", "☕", "&lt;script&gt;", "<dd>–</dd>")
		if !strings.Contains(a.body, "kept") || a.again() < 1 {
			t.Errorf("paused: %s", a.body)
		}
		f.change(`{"paused":false,"message":null,"sold_out":true}`)
		r.look().says("Sold out")
		f.admin("DELETE", "/admin/api/lines/default/visitors/"+f.holder(onlyTicket(t, r)), "", jsonType).want(204)
		r.look().says("You were taken out of the line", `value="enter"`)
	})
}

// holder is the subject of a ticket.
func (f *fixture) holder(ticket string) string {
	f.t.Helper()
	return must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(f.t).Subject
}

func TestPlainBeforeAndAfterTheSale(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.change(`{"opens_at":"2026-01-02T05:00:00Z","closes_at":"2026-01-02T06:00:00Z","message":"Doors at five"}`)
		r := f.reader("")
		a := r.press("enter").says("has not opened yet", "2026-01-02 05:00 UTC", "1:5", "Doors at five", `value="leave"`)
		if a.again() < 1 || strings.Contains(a.body, "Your place") {
			t.Errorf("scheduled: %s", a.body)
		}
		time.Sleep(2 * time.Hour)
		r.look().says("You are next", "<dd>1</dd>")
		time.Sleep(time.Hour)
		if a := r.look().says("has closed", "Doors at five"); a.again() < 60 {
			t.Errorf("closed, asks again in %d s", a.again())
		}
		f.reader("").look().says("Get in line")
		f.reader("").press("enter").want(409).says("has closed", "Doors at five")
	})
}

// A turn that has begun is handed to a shop of another origin by a form, and to nobody
// else.
func TestPlainHandsTheTurnOver(t *testing.T) {
	for shop, target := range map[string]string{"https://shop.example/checkout?from=line": " https://shop.example", "/checkout": ""} {
		t.Run(shop, func(t *testing.T) {
			inBubble(t, setup{config: func(c *Config) { c.Pages.Shop = shop }}, func(t *testing.T, f *fixture) {
				r := f.reader("")
				r.press("enter")
				f.admit()
				a := r.look().says("It is your turn")
				if left := a.again(); left > 0 && !strings.Contains(a.body, "sluice_token") {
					time.Sleep(time.Duration(left) * time.Second) // until it is usable
					a = r.look()
				}
				a.says(`<form method="post" action="`+shop+`">`, `name="sluice_line" value="default"`, `name="sluice_expires_in_ms" value="1`)
				if policy := a.header.Get("Content-Security-Policy"); !strings.HasSuffix(policy, "form-action 'self'"+target) {
					t.Errorf("policy %q", policy)
				}
				token := regexp.MustCompile(`name="sluice_token" value="([^"]+)"`).FindStringSubmatch(a.body)
				if token == nil {
					t.Fatal("no token")
				}
				if _, err := f.tokens.Verify(token[1], func(string) time.Time { return f.watch.Now() }, f.server.epoch); err != nil {
					t.Errorf("the token that is handed over: %v", err)
				}
			})
		})
	}
}

// Each state of a page, in each language, right to left too: the words are the
// language's, and the way of writing as well.
func TestPlainInEveryLanguage(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		r := f.reader("", "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8")
		r.look().says(`<html lang="ko" dir="ltr">`, "줄 서기")
		a := r.press("enter").says("다음 차례입니다", "대기열에서 나가기", `<a href="/wait/plain?lang=en" lang="en" hreflang="en">English</a>`)
		if a.header.Get("Content-Language") != "ko" || !strings.Contains(a.header.Get("Vary"), "Accept-Language") {
			t.Errorf("%v", a.header)
		}
		// What is asked for by hand stays, whatever is pressed.
		r.query = "?lang=en-GB"
		r.look().says(`<html lang="en"`, `url=/wait/plain?lang=en"`, `action="/wait/plain?lang=en"`)
		r.press("leave").says(`<html lang="en"`, "Get in line")
		r.query = "?lang=" + url.QueryEscape(`"><script>alert(1)</script>`)
		r.look().says(`<html lang="ko"`)
	})
}

// A shop's own language is one as any other, also from right to left; its name and its
// operator are not believed to be harmless.
func TestPlainFromRightToLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "texts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "texts", "ar.json"), []byte(`{"name":"العربية","dir":"rtl","wait":{"title":"<أنت في الصف>"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	inBubble(t, setup{config: func(c *Config) { c.Pages.Folder, c.Pages.Name = dir, `<script>alert("x")</script>` }}, func(t *testing.T, f *fixture) {
		f.enter()
		r := f.reader("", "Accept-Language: ar-EG")
		r.press("enter").says(`<html lang="ar" dir="rtl">`, "&lt;أنت في الصف&gt;", "People behind you", "&lt;script&gt;alert(")
	})
}

// The guards of the API are those of the forms.
func TestPlainFormsAreGuarded(t *testing.T) {
	inBubble(t, setup{config: func(c *Config) { c.Limits.EnterPerAddress = 2 }}, func(t *testing.T, f *fixture) {
		for _, foreign := range []headers{{"Sec-Fetch-Site: cross-site"}, {"Origin: https://evil.test"}, {"Origin: null"}} {
			for _, do := range []string{"enter", "leave"} {
				f.public("POST", "/wait/plain", "do="+do, append(foreign, formType)...).problem(403, "origin_refused")
			}
		}
		f.public("POST", "/wait/plain", `{"do":"enter"}`, jsonType).problem(415, "unsupported_media_type")
		f.public("POST", "/wait/plain", "do=enter&do=%zz", formType).problem(400, "invalid_request")
		f.public("POST", "/wait/plain", "do=dance", formType).problem(400, "invalid_request")
		plainly(f.public("POST", "/wait/plain?line=nosuch", "do=enter", formType)).want(404).says("no such line")
		plainly(f.public("GET", "/wait/plain?line=nosuch", "")).want(404).says("no such line")
		// To leave twice is to have left.
		f.public("POST", "/wait/plain?line=side", "do=leave", formType).want(303)
		if to := f.public("POST", "/wait/plain?line=side", "do=enter", formType).want(303).header.Get("Location"); to != "/wait/plain?kept=1&line=side" {
			t.Errorf("leads to %s", to)
		}
		f.reader("").press("enter").want(200)
		late := f.reader("").press("enter").want(429).says("a little too often", "Try again in", `value="enter"`)
		if late.again() != 0 || late.header.Get("Retry-After") == "" {
			t.Errorf("refused: %v %s", late.header, late.body)
		}
		// A browser that keeps no cookies would take place after place.
		plainly(f.public("GET", "/wait/plain?kept=1", "")).want(200).says("keeps no cookies")
	})
}

func TestPlainAsksTooOften(t *testing.T) {
	inBubble(t, setup{config: func(c *Config) { c.Limits.PollFactor = 3 }}, func(t *testing.T, f *fixture) {
		r := f.reader("")
		r.press("enter")
		for range 20 {
			a := r.look()
			if a.status == 429 {
				if a.says("a little too often", "Your place is kept").again() < 1 {
					t.Error("and it does not ask again")
				}
				return
			}
		}
		t.Error("nobody minded")
	})
}

func TestPlainNeedsScriptsForAProof(t *testing.T) {
	inBubble(t, setup{config: func(c *Config) { c.Limits.Proofs = must(NewProofs(testSecret, 8))(t) }}, func(t *testing.T, f *fixture) {
		a := f.reader("").press("enter").want(403).says("This line needs JavaScript")
		if strings.Contains(a.body, "<button") || strings.Contains(a.body, "works without JavaScript") {
			t.Errorf("a button that does nothing, or the note of a page that does without: %s", a.body)
		}
	})
}

func TestPlainAsksWhoItIs(t *testing.T) {
	login := newShop(t)
	t.Run(IdentityJWT, func(t *testing.T) {
		inBubble(t, setup{config: login.config}, func(t *testing.T, f *fixture) {
			f.reader("").look().want(401).says("Please log in first", "with JavaScript only")
			plainly(f.public("POST", "/wait/plain", "do=enter", formType)).want(401).says("Please log in first")
		})
	})
	t.Run(IdentityHeader, func(t *testing.T) {
		inBubble(t, setup{config: named}, func(t *testing.T, f *fixture) {
			f.reader("", user("ada")).press("enter").want(200).says("You are next")
			a := f.reader("").look().want(401).says("Please log in first")
			if strings.Contains(a.body, "with JavaScript only") {
				t.Error("scripts would not help here")
			}
		})
	})
}

func TestPlainWhenTheLineIsFull(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.enter()
		f.change(`{"max_length":1}`)
		if a := f.reader("").press("enter").want(503).says("The line is full", "Try again in", `value="enter"`); a.again() != 0 {
			t.Error("a page cannot press a button")
		}
	})
}

// While the line's store is away the place is kept, and the page goes on asking.
func TestPlainWithoutTheStore(t *testing.T) {
	t.Run("block", func(t *testing.T) {
		withStandby(t, setup{standby: queue.ModeBlock}, func(t *testing.T, f *fixture, store *awayLine) {
			r, late := f.reader(""), f.reader("")
			r.press("enter").want(200)
			store.goAway()
			if a := r.look().want(503).says("does not move just now", "Your place is kept"); a.again() < 2 {
				t.Errorf("again in %d s", a.again())
			}
			if a := late.ask("POST", "/wait/plain", "do=enter", formType).want(503).says("not in line yet", `value="enter"`); a.again() != 0 {
				t.Error("a page cannot press a button")
			}
		})
	})
	t.Run("bypass", func(t *testing.T) {
		withStandby(t, setup{standby: queue.ModeBypass, steady: admission.Steady{Rate: 0.01, Queues: 1}}, func(t *testing.T, f *fixture, store *awayLine) {
			readers := make([]*reader, 5)
			for i := range readers {
				readers[i] = f.reader("")
				readers[i].press("enter").want(200)
			}
			store.goAway()
			unseen := 0
			for _, r := range readers { // one or two are let in at once
				if a := r.look().want(200); strings.Contains(a.body, "We cannot see the line just now") && a.again() > 0 {
					unseen++
					a.says("<dd>kept</dd>")
				}
			}
			if unseen < 3 {
				t.Errorf("%d of 5 are told that the line is not seen", unseen)
			}
		})
	})
}

// A process that waits for its stores has the page, and says to come back.
func TestPlainBeforeTheStart(t *testing.T) {
	inBubble(t, setup{config: func(c *Config) { c.Start = NewStart(NeedRedis) }}, func(t *testing.T, f *fixture) {
		f.reader("").look().want(503).says("does not move just now")
	})
}

func TestPlainTicketsOfTheDead(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		r := f.reader("")
		r.press("enter")
		f.admin("POST", "/admin/api/lines/default/restart", "{}", jsonType).want(200)
		r.look().want(200).says("no longer valid", "Get back in line")
		r.press("enter").says("You are next")
		f.admit()
		r.cookies[ticketCookie] = "nonsense"
		r.look().want(200).says("no longer valid")
	})
}
