package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"sluice/orders/httpprovider/standin"
)

func newPaymentStub() *cobra.Command {
	var (
		listen string
		opts   standin.Options
	)
	cmd := &cobra.Command{
		Use:   "payment-stub",
		Short: "Pretend to be a payment provider",
		Long: "Serve the protocol that payments.provider speaks, for trying out and measuring;\n" +
			"no money moves. It charges once for an idempotency key, also when asked twice at\n" +
			"the same time, and keeps everything in memory. GET /charges tells what it did:\n" +
			"charged_twice must be 0.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			provider, err := standin.New(opts)
			if err != nil {
				return &failure{exitUsage, err}
			}
			if err := servePaymentStub(cmd.Context(), listen, provider, cmd.OutOrStdout()); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8090", "`address`; port 0 takes any that is free")
	flags.DurationVar(&opts.Delay, "delay", time.Second, "how long a charge takes")
	flags.Float64Var(&opts.Decline, "decline", 0, "`share` of charges that are declined, 0 to 1")
	flags.Float64Var(&opts.Timeout, "timeout", 0, "`share` of charges, 0 to 1, that are made without an answer to who asks first")
	flags.Uint64Var(&opts.Seed, "seed", 1, "decides which charges are declined or not answered")
	return cmd
}

// servePaymentStub serves until ctx ends, which cuts off whoever waits for an answer.
func servePaymentStub(ctx context.Context, listen string, provider *standin.Standin, stdout io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{
		Handler:           provider.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       2 * time.Minute, // longer than httpprovider keeps a connection
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := onceEnded(ctx, func() { _ = server.Close() })
	defer closed()
	if _, err := fmt.Fprintf(stdout, "payment stub: http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, server.Close(), listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
