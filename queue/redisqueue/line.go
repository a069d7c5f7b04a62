package redisqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
)

// Line is a line in Redis. See [queue.Line] for its contract.
type Line struct {
	id     string
	opts   queue.Options
	client redis.UniversalClient
	reads  *reads
	keys   keys

	mu    sync.Mutex
	known memory // guarded by mu
}

// memory is what a process remembers of the line, to put it back after a loss.
type memory struct {
	epoch    int64
	floor    int64 // µs
	settings queue.Settings
}

var _ queue.Line = (*Line)(nil)

// New opens the line of that name; it does not connect yet. The client is
// shared by all lines and closed by its owner.
func New(client redis.UniversalClient, lineID string, opts queue.Options) (*Line, error) {
	if !queue.ValidID(lineID) {
		return nil, fmt.Errorf("redisqueue: %q is not a line id", lineID)
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("redisqueue: line %s: %w", lineID, err)
	}
	keys := keysOf(lineID)
	return &Line{
		id: lineID, opts: opts, client: client, keys: keys,
		reads: &reads{client: client, key: keys.waiting},
		known: known(opts),
	}, nil
}

func known(opts queue.Options) memory {
	m := memory{settings: opts.Initial}
	if k := opts.Known; k != nil {
		m.epoch = k.Epoch
		if k.Settings.Revision > 0 {
			m.settings = k.Settings
		}
	}
	return m
}

// ID is the line's name.
func (l *Line) ID() string { return l.id }

// Enter implements [queue.Line].
func (l *Line) Enter(ctx context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	return l.visit(ctx, subject, held, queue.NewID())
}

// Standing implements [queue.Line]. Somebody who simply waits is found with
// plain reads in a shared pipeline: a place is unique, so the subject standing at
// the ticket's own place proves that it is this ticket that waits. Everything
// else goes through the script that knows all the rules.
func (l *Line) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	r, err := l.reads.find(ctx, t.Subject)
	if err != nil {
		return queue.Standing{}, unavailable("reading a position", err)
	}
	if r.found && r.place == t.Place {
		t.IssuedAt, t.ExpiresAt = time.Time{}, time.Time{}
		return queue.Standing{State: queue.Waiting, Ticket: t, Position: r.rank + 1, Length: r.length}, nil
	}
	return l.visit(ctx, t.Subject, &t, "")
}

func (l *Line) visit(ctx context.Context, subject string, held *queue.Ticket, newID string) (queue.Standing, error) {
	var heldID string
	var heldEpoch, heldPlace int64
	if held != nil {
		heldID, heldEpoch, heldPlace = held.ID, held.Epoch, held.Place
	}
	reply, err := l.run(ctx, visitScript, "visiting", subject, heldID, heldEpoch, heldPlace, newID,
		rand.Float64(), l.opts.Jitter.Milliseconds(), l.opts.AdmissionTTL.Milliseconds(), l.ticketTTL()).Slice()
	if err != nil {
		return queue.Standing{}, err
	}
	r := values(reply)
	switch state := r.text(0); state {
	case "epoch":
		return queue.Standing{}, queue.ErrEpoch
	case "full":
		return queue.Standing{}, queue.ErrFull
	default:
		return l.standing(queue.State(state), subject, r)
	}
}

func (l *Line) standing(state queue.State, subject string, r values) (queue.Standing, error) {
	s := queue.Standing{
		State: state, Created: r.int(1) == 1,
		Ticket: queue.Ticket{Line: l.id, Epoch: r.int(2), Subject: subject, ID: r.text(3), Place: r.int(4)},
	}
	switch state {
	case queue.Waiting:
		s.Position, s.Length = r.int(5), r.int(6)
	case queue.Admitted:
		s.Admission = queue.Admission{
			Line: l.id, Epoch: s.Ticket.Epoch, Subject: subject, TicketID: s.Ticket.ID, Place: s.Ticket.Place,
			AdmittedAt: time.UnixMilli(r.int(5)), NotBefore: time.UnixMilli(r.int(6)), ExpiresAt: time.UnixMilli(r.int(7)),
		}
	}
	l.remember(func(m *memory) {
		m.epoch = max(m.epoch, s.Ticket.Epoch)
		m.floor = max(m.floor, s.Ticket.Place)
	})
	return s, nil
}

// Leave implements [queue.Line].
func (l *Line) Leave(ctx context.Context, t queue.Ticket) error {
	return l.run(ctx, leaveScript, "leaving", t.Subject, "left", l.ticketTTL(), t.ID, t.Epoch).Err()
}

// Remove implements [queue.Line].
func (l *Line) Remove(ctx context.Context, subject string) (bool, error) {
	n, err := l.run(ctx, leaveScript, "removing a visitor", subject, "removed", l.ticketTTL(), "", 0).Int()
	return n == 1, err
}

// Sweep implements [queue.Line].
func (l *Line) Sweep(context.Context, []string) (queue.Swept, error) {
	return queue.Swept{}, nil // STUB
}

// Arrive implements [queue.Line].
func (l *Line) Arrive(context.Context, []queue.Completion) error { return nil } // STUB

// Seal implements [queue.Line].
func (l *Line) Seal(context.Context) error { return nil } // STUB

// Export implements [queue.Line].
func (l *Line) Export(context.Context) ([]queue.Record, error) { return nil, nil } // STUB

// Spend implements [queue.Line].
func (l *Line) Spend(ctx context.Context, used []queue.Completion) error {
	return inChunks(used, 500, func(chunk []queue.Completion) error {
		args := make([]any, 1, 1+2*len(chunk))
		args[0] = l.ticketTTL()
		for _, c := range chunk {
			args = append(args, c.Subject, c.TicketID)
		}
		return l.run(ctx, spendScript, "recording spent admissions", args...).Err()
	})
}

// Admit implements [queue.Line].
func (l *Line) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if err := queue.ValidRate(rate); err != nil {
		return queue.Batch{}, err
	}
	reply, err := l.run(ctx, admitScript, "admitting", float(rate), l.opts.Tick.Microseconds(),
		l.opts.Jitter.Milliseconds(), l.opts.AdmissionTTL.Milliseconds(), l.ticketTTL(), rand.Int32()).Slice()
	if err != nil {
		return queue.Batch{}, err
	}
	r := values(reply)
	at := time.UnixMicro(r.int(4))
	b := queue.Batch{
		Skipped: r.int(0) == 1, LimitedBy: queue.LimitedBy(r.text(1)), Rate: r.float(2), Dropped: r.float(3), At: at,
	}
	epoch := r.int(5)
	for i := 6; i+4 < len(reply); i += 5 {
		b.Admitted = append(b.Admitted, queue.Admission{
			Line: l.id, Epoch: epoch, Subject: r.text(i), TicketID: r.text(i + 1), Place: r.int(i + 2),
			AdmittedAt: at.Truncate(time.Millisecond), NotBefore: time.UnixMilli(r.int(i + 3)), ExpiresAt: time.UnixMilli(r.int(i + 4)),
		})
	}
	return b, nil
}

// Restart implements [queue.Line].
func (l *Line) Restart(ctx context.Context) (int64, error) {
	s, err := l.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	epoch, err := l.run(ctx, restartScript, "restarting", s.Epoch).Int64()
	if err != nil {
		return 0, err
	}
	l.remember(func(m *memory) { m.epoch = max(m.epoch, epoch) })
	return epoch, nil
}

func (l *Line) ticketTTL() int64 {
	return int64((l.opts.TicketTTL + time.Second - 1) / time.Second) // s, rounded up
}

func (l *Line) remember(update func(*memory)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	update(&l.known)
}

func inChunks[T any](all []T, size int, do func([]T) error) error {
	for len(all) > 0 {
		n := min(size, len(all))
		if err := do(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
