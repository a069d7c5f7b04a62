//go:build !unix

package main

import "log/slog"

// raiseFiles has nothing to raise: there is no such limit here.
func raiseFiles(*slog.Logger) {}
