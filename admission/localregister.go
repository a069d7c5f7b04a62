package admission

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// LocalRegister is the register of one process, which finds itself in it. Its
// clock is this machine's. Safe for concurrent use.
type LocalRegister struct {
	mu      sync.Mutex
	reports map[string]Report // by process; guarded by mu
}

// NewLocalRegister makes an empty one.
func NewLocalRegister() *LocalRegister {
	return &LocalRegister{reports: make(map[string]Report)}
}

// Publish implements [Register]. It does not fail but for an ended context.
func (l *LocalRegister) Publish(ctx context.Context, r Report) ([]Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegister, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.At = time.Now()
	l.reports[r.Process] = r
	maps.DeleteFunc(l.reports, func(_ string, other Report) bool { return r.At.Sub(other.At) >= StaleAfter })
	byProcess := func(a, b Report) int { return cmp.Compare(a.Process, b.Process) }
	return slices.SortedFunc(maps.Values(l.reports), byProcess), nil
}

// Withdraw implements [Register].
func (l *LocalRegister) Withdraw(ctx context.Context, process string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrRegister, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reports, process)
	return nil
}

var _ Register = (*LocalRegister)(nil)
