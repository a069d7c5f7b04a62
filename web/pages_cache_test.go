package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// Pages and what they are made of may be held by whoever is in between: they are the
// same for everybody, whatever language and cookie they come with.
func TestPagesAreHeldByACDN(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		version := f.public("GET", "/wait", "").body
		_, version, _ = strings.Cut(version, `href="/assets/`)
		version, _, _ = strings.Cut(version, "/")
		for target, cache := range map[string]string{
			"/": "public, max-age=60", "/wait": "public, max-age=60", "/wait?line=side": "public, max-age=60",
			"/assets/base.css": "public, max-age=300", "/assets/" + version + "/base.css": "public, max-age=31536000, immutable",
			// Another release's: never wrong for long, and never missing.
			"/assets/v-another/base.css": "no-cache", "/assets/v-another/texts/wait.ko.json": "no-cache",
		} {
			one := f.public("GET", target, "").want(200)
			two := f.public("GET", target, "", "Cookie: sluice_ticket=x", "Accept-Language: ko", "Authorization: Bearer x").want(200)
			if one.header.Get("Cache-Control") != cache || one.body != two.body || one.header.Get("Set-Cookie") != "" || one.header.Get("ETag") == "" {
				t.Errorf("%s: %v", target, one.header)
			}
			if vary := one.header.Get("Vary"); vary != "Accept-Encoding" {
				t.Errorf("%s: Vary is %q", target, vary)
			}
		}
		if got := f.admin("GET", "/admin", "").want(200).header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("the operator's page: %q", got)
		}
		f.public("GET", "/assets/v-another/nosuch.css", "").problem(404, "not_found")
	})
}

// Who takes gzip is sent it, with a tag of its own; who does not is not.
func TestPagesAreCompressed(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		plain := f.public("GET", "/wait", "").want(200)
		for accept, taken := range map[string]bool{
			"gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "*": true, "deflate, *;q=0.1": true, "x-gzip": true, "gzip;q=1.0, *;q=0": true, "gzip ; q=0.2": true,
			"": false, "gzip;q=0": false, "gzip;q=0.000": false, "*;q=0": false, "br": false, "*, gzip;q=0": false, "gzip;q=0, *": false, "gzipped": false, "gzip;q=": false, "identity": false,
		} {
			a := f.public("GET", "/wait", "", "Accept-Encoding: "+accept).want(200)
			if (a.header.Get("Content-Encoding") == "gzip") != taken {
				t.Errorf("%q: encoding %q", accept, a.header.Get("Content-Encoding"))
				continue
			}
			if !taken {
				if a.body != plain.body || a.header.Get("ETag") != plain.header.Get("ETag") {
					t.Errorf("%q: another page, %v", accept, a.header)
				}
				continue
			}
			r, err := gzip.NewReader(strings.NewReader(a.body))
			if err != nil {
				t.Fatal(err)
			}
			if unpacked := must(io.ReadAll(r))(t); !bytes.Equal(unpacked, []byte(plain.body)) || a.header.Get("ETag") == plain.header.Get("ETag") {
				t.Errorf("%q: not the same page, or the same tag: %v", accept, a.header)
			}
		}
		packed := f.public("GET", "/wait", "", "Accept-Encoding: gzip").header.Get("ETag")
		tag := plain.header.Get("ETag")
		for _, tc := range []struct {
			accept, has string
			status      int
		}{
			{"gzip", packed, 304}, {"gzip", "W/" + packed, 304}, {"gzip", tag + ", " + packed, 304}, {"gzip", "*", 304}, {"", tag, 304}, {"", `"x", W/` + tag, 304},
			{"gzip", tag, 200}, {"", packed, 200}, {"", `"x"`, 200}, {"", "", 200},
		} {
			a := f.public("GET", "/wait", "", "Accept-Encoding: "+tc.accept, "If-None-Match: "+tc.has).want(tc.status)
			if tc.status == 304 && (a.body != "" || a.header.Get("Content-Encoding") != "" || a.header.Get("ETag") == "" || a.header.Get("Cache-Control") == "" || a.header.Get("Vary") == "") {
				t.Errorf("%q has %s: %v", tc.accept, tc.has, a.header)
			}
		}
		for _, accept := range []string{"", "gzip"} {
			whole := f.public("GET", "/wait", "", "Accept-Encoding: "+accept)
			head := f.public("HEAD", "/wait", "", "Accept-Encoding: "+accept).want(200)
			if head.body != "" || head.header.Get("ETag") != whole.header.Get("ETag") || head.header.Get("Content-Length") != whole.header.Get("Content-Length") {
				t.Errorf("%q: HEAD is %v, and GET %v", accept, head.header, whole.header)
			}
		}
	})
}
