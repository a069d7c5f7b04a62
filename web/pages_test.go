package web

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		f.public("GET", "/", "").want(200)
		f.public("GET", "/wait?product=1", "").want(200)
		f.admin("GET", "/admin", "").want(200)
		inline := regexp.MustCompile(`<script[^>]*>[^<]|\son\w+=|\sstyle=|javascript:`)
		for _, a := range []answered{f.public("GET", "/", ""), f.public("GET", "/wait", ""), f.admin("GET", "/admin", "")} {
			if got := a.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
				t.Errorf("%s: content type %q", a.asked, got)
			}
			policy := a.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q", a.asked, policy)
			}
			path := strings.TrimPrefix(a.asked, "GET ")
			for _, ask := range []func(string, string, string, ...string) answered{f.public, f.admin} {
				if again := ask("GET", path, "", "If-None-Match: "+a.header.Get("ETag")); again.status != 404 && (again.status != 304 || again.body != "") {
					t.Errorf("%s: %d, although it has not changed", a.asked, again.status)
				}
			}
			if a.header.Get("X-Frame-Options") != "DENY" || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: headers %v", a.asked, a.header)
			}
			if found := inline.FindString(a.body); found != "" {
				t.Errorf("%s: inline script or style: %s", a.asked, found)
			}
			for _, link := range regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(a.body, -1) {
				f.public("GET", link[1], "").want(200)
				f.admin("GET", link[1], "").want(200)
			}
		}
	})
}

func TestAssetsAreCached(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		for name, kind := range map[string]string{
			"base.css": "text/css", "shop.js": "text/javascript", "products/mug.svg": "image/svg+xml",
			"products/ticket.svg": "image/svg+xml", "products/sneaker.svg": "image/svg+xml", "products/keyboard.svg": "image/svg+xml",
		} {
			a := f.public("GET", "/assets/"+name, "").want(200)
			if !strings.HasPrefix(a.header.Get("Content-Type"), kind) || a.header.Get("Cache-Control") != assetCache || a.body == "" {
				t.Errorf("%s: %v", name, a.header)
			}
			again := f.public("GET", "/assets/"+name, "", "If-None-Match: "+a.header.Get("ETag")).want(304)
			if again.body != "" || again.header.Get("ETag") != a.header.Get("ETag") {
				t.Errorf("%s: %v", name, again)
			}
		}
	})
}

// What comes from a request or the database reaches a page as JSON that nothing
// takes for a document, and its scripts put it into text and pictures only.
func TestPagesRunNothingOfOthers(t *testing.T) {
	runs := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|srcdoc|DOMParser|createContextualFragment|setHTML|` +
		`\beval\b|\bFunction\(|setTimeout\(['"]|setInterval\(['"]|\bimport\(|javascript:|setAttribute\('(?:on|src|href|style)|\.href\s*=`)
	source := regexp.MustCompile(`\.src\s*=[^;]*`)
	for _, name := range must(filepath.Glob("pages/assets/*.js"))(t) {
		body := must(os.ReadFile(name))(t)
		if found := runs.Find(body); found != nil {
			t.Errorf("%s: %s", name, found)
		}
		for _, found := range source.FindAllString(string(body), -1) {
			if !strings.HasSuffix(found, "= pictureAddress(address)") {
				t.Errorf("%s: an address that nobody checked: %s", name, found)
			}
		}
	}
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		const hostile = `"'></script><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u2028"
		quoted := string(must(json.Marshal(hostile))(t))
		f.admin("POST", "/admin/api/products", `{"name":`+quoted+`,"brand":`+quoted+`,"stock":1,"image_url":"/x?`+quoted[1:]+`}`, jsonType).want(201)
		f.admin("PATCH", "/admin/api/lines/default", `{"message":`+quoted+`}`, jsonType).want(200)
		var listed struct {
			Products []struct{ Name, Brand string }
		}
		a := f.public("GET", "/products", "").want(200)
		if a.into(&listed); listed.Products[0].Name != hostile || listed.Products[0].Brand != hostile {
			t.Errorf("%+v", listed)
		}
		ticket := f.enter()
		waiting := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
		if got := waiting.standing().Message; got != hostile {
			t.Errorf("message %q", got)
		}
		for _, a := range []answered{a, waiting, f.public("GET", "/products/1", ""), f.public("GET", "/queue/status", ""), f.admin("GET", "/admin/api/lines", "")} {
			if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", a.asked, a.header)
			}
		}
		for _, address := range []string{"javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "java\\nscript:alert(1)", "data:text/html,x", "vbscript:x", "x.png"} {
			f.admin("POST", "/admin/api/products", `{"name":"x","image_url":"`+address+`"}`, jsonType).problem(400, "invalid_request")
		}
		plain := f.public("GET", "/wait", "").body
		if got := f.public("GET", "/wait?line="+url.QueryEscape(hostile), "").want(200).body; got != plain {
			t.Error("the request shows in the page")
		}
	})
}

// What a page runs and who may hold it is said in its headers; what is not a page
// cannot pass for one.
func TestSecurityHeaders(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		policy := func(a answered) map[string]string {
			directives := make(map[string]string)
			for _, directive := range strings.Split(a.header.Get("Content-Security-Policy"), "; ") {
				name, value, _ := strings.Cut(directive, " ")
				directives[name] = value
			}
			return directives
		}
		for _, a := range []answered{f.public("GET", "/", ""), f.public("GET", "/wait", ""), f.admin("GET", "/admin", "")} {
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "strict-origin-when-cross-origin",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: %s is %q", a.asked, name, got)
				}
			}
			for name, want := range map[string]string{
				"default-src": "'none'", "script-src": "'self'", "worker-src": "'self'", "connect-src": "'self'", "style-src": "'self'",
				"base-uri": "'none'", "frame-ancestors": "'none'", "form-action": "'self'",
			} {
				if got := policy(a)[name]; got != want {
					t.Errorf("%s: %s is %q", a.asked, name, got)
				}
			}
			for _, feature := range []string{"camera", "microphone", "geolocation", "payment"} {
				if !strings.Contains(a.header.Get("Permissions-Policy"), feature+"=()") {
					t.Errorf("%s: Permissions-Policy is %q", a.asked, a.header.Get("Permissions-Policy"))
				}
			}
		}
		for _, name := range must(filepath.Glob("pages/assets/*.*"))(t) {
			name := path.Base(name)
			if strings.HasSuffix(name, ".html") {
				f.public("GET", "/assets/"+name, "").problem(404, "not_found")
				continue
			}
			a := f.public("GET", "/assets/"+name, "").want(200)
			if policy(a)["default-src"] != "'none'" || strings.Contains(a.header.Get("Content-Security-Policy"), "unsafe") ||
				a.header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s: %v", a.asked, a.header)
			}
		}
		for _, a := range []answered{
			f.public("GET", "/nosuch", ""), f.public("PUT", "/", ""), f.public("POST", "/queue/enter", ""), f.public("GET", "/queue/position", ""),
			f.public("GET", "/products", ""), f.public("POST", "/orders", ""), f.admin("GET", "/healthz", ""), f.admin("GET", "/metrics", ""),
			f.admin("GET", "/admin/api/lines/default/audit", ""), f.admin("GET", "/nosuch", ""),
		} {
			if a.header.Get("X-Content-Type-Options") != "nosniff" || strings.HasPrefix(a.header.Get("Content-Type"), "text/html") ||
				a.header.Get("Server") != "" || a.header.Get("X-Powered-By") != "" {
				t.Errorf("%s: %v", a.asked, a.header)
			}
		}
	})
}
