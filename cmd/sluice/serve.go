package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"sluice/configs"
	"sluice/web"
)

// serve runs the service until ctx ends and everything is drained. log is what stderr is
// written to by all but the log of requests.
func serve(ctx context.Context, cfg configs.Config, stdout, stderr io.Writer, log *slog.Logger) error {
	warnOfFewFiles(log)
	a, err := newApp(ctx, cfg, stderr, log)
	if err != nil {
		return err
	}
	return a.run(ctx, stdout)
}

// run answers at once, serves as soon as the needs are met, until ctx ends or a part
// fails, and then stops in this order: readiness off, HTTP drained, the order side
// with what it still has in hand, the line's loops (the last completions come from
// the orders), what is told of requests, the stores. A stop that is asked for while it starts is as clean as a
// later one. It closes the app.
func (a *app) run(ctx context.Context, stdout io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Requests are answered before the needs are met, and those are told of too.
	stopObservers := start(ctx, stop, a.observers)
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- a.server.Serve(ctx, a.public, a.admin, web.Drain{Delay: a.cfg.DrainDelay, Timeout: a.cfg.DrainTimeout})
	}()
	err := a.meetNeeds(ctx)
	if err == nil {
		err = a.writeBanner(stdout)
	}
	if err != nil {
		if ctx.Err() != nil {
			a.log.Info("stopped while starting", "during", err)
			err = nil
		}
		stop()
		return errors.Join(err, <-served, stopObservers(), a.close())
	}
	stopLineLoops := start(ctx, stop, a.lineLoops)
	stopOrderLoops := start(ctx, stop, a.orderLoops)
	retired := onceEnded(ctx, func() {
		a.log.Info("stopping: what is under way is finished first; a second signal quits at once")
		a.retire(context.WithoutCancel(ctx))
	})
	err = <-served
	retired() // before the report is withdrawn, or it would put in another
	a.log.Info("no more requests")
	err = errors.Join(err, stopOrderLoops(), stopLineLoops(), stopObservers(), a.close())
	if err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	a.log.Info("stopped")
	return nil
}

// onceEnded calls fn once ctx has ended. The returned function sees to it that fn
// has returned, or is not called any more.
func onceEnded(ctx context.Context, fn func()) (settle func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		fn()
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

type loop func(context.Context) error

// start runs loops until the returned function is called, which waits for them
// and returns what went wrong. They outlive ctx, whose values they keep; the
// first of them that fails calls failed.
func start(ctx context.Context, failed func(), loops []loop) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range loops {
		group.Go(func() error {
			err := run(ctx)
			if err != nil {
				failed()
			}
			return err
		})
	}
	return func() error {
		cancel()
		return group.Wait()
	}
}
