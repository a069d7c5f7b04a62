// Command sluice is the waiting room: see `sluice help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	redislog "github.com/redis/go-redis/v9/logging"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration
)

func main() {
	// The client prints each failed dial past our log. What matters of it
	// reaches the log as the error of a command.
	redislog.Disable()

	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // somebody is tired of waiting for the drain
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the whole command: it returns the exit code when the command is done,
// or, for serve, when ctx has ended and everything is drained.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := newRoot(environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(stderr, "sluice:", err)
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed.code
	}
	_, _ = fmt.Fprintln(stderr, "See: sluice help")
	return exitUsage // cobra refused the arguments
}

// failure is an error of a command that did run, with the exit code it means.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
