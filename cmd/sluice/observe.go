package main

import (
	"io"
	"log/slog"

	"sluice/tracing"
	"sluice/web"
)

// accessLog is what requests are logged to, in the form of all other lines; nil where none
// are.
func (a *app) accessLog() *web.AccessLog {
	if a.cfg.Log.AccessEvery == 0 {
		return nil
	}
	access := web.NewAccessLog(a.stderr, func(w io.Writer) *slog.Logger { return newLog(a.cfg.Log, w) })
	a.observers = append(a.observers, access.Run)
	return access
}

// newTracer is nil where nothing is traced; then nothing is made for it.
func (a *app) newTracer() (*tracing.Tracer, error) {
	if a.cfg.Tracing.Endpoint == "" {
		return nil, nil
	}
	t, err := tracing.New(tracing.Options{
		Endpoint: string(a.cfg.Tracing.Endpoint), Sample: a.cfg.Tracing.Sample,
		Version: versionText(), Instance: a.process, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.observers = append(a.observers, t.Run)
	return t, nil
}
