package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"sluice/admission"
	"sluice/configs"
	"sluice/orders"
	"sluice/queue"
	"sluice/web"
)

// watchEvery is how old the view of a line gets: well below the second within
// which an operator's change must be obeyed everywhere.
const watchEvery = 250 * time.Millisecond

// startTimeout bounds what happens before the first request: reaching the
// stores, migrating, the first look at the line.
const startTimeout = time.Minute

// app is one wired process: everything that was opened, and what has to run.
type app struct {
	cfg configs.Config
	log *slog.Logger

	public, admin net.Listener
	server        *web.Server
	lineLoops     []loop
	orderLoops    []loop
	lineStore     string // for the banner
	orderStore    string

	closers []closer // run last in, first out
}

type closer struct {
	name  string
	close func() error
}

// newApp opens and wires everything and starts nothing. On an error whatever
// was opened is closed again.
func newApp(ctx context.Context, cfg configs.Config, log *slog.Logger) (_ *app, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	a := &app{cfg: cfg, log: log}
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
	// Before the stores: a port that is taken should not cost a migration.
	if err := a.listen(ctx); err != nil {
		return nil, err
	}
	line, err := a.openLine(ctx)
	if err != nil {
		return nil, err
	}
	var service *orders.Service
	if cfg.Role != configs.RoleQueue {
		if service, err = a.openOrders(ctx); err != nil {
			return nil, err
		}
		a.reportCompletions(service, line.Line)
	}
	if cfg.Role != configs.RoleOrders {
		a.lineLoops = append(a.lineLoops, admission.NewTicker(line.Line, a.rate(), cfg.Line.Tick, log).Run)
	}
	return a, a.openServer(secrets, line, service)
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

// openLine opens the line and takes the first look at it, so that the first
// request already knows its epoch and its clock.
func (a *app) openLine(ctx context.Context) (web.Line, error) {
	line, err := a.newLine(ctx)
	if err != nil {
		return web.Line{}, err
	}
	watch := queue.NewWatch(line, watchEvery, a.log)
	if err := watch.Refresh(ctx); err != nil {
		return web.Line{}, fmt.Errorf("the first look at the line: %w", err)
	}
	keeper := queue.NewKeeper(a.rememberedLine(), watch, nil, a.log)
	a.lineLoops = append(a.lineLoops, watch.Run, keeper.Run)
	return web.Line{Line: line, Watch: watch, Keep: keeper.Keep}, nil
}

// rate is the first guess, until there is a measured one: at most what a line
// can be asked for.
func (a *app) rate() admission.Rater {
	if a.cfg.Line.InitialRate > 0 {
		return admission.Fixed(a.cfg.Line.InitialRate)
	}
	guess := admission.FirstGuess(a.cfg.Orders.Workers, a.cfg.Orders.AssumedTime, a.cfg.Admission.Margin)
	return admission.Fixed(min(guess, queue.MaxRate))
}

// reportCompletions tells the line which admissions became orders.
func (a *app) reportCompletions(service *orders.Service, line queue.Line) {
	find := func(id string) queue.Line {
		if id != line.ID() {
			return nil
		}
		return line
	}
	completions := admission.NewCompletions(find, a.log)
	service.OnArrived(func(b orders.Buyer) { completions.Arrived(b.Line, b.Visitor, b.TokenID) })
	service.OnCommitted(func(b orders.Buyer) { completions.Committed(b.Line, b.Visitor, b.TokenID) })
	a.lineLoops = append(a.lineLoops, completions.Run)
}

func (a *app) openServer(secrets [][]byte, line web.Line, service *orders.Service) error {
	tickets, err := queue.NewTickets(secrets, a.cfg.Line.TicketTTL)
	if err != nil {
		return err
	}
	tokens, err := admission.NewTokens(secrets)
	if err != nil {
		return err
	}
	a.server, err = web.New(web.Config{
		Role:           a.cfg.Role,
		Lines:          web.NewLines(line),
		Tickets:        tickets,
		Tokens:         tokens,
		Orders:         service,
		PollBudget:     func(string) float64 { return a.cfg.Line.PollBudget },
		FollowupTTL:    a.cfg.Orders.FollowupTTL,
		AdminListen:    a.cfg.Admin.Listen,
		AdminToken:     string(a.cfg.Admin.Token),
		AdminHosts:     a.cfg.Admin.Hosts,
		AccessLogEvery: a.cfg.Log.AccessEvery,
		Log:            a.log,
	})
	return err
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
