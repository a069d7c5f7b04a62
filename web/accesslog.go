package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
)

// accessLogKept is how many bytes of lines wait for the log to take them.
const accessLogKept = 1 << 20

// AccessLog is the log of requests. No request waits for what it is written to: lines are
// kept in memory of a fixed size, and dropped and counted where that is full. Its Run
// writes them out. Safe for concurrent use.
type AccessLog struct {
	log  *slog.Logger
	out  io.Writer
	some chan struct{} // a token while there are lines that Run has not seen

	mu      sync.Mutex
	kept    []byte // whole lines; guarded by mu
	dropped uint64 // guarded by mu
}

// NewAccessLog logs to out, in the form that logger gives to what is written to its writer:
// a line each, at level info.
func NewAccessLog(out io.Writer, logger func(io.Writer) *slog.Logger) *AccessLog {
	a := &AccessLog{out: out, some: make(chan struct{}, 1)}
	a.log = logger((*accessLines)(a))
	return a
}

// Run writes lines out until ctx ends, and then what is left; it returns nil. What cannot be
// written is dropped.
func (a *AccessLog) Run(ctx context.Context) error {
	var writing []byte
	for ended := false; !ended; {
		select {
		case <-a.some:
		case <-ctx.Done():
			ended = true
		}
		a.mu.Lock()
		writing, a.kept = a.kept, writing[:0]
		a.mu.Unlock()
		if len(writing) == 0 {
			continue
		}
		if n, err := a.out.Write(writing); err != nil {
			a.drop(uint64(bytes.Count(writing[n:], []byte("\n"))))
		}
	}
	return nil
}

// Dropped is how many lines were; 0 of a nil log.
func (a *AccessLog) Dropped() uint64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropped
}

func (a *AccessLog) drop(n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped += n
}

// accessLines is the log as what the logger writes its lines to, each with one call.
type accessLines AccessLog

func (a *accessLines) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept)+len(line) > accessLogKept {
		a.dropped++
		return len(line), nil
	}
	a.kept = append(a.kept, line...)
	select {
	case a.some <- struct{}{}:
	default:
	}
	return len(line), nil
}
