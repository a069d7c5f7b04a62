package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/queue"
)

// ErrBlocked means that nobody is let in, or told where they stand: an operator has
// blocked the line, or its store is away. Tickets and tokens stay good.
var ErrBlocked = errors.New("admission: the line is blocked")

// errAway is the answer of a store that nobody asked, since it does not answer.
var errAway = fmt.Errorf("%w: it has not answered for a while, and is not asked", queue.ErrUnavailable)

// awayAfter is how long no batch must have come for the store to count as away. Above a
// fail-over of moments, below what a visitor would wait for an answer.
const awayAfter = time.Second

// StandbyConfig is what a [Standby] is made of.
type StandbyConfig struct {
	// Line is the line in its store, Watch a watch of it, and Options what it is made
	// with.
	Line    queue.Line
	Watch   *queue.Watch
	Options queue.Options
	// OnFailure is the mode while the store is away: [queue.ModeBlock] or
	// [queue.ModeBypass].
	OnFailure queue.Mode
	// Steady is what the line may let in per second of what its order side can do.
	Steady func() Steady
	Log    *slog.Logger
}

// Standby stands in front of a line whose store may be away: it answers visitors in its
// place, at once, in the modes block and bypass. Those are in force by an operator's
// word, and by itself while the store is away.
//
// It judges that by the batches alone: ten times a second the ticker asks for one, in
// every state, so no visitor is used to find out whether the store is back; and a batch
// is written, so a store that can only be read is found away too. One that has given no
// batch for a second is away, one that gives one, and its figures, is back. Until then a
// call that fails fails by itself.
//
// Its methods are those of the line where nothing else is said. In front of a store that
// is away all but Admit, Snapshot and what only an operator asks for return at once.
type Standby struct {
	queue.Line
	cfg StandbyConfig
	log *slog.Logger

	bypass *bypass
	away   atomic.Bool

	mu      sync.Mutex
	failing time.Time // when the first of the batches in vain was asked for; zero without; guarded by mu
}

var _ queue.Line = (*Standby)(nil)

// NewStandby makes one, with the store taken to be there.
func NewStandby(cfg StandbyConfig) *Standby {
	return &Standby{Line: cfg.Line, cfg: cfg, log: cfg.Log.With("line", cfg.Line.ID()), bypass: newBypass(cfg)}
}

// Mode is the mode in force: the operator's if it is block or bypass, else what is
// configured while the store is away, else the operator's. It costs two loads.
func (s *Standby) Mode() queue.Mode {
	mode := s.cfg.Watch.Mode()
	if !mode.Bypassed() && s.away.Load() {
		return s.cfg.OnFailure
	}
	return mode
}

// Away reports whether the store is away.
func (s *Standby) Away() bool { return s.away.Load() }

// Admit asks for a batch, whatever the mode, and learns whether the store is there. While
// it is away it asks without letting anybody in: a store that is slow does what it is told
// and is not heard, and those let in would lose their turns before they know.
func (s *Standby) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if s.away.Load() {
		rate, why = 0, queue.LimitedByBlock
	}
	began := time.Now()
	b, err := s.Line.Admit(ctx, rate, why)
	switch {
	case err == nil && s.away.Load():
		// What everybody goes by from now on must not be the view of before: the store may
		// have lost its memory meanwhile.
		if s.cfg.Watch.Refresh(ctx) == nil {
			s.answered()
		}
	case err == nil:
		s.answered()
	case errors.Is(ctx.Err(), context.Canceled): // says nothing of the store
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		s.failed(began, err)
	}
	return b, err
}

func (s *Standby) failed(began time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() {
		s.failing = began
	}
	if !s.away.Load() && time.Since(s.failing) >= awayAfter {
		s.away.Store(true)
		s.log.Warn("the line's store is away", "mode", s.Mode(), "error", err)
	}
}

func (s *Standby) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() {
		s.away.Store(false)
		s.log.Info("the line's store is back", "away", time.Since(s.failing).Round(time.Millisecond), "mode", s.Mode())
	}
	s.failing = time.Time{}
}

// Enter implements [queue.Line]; also with [ErrBlocked].
func (s *Standby) Enter(ctx context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	switch s.Mode() {
	case queue.ModeBlock:
		return queue.Standing{}, ErrBlocked
	case queue.ModeBypass:
		return s.bypass.enter(subject, held)
	}
	if s.bypass.promises() {
		if st, ok := s.bypass.promised(subject, held, true); ok {
			return st, nil
		}
	}
	st, err := s.Line.Enter(ctx, subject, held)
	s.bypass.saw(st.Ticket.Place)
	return st, err
}

// Standing implements [queue.Line]; also with [ErrBlocked].
func (s *Standby) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	switch s.Mode() {
	case queue.ModeBlock:
		return queue.Standing{}, ErrBlocked
	case queue.ModeBypass:
		return s.bypass.standing(t)
	}
	if s.bypass.promises() {
		if st, ok := s.bypass.promised(t.Subject, &t, false); ok {
			return st, nil
		}
	}
	st, err := s.Line.Standing(ctx, t)
	s.bypass.saw(st.Ticket.Place)
	return st, err
}

// Leave implements [queue.Line]; also with [ErrBlocked].
func (s *Standby) Leave(ctx context.Context, t queue.Ticket) error {
	if s.Mode() == queue.ModeBlock {
		return ErrBlocked
	}
	return s.reaching(func() error {
		err := s.Line.Leave(ctx, t)
		if err == nil {
			s.bypass.end(t.ID, queue.Left)
		}
		return err
	})
}

// Remove implements [queue.Line].
func (s *Standby) Remove(ctx context.Context, subject string) (held bool, err error) {
	err = s.reaching(func() error {
		held, err = s.Line.Remove(ctx, subject)
		if err == nil {
			s.bypass.endSubject(subject, queue.Removed)
		}
		return err
	})
	return held, err
}

// Sweep implements [queue.Line].
func (s *Standby) Sweep(ctx context.Context, heard []queue.Heard) (swept queue.Swept, err error) {
	err = s.reaching(func() error {
		swept, err = s.Line.Sweep(ctx, heard)
		return err
	})
	return swept, err
}

// Seal implements [queue.Line].
func (s *Standby) Seal(ctx context.Context) error {
	return s.reaching(func() error { return s.Line.Seal(ctx) })
}

// Arrive implements [queue.Line].
func (s *Standby) Arrive(ctx context.Context, came []queue.Completion) error {
	return s.reaching(func() error { return s.Line.Arrive(ctx, came) })
}

// Spend implements [queue.Line].
func (s *Standby) Spend(ctx context.Context, used []queue.Completion) error {
	for _, c := range used {
		s.bypass.end(c.TicketID, queue.Spent)
	}
	return s.reaching(func() error { return s.Line.Spend(ctx, used) })
}

// Restart implements [queue.Line].
func (s *Standby) Restart(ctx context.Context) (epoch int64, err error) {
	err = s.reaching(func() error {
		epoch, err = s.Line.Restart(ctx)
		return err
	})
	return epoch, err
}

// reaching calls a store that is not known to be away.
func (s *Standby) reaching(call func() error) error {
	if s.away.Load() {
		return errAway
	}
	return call()
}
