//go:build !unix

package main

import "log/slog"

// warnOfFewFiles has nothing to warn of: there is no such limit here.
func warnOfFewFiles(*slog.Logger) {}
