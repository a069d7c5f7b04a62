package redisqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
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
	visits *visits
	keys   keys

	follower *follower

	// clock is the last reading of the store's; nil before the first.
	clock atomic.Pointer[reading]

	// deaf is whether the last round of the sweep failed, or a batch since. A store may
	// well do what it is told and not be heard, when it or the network is slow: then polls
	// fail as well, and who is taken for silent has been asking all the time. A batch tells
	// it too, since it is asked for also when nobody sweeps because the store is away.
	deaf atomic.Bool

	// known is replaced by [Line.remember] and never changed in place, and floor (µs) stands
	// apart from it: every enter reads the one and raises the other, and none waits for
	// another's.
	known atomic.Pointer[memory]
	floor atomic.Int64
}

// memory is what a process remembers of the line, to put it back after a loss.
type memory struct {
	// knew is whether this process has known the line, now or before its restart,
	// and created (ms) the incarnation of the store it knew, 0 if it does not know.
	knew    bool
	created int64
	// lostAt (ms) is the loss that this process has answered with its own hold.
	lostAt   int64
	epoch    int64
	settings queue.Settings
	// settled is whether the settings were the line's at some time, and not only
	// what this process was born with.
	settled bool
}

// learn takes in the line's settings, unless later ones are known.
func (m *memory) learn(s queue.Settings) {
	if s.Revision >= m.settings.Revision {
		m.settings, m.settled = s, true
	}
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
	l := &Line{
		id: lineID, opts: opts, client: client, keys: keys,
		reads: newReads(client, keys.waiting, keys.meta), visits: newVisits(client, keys.all), follower: newFollower(),
	}
	l.known.Store(known(opts))
	return l, nil
}

func known(opts queue.Options) *memory {
	m := &memory{settings: opts.Initial}
	if k := opts.Known; k != nil {
		m.knew, m.epoch = true, k.Epoch
		if !k.Created.IsZero() {
			m.created = k.Created.UnixMilli()
		}
		if k.Settings.Revision > 0 {
			m.learn(k.Settings)
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

// Standing implements [queue.Line]. Somebody who simply waits is found in the copy of
// the places ([Line.Follow]) or, near the head, with plain reads in a shared pipeline: the subject standing at the ticket's own place
// proves that it is this ticket that waits, since no two tickets of one subject have
// the same place. Two subjects may: places are drawn, or made by an instance while the
// store is away; their order is that of the subjects. Everything
// else goes through the script that knows all the rules.
func (l *Line) Standing(ctx context.Context, t queue.Ticket) (queue.Standing, error) {
	if s, ok := l.copiedStanding(t); ok {
		l.follower.answered.Add(1)
		return s, nil
	}
	l.follower.asked.Add(1)
	r, err := l.reads.find(ctx, t.Subject)
	if err != nil {
		return queue.Standing{}, unavailable("reading a position", err)
	}
	place := placeOf(t, r.draw)
	phase, known := l.phase(r.draw)
	if !r.found || r.place != place || !known {
		return l.visit(ctx, t.Subject, &t, "")
	}
	s := waiting(t, place, r.rank, r.length)
	switch phase {
	case queue.PhaseScheduled:
		s.State, s.Position = queue.Scheduled, 0
	case queue.PhaseClosed:
		s.State, s.Position, s.Length = queue.Closed, 0, 0
	}
	return s, nil
}

// placeOf is the place that a ticket is for, signed or drawn.
func placeOf(t queue.Ticket, d draw) int64 {
	if t.Early() {
		return queue.DrawPlace(d.seed, t.ID)
	}
	return t.Place
}

// waiting is the standing of the holder of a ticket who waits at its place.
func waiting(t queue.Ticket, place, ahead, length int64) queue.Standing {
	t.IssuedAt, t.ExpiresAt = time.Time{}, time.Time{}
	if !t.Early() {
		t.EnteredAt = queue.EnteredAt(place)
	}
	return queue.Standing{State: queue.Waiting, Ticket: t, Position: ahead + 1, Length: length}
}

// phase is the phase of a schedule now; known is false if there is one, and this
// process has not read the store's clock yet.
func (l *Line) phase(d draw) (phase queue.Phase, known bool) {
	if d.opensAt == "" && d.closesAt == "" {
		return queue.PhaseOpen, true
	}
	clock := l.clock.Load()
	if clock == nil {
		return "", false
	}
	s := queue.Settings{OpensAt: moment(d.opensAt), ClosesAt: moment(d.closesAt)}
	return s.Phase(clock.now()), true
}

// draws bounds how often a visit is tried when the seed that its places were
// drawn from turns out to be another one than the line's.
const draws = 3

func (l *Line) visit(ctx context.Context, subject string, held *queue.Ticket, newID string) (queue.Standing, error) {
	for range draws {
		seed := l.known.Load().settings.Seed
		reply, err := l.runVisit(ctx, l.visitArgs(subject, held, newID, seed))
		if err != nil {
			return queue.Standing{}, err
		}
		l.follower.touch(subject)
		r := values(reply)
		switch state := r.text(0); state {
		case "epoch":
			return queue.Standing{}, queue.ErrEpoch
		case "full":
			return queue.Standing{}, queue.ErrFull
		case "shut":
			return queue.Standing{}, queue.ErrClosed
		case "seed":
			// The line has another one, or none: it is told ours, or makes one.
			if err := l.open(ctx); err != nil {
				return queue.Standing{}, err
			}
			if _, err := l.Snapshot(ctx); err != nil {
				return queue.Standing{}, err
			}
		default:
			return l.standing(queue.State(state), subject, r), nil
		}
	}
	return queue.Standing{}, fmt.Errorf("%w: visiting: the draw keeps changing", queue.ErrUnavailable)
}

func (l *Line) visitArgs(subject string, held *queue.Ticket, newID, seed string) []any {
	var heldID string
	var heldEpoch, heldPlace, heldEntered, drawn int64
	early := false
	if held != nil {
		heldID, heldEpoch, heldPlace, early = held.ID, held.Epoch, held.Place, held.Early()
		heldEntered = enteredMS(*held)
		if early {
			heldPlace = queue.DrawPlace(seed, heldID)
		}
	}
	if newID != "" && seed != "" {
		drawn = queue.DrawPlace(seed, newID)
	}
	return []any{
		subject, heldID, heldEpoch, heldPlace, heldEntered, flag(early), newID, drawn, seed,
		rand.Float64(), l.opts.Jitter.Milliseconds(), l.opts.AdmissionTTL.Milliseconds(), l.ticketTTL(), l.hold(),
	}
}

// enteredMS is when a ticket was given; a signed place says it itself.
func enteredMS(t queue.Ticket) int64 {
	if t.Early() {
		return t.EnteredAt.UnixMilli()
	}
	return t.Place / 1000
}

func (l *Line) standing(state queue.State, subject string, r values) queue.Standing {
	place, entered := r.int(4), r.int(5)
	s := queue.Standing{
		State: state, Created: r.int(1) == 1,
		Ticket: queue.Ticket{Line: l.id, Epoch: r.int(2), Subject: subject, ID: r.text(3)},
	}
	switch {
	case entered > 0:
		s.Ticket.EnteredAt = time.UnixMilli(entered)
	case place > 0:
		s.Ticket.Place, s.Ticket.EnteredAt = place, queue.EnteredAt(place)
	}
	switch state {
	case queue.Waiting:
		s.Position, s.Length = r.int(6), r.int(7)
	case queue.Scheduled:
		s.Length = r.int(7)
	case queue.Admitted:
		s.Admission = queue.Admission{
			Line: l.id, Epoch: s.Ticket.Epoch, Subject: subject, TicketID: s.Ticket.ID, Place: place,
			AdmittedAt: time.UnixMilli(r.int(6)), NotBefore: time.UnixMilli(r.int(7)), ExpiresAt: time.UnixMilli(r.int(8)),
		}
	}
	l.raiseFloor(s.Ticket.Place)
	if m := l.known.Load(); !m.knew || m.epoch < s.Ticket.Epoch {
		l.remember(func(m *memory) { m.knew, m.epoch = true, max(m.epoch, s.Ticket.Epoch) })
	}
	return s
}

// Leave implements [queue.Line].
func (l *Line) Leave(ctx context.Context, t queue.Ticket) error {
	defer l.follower.touch(t.Subject)
	return l.run(ctx, leaveScript, "leaving", t.Subject, "left", l.ticketTTL(), t.ID, t.Epoch,
		enteredMS(t), flag(t.Early()), t.Place, l.hold()).Err()
}

// Remove implements [queue.Line].
func (l *Line) Remove(ctx context.Context, subject string) (bool, error) {
	defer l.follower.touch(subject)
	n, err := l.run(ctx, leaveScript, "removing a visitor", subject, "removed", l.ticketTTL(), "", 0, 0, "0", 0, 0).Int()
	return n == 1, err
}

// maxHeard bounds how many subjects one call of the sweep takes in.
const maxHeard = 1000

// Sweep implements [queue.Line]. The last call of a round marks: by then everybody
// heard is noted.
func (l *Line) Sweep(ctx context.Context, heard []queue.Heard) (queue.Swept, error) {
	deaf := l.deaf.Swap(false)
	for {
		chunk := heard[:min(maxHeard, len(heard))]
		heard = heard[len(chunk):]
		args := append(make([]any, 0, 8+2*len(chunk)), l.opts.Told.Longest().Milliseconds(), l.opts.Grace.Milliseconds(),
			l.opts.KeepPlace.Milliseconds(), l.ticketTTL(), queue.MinZone, queue.MaxZone, flag(len(heard) > 0), flag(deaf))
		for _, h := range chunk {
			args = append(args, h.Told.Milliseconds(), h.Subject)
		}
		reply, err := l.run(ctx, sweepScript, "sweeping", args...).Slice()
		if err != nil {
			l.deaf.Store(true)
			return queue.Swept{}, err
		}
		if r := values(reply); len(heard) == 0 {
			return queue.Swept{Zone: r.int(0), Away: r.int(1), GivenUp: r.int(2)}, nil
		}
	}
}

// perScript bounds how many completions or records one script takes in, some 0.1 ms of
// Redis's time: whoever enters meanwhile waits for it. With 500 a script took some 5 ms;
// beside 7,500 orders a second the p95 of an enter was 3.5 ms with 50, 2.7 with 10 and is
// 2.4 with 5 (make bench-isolation, the halves apart). A process tells one script after
// the other, so no more than 5 in a round trip.
const perScript = 5

// Arrive implements [queue.Line].
func (l *Line) Arrive(ctx context.Context, came []queue.Completion) error {
	return inChunks(came, perScript, func(chunk []queue.Completion) error {
		args := make([]any, len(chunk))
		for i, c := range chunk {
			args[i] = c.TicketID
		}
		return l.run(ctx, arriveScript, "recording arrivals", args...).Err()
	})
}

// Spend implements [queue.Line].
func (l *Line) Spend(ctx context.Context, used []queue.Completion) error {
	return inChunks(used, perScript, func(chunk []queue.Completion) error {
		args := make([]any, 1, 1+2*len(chunk))
		args[0] = l.ticketTTL()
		for _, c := range chunk {
			args = append(args, c.Subject, c.TicketID)
		}
		return l.run(ctx, spendScript, "recording spent admissions", args...).Err()
	})
}

// Adopt implements [queue.Line].
func (l *Line) Adopt(s queue.Settings) { l.remember(func(k *memory) { k.learn(s) }) }

// Record implements [queue.Line].
func (l *Line) Record(ctx context.Context, given []queue.Admission) error {
	return inChunks(given, perScript, func(chunk []queue.Admission) error {
		args := append(make([]any, 0, 2+7*len(chunk)), l.ticketTTL(), l.hold())
		for _, a := range chunk {
			args = append(args, a.Epoch, a.Subject, a.TicketID, a.Place,
				a.AdmittedAt.UnixMilli(), a.NotBefore.UnixMilli(), a.ExpiresAt.UnixMilli())
		}
		err := l.run(ctx, recordScript, "recording what was given without the line", args...).Err()
		for _, a := range chunk {
			l.follower.touch(a.Subject)
		}
		return err
	})
}

// Admit implements [queue.Line].
func (l *Line) Admit(ctx context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if err := queue.ValidRate(rate); err != nil {
		return queue.Batch{}, err
	}
	reply, err := l.run(ctx, admitScript, "admitting", float(rate), l.opts.Tick.Microseconds(),
		l.opts.Jitter.Milliseconds(), l.opts.AdmissionTTL.Milliseconds(), l.ticketTTL(), rand.Int32(), string(why)).Slice()
	if err != nil {
		l.deaf.Store(true)
		return queue.Batch{}, err
	}
	r := values(reply)
	at := time.UnixMicro(r.int(4))
	b := queue.Batch{
		Skipped: r.int(0) == 1, LimitedBy: queue.LimitedBy(r.text(1)), Rate: r.float(2), Dropped: r.float(3), At: at,
	}
	if since := r.int(6); since != 0 {
		b.Since = time.UnixMicro(since)
	}
	epoch := r.int(5)
	for i := 7; i+4 < len(reply); i += 5 {
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
	defer l.follower.touchAll()
	epoch, err := l.run(ctx, restartScript, "restarting", s.Epoch, queue.NewSeed()).Int64()
	if err != nil {
		return 0, err
	}
	l.remember(func(m *memory) { m.epoch = max(m.epoch, epoch) })
	return epoch, nil
}

func (l *Line) ticketTTL() int64 {
	return int64((l.opts.TicketTTL + time.Second - 1) / time.Second) // s, rounded up
}

// remember puts what update makes of the memory in its place; update may be called
// again, when somebody else was quicker.
func (l *Line) remember(update func(*memory)) {
	for {
		old := l.known.Load()
		next := *old
		update(&next)
		if l.known.CompareAndSwap(old, &next) {
			return
		}
	}
}

func (l *Line) raiseFloor(place int64) {
	for floor := l.floor.Load(); floor < place; floor = l.floor.Load() {
		if l.floor.CompareAndSwap(floor, place) {
			return
		}
	}
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
