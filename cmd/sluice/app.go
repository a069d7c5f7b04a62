package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"

	"sluice/admission"
	"sluice/configs"
	"sluice/journal"
	"sluice/orders"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/web"
)

// app is one wired process: everything that was opened, and what has to run.
type app struct {
	cfg configs.Config
	log *slog.Logger
	// stderr is where the log of requests goes.
	stderr io.Writer

	public, admin net.Listener
	server        *web.Server
	observers     []loop // what is told of requests; from the first answer to the last
	lineLoops     []loop
	orderLoops    []loop
	lineStore     string // for the banner
	orderStore    string // likewise
	payments      string // who takes them; likewise
	process       string // its name in the register
	needs         []need // before anything can be served
	started       *web.Start
	// retire takes this process's capacity out of what the lines are admitted by.
	retire func(context.Context)

	closers []closer // run last in, first out
}

type closer struct {
	name  string
	close func() error
}

// newApp wires everything, takes the addresses, and starts nothing. It reaches for no
// store: that is for the needs. On an error whatever was opened is closed again.
func newApp(ctx context.Context, cfg configs.Config, stderr io.Writer, log *slog.Logger) (_ *app, err error) {
	a := &app{cfg: cfg, stderr: stderr, log: log, process: processName()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	secrets, err := cfg.Secrets()
	if err != nil {
		return nil, err
	}
	if err := a.listen(ctx); err != nil {
		return nil, err
	}
	store, err := a.openLineStore()
	if err != nil {
		return nil, err
	}
	a.lineStore = store.name
	var service *orders.Service
	if cfg.Role != configs.RoleQueue {
		if service, err = a.openOrders(store.redis); err != nil {
			return nil, err
		}
	}
	lines := newLineSet(cfg, store, log)
	controller := a.newController(store, lines, service)
	a.needs = slices.Insert(a.needs, 0, need{
		name: store.need, is: store.name,
		meet:   func(ctx context.Context) error { return openLines(ctx, store, lines) },
		passes: redisqueue.Passes,
	})
	if service != nil && store.redis != nil {
		a.needs = append(a.needs, a.needSameCoupons(store.register))
	}
	if service != nil {
		a.reportCompletions(service, lines)
	}
	// The lines before the controller: its first round needs them.
	a.lineLoops = append(a.lineLoops, lines.Run, controller.Run)
	return a, a.openServer(secrets, store, lines, controller, service)
}

// openLines makes the lines ready for their first visitor.
func openLines(ctx context.Context, store *lineStore, lines *lineSet) error {
	if err := store.check(ctx); err != nil {
		return err
	}
	return lines.openAll(ctx)
}

// listen takes the addresses, so that port 0 has a number before anyone serves.
func (a *app) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if a.public, err = lc.Listen(ctx, "tcp", a.cfg.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.onClose("public listener", a.public.Close)
	if a.admin, err = lc.Listen(ctx, "tcp", a.cfg.Admin.Listen); err != nil {
		return fmt.Errorf("admin.listen: %w", err)
	}
	a.onClose("operator listener", a.admin.Close)
	return nil
}

// newController makes what works out the rates of the lines, and lets the lines
// use it.
func (a *app) newController(store *lineStore, lines *lineSet, service *orders.Service) *admission.Controller {
	cfg := admission.ControllerConfig{
		Register: store.register, Process: a.process, Queue: a.cfg.Role != configs.RoleOrders,
		Lines: lines.watches, Log: a.log,
	}
	if service != nil {
		cfg.Pool = orderPool(service, a.firstCapacity(), a.cfg.Orders.WaitTarget, a.cfg.Coupons.Mode)
	}
	controller := admission.NewController(cfg)
	a.retire = func(ctx context.Context) {
		if err := controller.Retire(ctx); err != nil {
			a.log.Warn("the others are not told that this process takes no more orders; its report goes stale", "error", err)
		}
	}
	lines.rate, lines.steady = controller.Rater, controller.Steady
	lines.queues = func() int { return controller.Overview().Queues }
	return controller
}

// processName is unique to this start of the process, and tells an operator which
// one it is.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), rand.Text()[:6])
}

// firstCapacity is the first guess of what this process can do, until it is
// measured, in orders per second: at most what a line can be asked for.
func (a *app) firstCapacity() float64 {
	if a.cfg.Line.InitialRate > 0 {
		return a.cfg.Line.InitialRate
	}
	guess := admission.FirstGuess(a.cfg.Orders.Workers, a.cfg.Orders.AssumedTime, a.cfg.Admission.Margin)
	return min(guess, queue.MaxRate)
}

// reportCompletions tells the lines which admissions have come to order, and which
// became orders.
func (a *app) reportCompletions(service *orders.Service, lines *lineSet) {
	completions := admission.NewCompletions(lines.line, a.log)
	service.OnArrived(func(b orders.Buyer) { completions.Arrived(b.Line, b.Visitor, b.TokenID) })
	service.OnCommitted(func(b orders.Buyer) { completions.Committed(b.Line, b.Visitor, b.TokenID) })
	a.lineLoops = append(a.lineLoops, completions.Run)
}

func (a *app) openServer(secrets [][]byte, store *lineStore, lines *lineSet, controller *admission.Controller, service *orders.Service) error {
	tickets, err := queue.NewTickets(secrets, a.cfg.Line.TicketTTL)
	if err != nil {
		return err
	}
	algorithms := make([]queue.Algorithm, len(a.cfg.Admission.Algorithms))
	for i, name := range a.cfg.Admission.Algorithms {
		algorithms[i] = queue.Algorithm(name)
	}
	tokens, err := admission.NewTokens(secrets, algorithms...)
	if err != nil {
		return err
	}
	proofs, err := web.NewProofs(secrets, a.cfg.Limits.ProofOfWork)
	if err != nil {
		return err
	}
	logins, err := newLogins(a.cfg, a.log)
	if err != nil {
		return err
	}
	if logins != nil {
		a.lineLoops = append(a.lineLoops, logins.Run)
	}
	operators, err := operatorsOf(a.cfg)
	if err != nil {
		return err
	}
	tracer, err := a.newTracer()
	if err != nil {
		return err
	}
	book := journal.NewBook(store.journal, a.log)
	a.started = web.NewStart(names(a.needs)...)
	cfg := web.Config{
		Role:           a.cfg.Role,
		Start:          a.started,
		Lines:          lines.served,
		Create:         lines.create,
		Tickets:        tickets,
		Tokens:         tokens,
		Orders:         service,
		PollBudget:     lines.pollBudget,
		FollowupTTL:    a.cfg.Orders.FollowupTTL,
		Identity:       a.cfg.Identity.Mode,
		Logins:         logins,
		TrustedProxies: networks(a.cfg.Identity.TrustedProxies),
		Limits:         web.Limits{PollFactor: a.cfg.Limits.PollFactor, EnterPerAddress: a.cfg.Limits.EnterPerAddress, Proofs: proofs},
		Origins:        a.cfg.CORS.Origins,
		Pages:          pageOptions(a.cfg.Pages),
		AdminListen:    a.cfg.Admin.Listen,
		Operators:      operators,
		AdminHosts:     a.cfg.Admin.Hosts,
		Journal:        book,
		AccessLogEvery: a.cfg.Log.AccessEvery,
		AccessLog:      a.accessLog(),
		Tracing:        tracer,
		TraceProxies:   a.cfg.Tracing.FollowProxies,
		Log:            a.log,
	}
	if a.cfg.Role != configs.RoleOrders {
		cfg.Overview = controller.Overview
	}
	if a.server, err = web.New(cfg); err != nil {
		return err
	}
	a.lineLoops = append(a.lineLoops, book.Run, a.server.Run)
	return nil
}

// operatorsOf are those who may use the operator's listener.
func operatorsOf(cfg configs.Config) ([]web.Operator, error) {
	named, err := configs.ParseOperators(cfg.Admin.Token)
	if err != nil {
		return nil, fmt.Errorf("admin.token: %w", err)
	}
	operators := make([]web.Operator, len(named))
	for i, o := range named {
		operators[i] = web.Operator{Name: o.Name, Token: string(o.Token)}
	}
	return operators, nil
}

// networks are those of a configuration that has been checked.
func networks(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := configs.ParseNetwork(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (a *app) onClose(name string, fn func() error) {
	a.closers = append(a.closers, closer{name, fn})
}

// close gives back what was opened, last in first out. It may be called twice.
func (a *app) close() error {
	var errs []error
	for _, c := range slices.Backward(a.closers) {
		if err := c.close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("closing the %s: %w", c.name, err))
		}
	}
	a.closers = nil
	return errors.Join(errs...)
}
