package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"sluice/configs"
	"sluice/orders"
	"sluice/orders/sqlstore"
	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/queue/redisqueue"
	"sluice/web"
)

// newLine makes the line of this process, or joins the one on Redis, with what
// this process remembers of it.
func (a *app) newLine(ctx context.Context) (queue.Line, error) {
	opts := lineOptions(a.cfg.Line)
	remembered, ok, err := queue.Recall(a.rememberedLine())
	if err != nil && a.cfg.Redis == "" {
		return nil, err
	}
	if err != nil { // Redis has the truth, unless it loses it in this moment
		a.log.Warn("what this process remembers of the line cannot be read", "error", err)
	}
	if ok {
		opts.Known = &remembered
	}
	if a.cfg.Redis == "" {
		a.lineStore = "in this process (it ends with it)"
		return memqueue.New(web.DefaultLine, opts)
	}
	a.lineStore = a.cfg.Redis.String()
	client, err := redisqueue.Dial(string(a.cfg.Redis))
	if err != nil {
		return nil, err
	}
	a.onClose("Redis client", client.Close)
	if err := redisqueue.Check(ctx, client); err != nil {
		return nil, fmt.Errorf("using Redis at %s: %w", a.cfg.Redis, err)
	}
	return redisqueue.New(client, web.DefaultLine, opts)
}

// rememberedLine is the file for what must outlive this process. It is of one
// store: what was said to a line elsewhere, say when trying things out without
// Redis, must not reach the line of the sale.
func (a *app) rememberedLine() string {
	store := "embedded"
	if a.cfg.Redis != "" {
		_, address, _ := strings.Cut(string(a.cfg.Redis), "://")
		if at := strings.LastIndex(address, "@"); at >= 0 {
			address = address[at+1:] // whoever logs in, it is the same line
		}
		store = fmt.Sprintf("redis-%x", sha256.Sum256([]byte(address)))[:len("redis-")+12]
	}
	return filepath.Join(a.cfg.Data, "line-"+web.DefaultLine+"-"+store+".json")
}

func lineOptions(c configs.Line) queue.Options {
	opts := queue.DefaultOptions()
	opts.Tick = c.Tick
	opts.Jitter = c.Jitter
	opts.AdmissionTTL = c.AdmissionTTL
	opts.TicketTTL = c.TicketTTL
	opts.KeepPlace = c.KeepPlace
	opts.RecoveryHold = c.RecoveryHold
	opts.Initial.MaxLength = c.MaxLength
	opts.Initial.MaxActive = c.MaxActive
	return opts
}

func orderOptions(c configs.Orders) orders.Options {
	return orders.Options{
		Workers:   c.Workers,
		Backlog:   c.Backlog,
		Deadline:  c.Deadline,
		PayWithin: c.PayWithin,
		TestDelay: c.TestDelay,
	}
}

// openStore opens the configured database, or SQLite in the data folder.
func (a *app) openStore(ctx context.Context) (*sqlstore.Store, error) {
	opts := sqlstore.Options{Workers: a.cfg.Orders.Workers, Log: a.log}
	if a.cfg.Database != "" {
		opts.URL = string(a.cfg.Database)
		a.orderStore = a.cfg.Database.String()
	} else {
		opts.Path = filepath.Join(a.cfg.Data, "sluice.db")
		a.orderStore = "SQLite, " + opts.Path
	}
	store, err := sqlstore.Open(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", a.orderStore, err)
	}
	return store, nil
}

// openOrders opens the database and the order side on it.
func (a *app) openOrders(ctx context.Context) (*orders.Service, error) {
	store, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	a.onClose("database", store.Close)
	if a.cfg.Database == "" {
		if err := addDemoProducts(ctx, store); err != nil {
			return nil, err
		}
	}
	service, err := orders.NewService(store, orderOptions(a.cfg.Orders), a.log)
	if err != nil {
		return nil, err
	}
	if err := service.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("the first look at the products: %w", err)
	}
	a.orderLoops = append(a.orderLoops, service.Run)
	return service, nil
}
