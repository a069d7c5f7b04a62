package web

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"sluice/web/pages"
)

// pagePolicy lets a page load what this server serves, and product images from
// elsewhere; nothing inline runs, and nobody may put the page into a frame.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' http: https: data:; " +
	"font-src 'self'; connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// assetPolicy is for a picture that is opened by itself, and for workers, which have
// the policy of their own script.
const assetPolicy = "default-src 'none'; frame-ancestors 'none'"

// pagePermissions gives up what no page of ours uses.
const pagePermissions = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), hid=(), " +
	"display-capture=(), publickey-credentials-get=(), browsing-topics=()"

const headerResourcePolicy = "Cross-Origin-Resource-Policy"

const (
	// shellCache lets a CDN hold a page that is the same for everybody, and take a new
	// release within a minute.
	shellCache = "public, max-age=60"
	// assetCache lets a browser keep an asset for a while; then it asks by ETag.
	assetCache = "public, max-age=300"
	// fixedCache is for an asset whose path names its version.
	fixedCache = "public, max-age=31536000, immutable"
	// askedCache is kept by nobody who does not ask whether it has changed.
	askedCache = "no-cache"
)

func (s *Server) routePages(r *router) {
	r.get("/", s.page("shop", shellCache))
	r.get("/wait", s.page("wait", shellCache))
	r.get("/wait/plain", s.plain)
	r.post("/wait/plain", s.plainDo)
	r.get("/assets/*", s.asset)
}

func (s *Server) routeAdminPages(r *router) {
	r.get("/admin", s.page("admin", askedCache))
	r.get("/assets/*", s.asset)
}

// page serves the shell of a page: the same for everybody, filled by its script.
func (s *Server) page(name, cache string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		f, err := s.pages.Shell(name, s.shownLine(c))
		if err != nil {
			return err
		}
		pageHeaders(c, pagePolicy)
		send(c, f, cache)
		return nil
	}
}

// shownLine is the line that a page is asked for, or the default one: a page is there
// whatever its address says, and before any line is.
func (s *Server) shownLine(c *fiber.Ctx) string {
	if l := s.lines.get(c.Query("line")); l != nil {
		return l.id
	}
	return DefaultLine
}

func pageHeaders(c *fiber.Ctx, policy string) {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	// With same-origin a form's POST to the shop would come from the origin "null". The
	// path of a page stays here.
	c.Set(fiber.HeaderReferrerPolicy, "strict-origin-when-cross-origin")
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set(headerResourcePolicy, "same-origin")
	c.Set("Permissions-Policy", pagePermissions)
}

func (s *Server) asset(c *fiber.Ctx) error {
	f, naming, ok := s.pages.Asset(c.Params("*"))
	if !ok {
		return errNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, assetPolicy)
	c.Set(headerResourcePolicy, "same-origin")
	send(c, f, map[pages.Naming]string{pages.Unversioned: assetCache, pages.Fixed: fixedCache, pages.Foreign: askedCache}[naming])
	return nil
}

// send sends a file, compressed to who takes that.
func send(c *fiber.Ctx, f pages.File, cache string) {
	body, tag := f.Body, f.ETag
	if f.Gzip != nil {
		c.Vary(fiber.HeaderAcceptEncoding)
		if takesGzip(c.Get(fiber.HeaderAcceptEncoding)) {
			body, tag = f.Gzip, f.GzipETag
			c.Set(fiber.HeaderContentEncoding, "gzip")
		}
	}
	c.Set(fiber.HeaderETag, tag)
	c.Set(fiber.HeaderCacheControl, cache)
	if names(c.Get(fiber.HeaderIfNoneMatch), tag) {
		c.Response().Header.Del(fiber.HeaderContentEncoding)
		c.Status(fiber.StatusNotModified)
		return
	}
	c.Context().SetContentType(f.Type)
	c.Response().SetBodyRaw(body)
}

// names reports whether an If-None-Match has the tag among its own. A cache that
// packed the answer anew has made the tag a weak one.
func names(ifNoneMatch, tag string) bool {
	for one := range strings.SplitSeq(ifNoneMatch, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// takesGzip reports whether an Accept-Encoding takes gzip: by its name, or by a star
// where it is not named. A weight of 0 says that it is not taken.
func takesGzip(accept string) bool {
	star := false
	for one := range strings.SplitSeq(accept, ",") {
		name, parameter, _ := strings.Cut(one, ";")
		_, weight, weighted := strings.Cut(strings.ToLower(strings.TrimSpace(parameter)), "q=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		taken := !weighted || err == nil && q > 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return taken
		case "*":
			star = taken
		}
	}
	return star
}
