package web

// routePublic registers what visitors reach. Whatever a role does not serve is
// not registered, and so 404.
func (s *Server) routePublic(r *router) {
	r.get("/.well-known/jwks.json", s.jwks)
	if s.cfg.Role != RoleOrders {
		s.routePages(r)
	}
	r.shared = true
	if s.cfg.Role != RoleOrders {
		s.routeQueue(r.needing(errAwaitsLine))
	}
	if s.cfg.Role != RoleQueue {
		s.routeOrders(r.needing(errAwaitsDatabase))
	}
}

// routeAdmin registers what operators and probes reach.
func (s *Server) routeAdmin(r *router) {
	r.get("/healthz", s.healthz)
	r.get("/readyz", s.readyz)
	r.get("/metrics", s.scrape(s.metrics.handler()))
	s.routeAdminJournal(r.needing(errAwaitsLine))
	if s.cfg.Role != RoleOrders {
		s.routeAdminPages(r)
		s.routeAdminLines(r.needing(errAwaitsLine))
	}
	if s.cfg.Role != RoleQueue {
		s.routeAdminOrders(r.needing(errAwaitsDatabase))
	}
}
