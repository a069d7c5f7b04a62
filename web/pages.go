package web

import (
	"bytes"
	"strings"

	"github.com/gofiber/fiber/v2"

	"sluice/web/pages"
)

// pagePolicy lets a page load what this server serves, and product images from
// elsewhere; nothing inline runs, and nobody may put the page into a frame.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' http: https: data:; " +
	"connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// assetPolicy is for a picture that is opened by itself, and for workers, which have
// the policy of their own script.
const assetPolicy = "default-src 'none'; frame-ancestors 'none'"

// pagePermissions gives up what no page of ours uses.
const pagePermissions = "camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), hid=(), " +
	"display-capture=(), publickey-credentials-get=(), browsing-topics=()"

const headerResourcePolicy = "Cross-Origin-Resource-Policy"

const (
	// assetCache lets a browser keep an asset for a while; then it asks by ETag.
	assetCache = "public, max-age=300"
	// fixedCache is for an asset whose path names its version.
	fixedCache = "public, max-age=31536000, immutable"
)

func (s *Server) routePages(r *router) {
	r.get("/", s.page("shop"))
	r.get("/wait", s.page("wait"))
	r.get("/assets/*", s.asset)
}

func (s *Server) routeAdminPages(r *router) {
	r.get("/admin", s.page("admin"))
	r.get("/assets/*", s.asset)
}

// page serves the shell of a page: the same for everybody, filled by its script.
func (s *Server) page(name string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		line := DefaultLine
		if l := s.lines.get(c.Query("line")); l != nil {
			line = l.id
		}
		f, err := s.pages.Shell(name, line)
		if err != nil {
			return err
		}
		c.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
		c.Set(fiber.HeaderXFrameOptions, "DENY")
		c.Set(fiber.HeaderReferrerPolicy, "same-origin")
		c.Set("Cross-Origin-Opener-Policy", "same-origin")
		c.Set(headerResourcePolicy, "same-origin")
		c.Set("Permissions-Policy", pagePermissions)
		return send(c, f, "no-cache")
	}
}

func (s *Server) asset(c *fiber.Ctx) error {
	f, fixed, ok := s.pages.Asset(c.Params("*"))
	if !ok {
		return errNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, assetPolicy)
	c.Set(headerResourcePolicy, "same-origin")
	if fixed {
		return send(c, f, fixedCache)
	}
	return send(c, f, assetCache)
}

// send sends a file, compressed to who takes that.
func send(c *fiber.Ctx, f pages.File, cache string) error {
	c.Set(fiber.HeaderETag, f.ETag)
	c.Set(fiber.HeaderCacheControl, cache)
	c.Vary(fiber.HeaderAcceptEncoding)
	if strings.TrimPrefix(c.Get(fiber.HeaderIfNoneMatch), "W/") == f.ETag {
		c.Status(fiber.StatusNotModified)
		return nil
	}
	c.Context().SetContentType(f.Type)
	if f.Gzip != nil && bytes.Contains(c.Request().Header.Peek(fiber.HeaderAcceptEncoding), []byte("gzip")) {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		c.Response().SetBodyRaw(f.Gzip)
		return nil
	}
	c.Response().SetBodyRaw(f.Body)
	return nil
}
