package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

const (
	headerRequestID = "X-Request-Id"
	maxRequestID    = 64  // bytes
	maxLoggedPath   = 200 // bytes
	idLength        = 16  // of an id that we make
)

// Names and values of headers as the HTTP library keeps them, for what every answer has.
var (
	nameRequestID          = []byte(headerRequestID)
	nameContentTypeOptions = []byte(fiber.HeaderXContentTypeOptions)
	nosniff                = []byte("nosniff")
)

// router registers the routes of one application, each wrapped by
// [Server.answer] and counted under its own path.
type router struct {
	server *Server
	app    *fiber.App
	name   string // of the application, for metrics
	shared bool   // with the pages of cors.origins
	// unready is what the routes answer until the process has its stores; nil for
	// those that need none.
	unready error
}

// needing registers routes that cannot be served before the process has its stores.
func (r *router) needing(unready error) *router {
	needing := *r
	needing.unready = unready
	return &needing
}

func (r *router) get(path string, h fiber.Handler)    { r.app.Get(path, r.wrap(path, h)) }
func (r *router) post(path string, h fiber.Handler)   { r.app.Post(path, r.wrap(path, h)) }
func (r *router) put(path string, h fiber.Handler)    { r.app.Put(path, r.wrap(path, h)) }
func (r *router) patch(path string, h fiber.Handler)  { r.app.Patch(path, r.wrap(path, h)) }
func (r *router) delete(path string, h fiber.Handler) { r.app.Delete(path, r.wrap(path, h)) }

func (r *router) wrap(path string, h fiber.Handler) fiber.Handler {
	s, route := r.server, r.server.metrics.route(r.name, path)
	if r.unready != nil {
		h = s.onceStarted(h, r.unready)
	}
	if !r.shared {
		return func(c *fiber.Ctx) error { return s.answer(c, route, h) }
	}
	return func(c *fiber.Ctx) error {
		err := s.answer(c, route, h)
		s.share(c) // after the handler, which may set Vary; problems are shared too
		return err
	}
}

// answer is what every request goes through once: it names the request, runs
// the handler, turns an error or a panic into a problem, counts and logs. It
// never returns an error.
func (s *Server) answer(c *fiber.Ctx, route *routeMetrics, h fiber.Handler) error {
	began := time.Now()
	span := s.trace(c, route)
	var made [idLength]byte
	c.Response().Header.SetCanonical(nameRequestID, requestID(c.Request().Header.PeekBytes(nameRequestID), &made))
	c.Response().Header.SetCanonical(nameContentTypeOptions, nosniff)
	code := ""
	if err := protect(h, c); err != nil {
		code = s.fail(c, route, err)
	}
	if s.draining.Load() { // also when it began while the handler waited
		c.Context().SetConnectionClose()
	}
	took := time.Since(began)
	status := c.Response().StatusCode()
	if !s.cfg.Uncounted {
		route.observe(status, took)
	}
	if s.sampled(status) {
		s.logRequest(c, route.path, status, code, took)
	}
	endTrace(span, status, code)
	return nil
}

// protect runs the handler and makes a panic an error that carries its stack
// to the log, and to nobody else.
func protect(h fiber.Handler, c *fiber.Ctx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: debug.Stack()}
		}
	}()
	return h(c)
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// requestID takes over an id that a client or proxy sent if it is sane (it goes
// into logs and answers), and makes one otherwise: 96 bits, so that no two are alike, of a
// generator that asks nobody, since nothing has to be kept from guessing them.
func requestID(sent []byte, made *[idLength]byte) []byte {
	if len(sent) > 0 && len(sent) <= maxRequestID && !slices.ContainsFunc(sent, outsideRequestID) {
		return sent
	}
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
	base64.RawURLEncoding.Encode(made[:], random[:12])
	return made[:]
}

func outsideRequestID(b byte) bool {
	return (b < '0' || b > '9') && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && b != '-' && b != '_' && b != '.'
}

// sampled reports whether this request is logged. A 503 is no exception: while
// a store is away every answer may be one, and fail logs the cause.
func (s *Server) sampled(status int) bool {
	n := uint64(s.cfg.AccessLogEvery)
	return n > 0 && (s.requests.Add(1)%n == 0 || status == fiber.StatusInternalServerError)
}

// logRequest writes one line of the access log. Headers and the query stay out
// of it: they carry tickets and tokens.
func (s *Server) logRequest(c *fiber.Ctx, route string, status int, code string, took time.Duration) {
	path := c.Path()
	space := [...]slog.Attr{
		slog.String("method", strings.Clone(c.Method())),
		slog.String("path", strings.Clone(path[:min(len(path), maxLoggedPath)])),
		slog.String("route", route),
		slog.Int("status", status),
		slog.Int("bytes", len(c.Response().Body())),
		slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.String("remote", s.client(c).String()),
		slog.String("request_id", string(c.Response().Header.Peek(headerRequestID))),
		{}, {}, {},
	}
	attrs := space[:8]
	if line, err := s.line(c); err == nil && c.Request().URI().QueryArgs().Has("line") {
		attrs = append(attrs, slog.String("line", line.id))
	}
	if code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	if id := s.span(c).TraceID(); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	s.accessLog.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// takeOver puts our own handlers where Fiber would answer in plain text without
// asking anybody: methods it does not know, and requests fasthttp cannot read.
func (s *Server) takeOver(app *fiber.App, unmatched *routeMetrics) {
	known := make(map[string]bool)
	for _, method := range app.Config().RequestMethods {
		known[method] = true
	}
	server, handler := app.Server(), app.Handler()
	server.CloseOnShutdown = true
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		if !known[string(ctx.Method())] {
			// No route takes OPTIONS, so the router says what a path does take.
			ctx.Request.Header.SetMethod(fiber.MethodOptions)
		}
		handler(ctx)
	}
	server.HeaderReceived = func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
		// A request with chunks and a length: a proxy in front may have gone by
		// the other of the two, so what follows on this connection is not
		// trusted to be a request (RFC 9112, 6.1).
		if h.ContentLength() == -1 && bytes.Contains(bytes.ToLower(h.RawHeaders()), []byte("content-length")) {
			h.SetConnectionClose()
		}
		if unmatched.app == "admin" && bytes.HasSuffix(h.RequestURI(), []byte("/audit")) {
			return fasthttp.RequestConfig{WriteTimeout: exportTimeout}
		}
		return fasthttp.RequestConfig{}
	}
	server.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		if c, ok := ctx.Conn().(*conn); ok {
			c.linger.Store(true)
		}
		c := app.AcquireCtx(ctx)
		defer app.ReleaseCtx(c)
		_ = s.answer(c, unmatched, func(*fiber.Ctx) error { return unreadable(err) })
	}
}
