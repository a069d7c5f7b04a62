package web

import (
	"github.com/gofiber/fiber/v2"

	"sluice/tracing"
)

// What a span says is the same for everybody who asked the same: the route, the line, how it
// ended. Nothing of a visitor is in it, no ticket, token, cookie, login or address.

const headerTraceParent = "Traceparent"

// spanKey is where a request that is traced has its span.
type spanKey struct{}

// trace begins the span of a request; nil if it is not traced, as nearly all are.
//
// Whether it is, no visitor decides: a traceparent counts where it comes from a trusted
// proxy, and those are believed in it only when asked for, since most of them pass on
// what a visitor sent.
func (s *Server) trace(c *fiber.Ctx, route *routeMetrics) *tracing.Span {
	if s.cfg.Tracing == nil {
		return nil
	}
	parent := ""
	if s.cfg.TraceProxies && s.trusts(remote(c)) {
		parent = string(c.Request().Header.Peek(headerTraceParent))
	}
	span := s.cfg.Tracing.Request(parent)
	if span == nil {
		return nil
	}
	c.Context().SetUserValue(spanKey{}, span)
	name := route.path
	if route.path != unmatchedRoute { // else the method, too, may be anything
		name = c.Method() + " " + route.path
		span.Text("http.request.method", name[:len(c.Method())])
	}
	span.Name(name)
	span.Text("http.route", route.path)
	span.Text("sluice.listener", route.app)
	return span
}

// span is that of the request, nil if it is not traced.
func (s *Server) span(c *fiber.Ctx) *tracing.Span {
	if s.cfg.Tracing == nil {
		return nil
	}
	span, _ := c.Context().UserValue(spanKey{}).(*tracing.Span)
	return span
}

// endTrace ends the span of a request that was answered so.
func endTrace(span *tracing.Span, status int, code string) {
	if span == nil {
		return
	}
	span.Number("http.response.status_code", status)
	span.Text("sluice.problem", code)
	if status >= fiber.StatusInternalServerError {
		span.Failed()
	}
	span.End()
}
