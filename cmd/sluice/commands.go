package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/configs"
	"sluice/queue/redisqueue"
)

// version is set by the Makefile.
var version string

func newRoot(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A virtual waiting room in front of an order API",
		Long: "Sluice lets visitors wait in a fair line and admits them to an order API\n" +
			"as fast as it can serve them.",
		SilenceUsage:      true,
		SilenceErrors:     true, // run prints them
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE:              func(*cobra.Command, []string) error { return errors.New("a command is missing") },
	}
	root.AddCommand(newServe(environ), newCheckConfig(environ), newAudit(), newPaymentStub(), newVersion())
	return root
}

func newServe(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: "Run the service until SIGTERM or SIGINT, then drain; a second signal quits at\n" +
			"once. Without flags everything is embedded: an in-process line, SQLite, and a\n" +
			"small demo shop. Every key can also be set in a YAML file and by the\n" +
			"environment (line.tick is SLUICE_LINE_TICK).",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := load(cmd.Flags(), environ)
			if err != nil {
				return badConfig(err)
			}
			log := newLog(loaded.Log, cmd.ErrOrStderr())
			for _, w := range loaded.Warnings {
				log.Warn(w)
			}
			if err := serve(cmd.Context(), loaded.Config, cmd.OutOrStdout(), cmd.ErrOrStderr(), log); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
	configs.Flags(cmd.Flags())
	return cmd
}

func newCheckConfig(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Print the effective configuration and every mistake in it",
		Long: "Print the configuration that serve would run with, secrets masked, as YAML.\n" +
			"Every mistake is listed at once on standard error, with exit code 2.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, mistakes := load(cmd.Flags(), environ)
			if err := loaded.WriteYAML(cmd.OutOrStdout()); err != nil {
				return &failure{exitFailed, err}
			}
			for _, w := range loaded.Warnings {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "sluice: warning:", w)
			}
			if mistakes != nil {
				return badConfig(mistakes)
			}
			return nil
		},
	}
	configs.Flags(cmd.Flags())
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "sluice %s (%s, %s/%s)\n",
				versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
}

// versionText falls back to what `go install` recorded.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// load reads the configuration. Of a Redis URL configs knows the shape only, of the
// keys of logins the name of the file, and of the pages little; whatever else is
// refused of them is a mistake as well, and not a failure to start.
func load(flags *pflag.FlagSet, environ []string) (configs.Loaded, error) {
	loaded, err := configs.Load(flags, environ)
	mistakes, ok := errors.AsType[configs.Mistakes](err)
	if err != nil && !ok {
		return loaded, err
	}
	mistakes = append(mistakes, loginMistake(loaded.Config, mistakes)...)
	pageMistakes, err := pageMistakes(loaded.Config, mistakes)
	if err != nil {
		return loaded, err
	}
	mistakes = append(mistakes, pageMistakes...)
	if loaded.Redis != "" {
		client, refused := redisqueue.Dial(string(loaded.Redis)) // does not connect
		if refused != nil {
			mistakes = append(mistakes, configs.Mistake{
				Key: "redis", Value: strconv.Quote(loaded.Redis.String()), Rule: refused.Error(),
			})
		} else if err := client.Close(); err != nil {
			return loaded, err
		}
	}
	if len(mistakes) == 0 {
		return loaded, nil
	}
	return loaded, mistakes
}

// badConfig puts all mistakes under one heading.
func badConfig(err error) error {
	mistakes, ok := errors.AsType[configs.Mistakes](err)
	if !ok {
		return &failure{exitUsage, err}
	}
	heading := "a mistake in the configuration:"
	if len(mistakes) > 1 {
		heading = fmt.Sprintf("%d mistakes in the configuration:", len(mistakes))
	}
	indented := strings.ReplaceAll(mistakes.Error(), "\n", "\n  ")
	return &failure{exitUsage, fmt.Errorf("%s\n  %s", heading, indented)}
}

func newLog(c configs.Log, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.SlogLevel()}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
