package web

import (
	"regexp"
	"slices"
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
			"style.css": "text/css", "shop.js": "text/javascript", "products/mug.svg": "image/svg+xml",
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

// Every text that a page or script asks for is there, and none is left over.
func TestTexts(t *testing.T) {
	texts := string(assets["texts.js"].body)
	there := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^  '([\w.]+)':`).FindAllStringSubmatch(texts, -1) {
		there[m[1]] = true
	}
	used := make(map[string]bool)
	var all strings.Builder
	for name, a := range assets {
		if strings.HasPrefix(a.kind, "text/") && name != "texts.js" {
			all.Write(a.body)
		}
	}
	for _, m := range regexp.MustCompile(`['"]((?:shop|wait|admin)\.\w+)['"]`).FindAllStringSubmatch(all.String(), -1) {
		if used[m[1]] = true; !there[m[1]] {
			t.Errorf("the text %s is missing", m[1])
		}
	}
	// Made of a state or a reason at run time.
	for _, name := range []string{"paused", "sold_out", "degraded", "spent", "expired", "left", "removed", "none", "full"} {
		key := "wait." + name
		if used[key] = true; !there[key] {
			t.Errorf("the text %s is missing", key)
		}
		if lead := key + "Lead"; !slices.Contains([]string{"paused", "sold_out", "degraded"}, name) {
			if used[lead] = true; !there[lead] {
				t.Errorf("the text %s is missing", lead)
			}
		}
	}
	used["admin.open"], used["admin.paused"] = true, true
	for key := range there {
		if !used[key] && !strings.HasPrefix(key, "time.") {
			t.Errorf("nobody says %s", key)
		}
	}
}
