package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sync/errgroup"
)

// Drain is how a server stops. The zero value stops at once, waiting for nothing.
type Drain struct {
	// Delay is how long, after readiness turned off, requests are still taken:
	// the time a load balancer needs to notice.
	Delay time.Duration
	// Timeout is how long, after that, answers in the making may take.
	Timeout time.Duration
}

// Serve answers on both listeners until ctx ends, then drains: readiness off,
// further answers with Connection: close during d.Delay, then no new
// connections and at most d.Timeout for what is in flight. Orders that wait for
// a worker are refused then, so that only those under way take time, and payments
// whose provider does not answer in half of it are left to whoever asks again. The
// operator's listener closes last, so that probes see the drain. Serve returns
// nil after a clean drain, and closes both listeners in any case.
func (s *Server) Serve(ctx context.Context, public, admin net.Listener, d Drain) error {
	s.hosts.add(admin.Addr().String())
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	open := newListener(public, "public", s.timeouts.slack(), s.log)
	operator := newListener(admin, "operator", s.timeouts.slack(), s.log)
	group.Go(func() error { return s.serveOn(s.public, "public", open) })
	group.Go(func() error { return s.serveOn(s.admin, "operator", operator) })

	select {
	case <-ctx.Done():
		s.draining.Store(true)
		if len(s.cfg.Start.Missing()) == 0 { // else nobody was sent here
			sleep(failed, d.Delay)
		}
	case <-failed.Done(): // a listener broke: nothing is left to wait for
		s.draining.Store(true)
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Timeout)
	defer cancel()
	_ = open.Close() // its error says that it was closed already
	if s.cfg.Orders != nil {
		s.cfg.Orders.Stop(d.Timeout / 2)
	}
	errs := []error{
		s.shutdown(deadline, s.public, "public", open),
		s.shutdown(deadline, s.admin, "operator", operator),
	}
	return errors.Join(append(errs, group.Wait())...)
}

// Run keeps what the operator's page shows of the past until ctx ends; then it returns
// nil. The process must have its stores before.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Role == RoleOrders { // has no such page
		return nil
	}
	return s.history.Run(ctx)
}

func (s *Server) serveOn(app *fiber.App, name string, ln net.Listener) error {
	err := app.Server().Serve(ln)
	if err == nil && !s.draining.Load() { // fasthttp takes any closed listener for a wish to stop
		err = net.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("web: serving the %s listener: %w", name, err)
	}
	return nil
}

// shutdown closes the listener first, whatever fasthttp makes of it: when Serve
// has not got round to taking the listener yet, its Shutdown does nothing. Then
// it hurries the clients: fasthttp closes connections between two requests, but
// waits for those that have sent half of one, or nothing at all yet.
func (s *Server) shutdown(ctx context.Context, app *fiber.App, name string, ln *listener) error {
	_ = ln.Close()
	end, _ := ctx.Deadline()
	ln.hurry(min(s.timeouts.last, time.Until(end)/2))
	if err := app.Server().ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("web: draining the %s listener, %d connections left: %w",
			name, app.Server().GetOpenConnectionsCount(), err)
	}
	return nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
