package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"sluice/configs"
	"sluice/orders"
	"sluice/orders/rediscoupons"
	"sluice/orders/sqlstore"
)

// openOrders opens the database and the order side on it. client is nil without Redis.
func (a *app) openOrders(ctx context.Context, client redis.UniversalClient) (*orders.Service, error) {
	store, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	a.onClose("database", store.Close)
	if a.cfg.Database == "" {
		if err := fillDemo(ctx, store); err != nil {
			return nil, err
		}
	}
	options := orderOptions(a.cfg)
	service, err := orders.NewService(store, options, a.log)
	if err != nil {
		return nil, err
	}
	if a.cfg.Coupons.Mode == configs.CouponsRedis {
		issuer, err := rediscoupons.New(client, store, rediscoupons.Ack(a.cfg.Coupons.Ack), a.log)
		if err != nil {
			return nil, err
		}
		service.IssueThrough(issuer)
		a.orderLoops = append(a.orderLoops, issuer.Run)
	}
	if err := service.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("the first look at the products: %w", err)
	}
	a.orderLoops = append(a.orderLoops, service.Run)
	return service, nil
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

func orderOptions(c configs.Config) orders.Options {
	return orders.Options{
		Workers:   c.Orders.Workers,
		Backlog:   c.Orders.Backlog,
		Deadline:  c.Orders.Deadline,
		PayWithin: c.Orders.PayWithin,
		TestDelay: c.Orders.TestDelay,
	}
}
