package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"sluice/configs"
	"sluice/orders"
	"sluice/orders/httpprovider"
	"sluice/orders/httpprovider/standin"
	"sluice/orders/rediscoupons"
	"sluice/orders/sqlstore"
	"sluice/web"
)

// openOrders makes the order side, which has not reached for its database yet. client
// is nil without Redis.
func (a *app) openOrders(client redis.UniversalClient) (*orders.Service, error) {
	store, err := a.openStore()
	if err != nil {
		return nil, err
	}
	a.onClose("database", store.Close)
	options := orderOptions(a.cfg)
	if options.Provider, err = a.openProvider(); err != nil {
		return nil, err
	}
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
	a.needs = append(a.needs, need{
		name: web.NeedDatabase, is: a.orderStore,
		meet:   func(ctx context.Context) error { return a.prepareStore(ctx, store, service) },
		passes: func(err error) bool { return !errors.Is(err, sqlstore.ErrUnusable) },
	})
	a.orderLoops = append(a.orderLoops, service.Run)
	return service, nil
}

// prepareStore makes a database ready for its first order.
func (a *app) prepareStore(ctx context.Context, store *sqlstore.Store, service *orders.Service) error {
	if err := store.Prepare(ctx); err != nil {
		return err
	}
	if a.cfg.Database == "" {
		if err := fillDemo(ctx, store); err != nil {
			return err
		}
	}
	if err := service.Refresh(ctx); err != nil {
		return fmt.Errorf("the first look at the products: %w", err)
	}
	return nil
}

// openStore names the configured database, or SQLite in the data folder.
func (a *app) openStore() (*sqlstore.Store, error) {
	opts := sqlstore.Options{Workers: a.cfg.Orders.Workers, Log: a.log}
	if a.cfg.Database != "" {
		opts.URL = string(a.cfg.Database)
		a.orderStore = a.cfg.Database.String()
	} else {
		opts.Path = filepath.Join(a.cfg.Data, "sluice.db")
		a.orderStore = "SQLite, " + opts.Path
	}
	return sqlstore.New(opts)
}

func orderOptions(c configs.Config) orders.Options {
	return orders.Options{
		Workers:        c.Orders.Workers,
		Backlog:        c.Orders.Backlog,
		Deadline:       c.Orders.Deadline,
		PayWithin:      c.Orders.PayWithin,
		PayTimeout:     c.Payments.Timeout,
		PaymentsAtOnce: c.Payments.AtOnce,
		TestDelay:      c.Orders.TestDelay,
	}
}

// openProvider finds who takes the payments; nil where nobody does. Where nothing is
// set up at all, somebody is trying things out: there a stand-in takes them.
func (a *app) openProvider() (orders.Provider, error) {
	switch {
	case a.cfg.Payments.Provider != "":
		a.payments = a.cfg.Payments.Provider.String()
		client, err := httpprovider.New(httpprovider.Options{
			URL: string(a.cfg.Payments.Provider), Token: string(a.cfg.Payments.Token), AtOnce: a.cfg.Payments.AtOnce,
		})
		if err != nil {
			return nil, fmt.Errorf("payments.provider: %w", err)
		}
		a.onClose("payment provider", client.Close)
		return client, nil
	case a.cfg.Redis == "" && a.cfg.Database == "":
		a.payments = "a stand-in: every order can be paid, and no money moves"
		return standin.New(standin.Options{})
	}
	a.payments = "taken elsewhere"
	if within := a.cfg.Orders.PayWithin; within > 0 {
		a.log.Warn("payments.provider is not set, so no order is paid here: each is cancelled after orders.pay_within, unless that is 0", "pay_within", within)
	}
	return nil, nil
}
