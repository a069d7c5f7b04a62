package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"
)

//go:embed assets
var assetFiles embed.FS

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

// assetCache lets a browser keep assets for a while; then it asks by ETag.
const assetCache = "public, max-age=300"

type asset struct {
	body []byte
	kind string
	etag string
}

// assets are all embedded files, by their path below assets/.
var assets = loadAssets()

func loadAssets() map[string]asset {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8",
		".css":  "text/css; charset=utf-8",
		".js":   "text/javascript; charset=utf-8",
		".svg":  "image/svg+xml",
	}
	found := make(map[string]asset)
	// Reading embedded files cannot fail once the program was built.
	_ = fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := assetFiles.ReadFile(name)
		sum := sha256.Sum256(body)
		found[strings.TrimPrefix(name, "assets/")] = asset{
			body: body, kind: kinds[path.Ext(name)],
			etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:9]) + `"`,
		}
		return err
	})
	return found
}

func (s *Server) routePages(r *router) {
	r.get("/", page("shop.html"))
	r.get("/wait", page("wait.html"))
	r.get("/assets/*", serveAsset)
}

func (s *Server) routeAdminPages(r *router) {
	r.get("/admin", page("admin.html"))
	r.get("/assets/*", serveAsset)
}

// page serves the shell of a page: the same for everybody, filled by its script.
func page(name string) fiber.Handler {
	a := assets[name]
	return func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
		c.Set(fiber.HeaderXFrameOptions, "DENY")
		c.Set(fiber.HeaderReferrerPolicy, "same-origin")
		c.Set("Cross-Origin-Opener-Policy", "same-origin")
		c.Set(headerResourcePolicy, "same-origin")
		c.Set("Permissions-Policy", pagePermissions)
		return send(c, a, "no-cache")
	}
}

func serveAsset(c *fiber.Ctx) error {
	a, ok := assets[c.Params("*")]
	if !ok || strings.HasPrefix(a.kind, "text/html") { // pages have their own routes and headers
		return errNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, assetPolicy)
	c.Set(headerResourcePolicy, "same-origin")
	return send(c, a, assetCache)
}

func send(c *fiber.Ctx, a asset, cache string) error {
	c.Set(fiber.HeaderETag, a.etag)
	c.Set(fiber.HeaderCacheControl, cache)
	if c.Get(fiber.HeaderIfNoneMatch) == a.etag {
		c.Status(fiber.StatusNotModified)
		return nil
	}
	c.Context().SetContentType(a.kind)
	c.Response().SetBodyRaw(a.body)
	return nil
}
