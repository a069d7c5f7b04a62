package queue

import (
	"context"
	"errors"
	"regexp"
	"time"
)

var (
	// ErrUnavailable means that the store of the line did not answer. Nothing
	// is known about what it did; every method is safe to call again.
	ErrUnavailable = errors.New("queue: the line's store is unavailable")
	// ErrFull means that the line has reached its maximum length and the
	// visitor holds no place in it.
	ErrFull = errors.New("queue: the line is full")
	// ErrEpoch means that the ticket belongs to an earlier epoch of the line.
	ErrEpoch = errors.New("queue: the ticket belongs to an earlier epoch")
)

// lineID is what a line may be called: it becomes part of store keys, cookie
// names and token audiences.
var lineID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidID reports whether id may name a line.
func ValidID(id string) bool { return lineID.MatchString(id) }

// State is what the line knows about a visitor.
type State string

// The states of a visitor. Waiting and Admitted are live; Spent, Expired, Left
// and Removed are the ends of a ticket, after which Enter gives a new one.
const (
	Waiting  State = "waiting"
	Admitted State = "admitted"
	Spent    State = "spent"   // ordered with the admission
	Expired  State = "expired" // the admission ran out unused, or an away place was given up
	Left     State = "left"    // gave the place up
	Removed  State = "removed" // taken out by an operator
)

// Live reports whether a visitor in this state still holds something.
func (s State) Live() bool { return s == Waiting || s == Admitted }

// Line is one waiting line. Implementations keep these rules:
//
//   - Every method is safe for concurrent use by any number of processes that
//     share a store, and safe to repeat when an answer was lost.
//   - A method that cannot reach its store returns an error that wraps
//     [ErrUnavailable] and respects the context's deadline.
//   - Order and expiry are decided on the store's clock alone.
//   - Nothing of it runs on when its calls have returned, but for the end of a
//     call that its caller gave up.
type Line interface {
	// ID is the line's name.
	ID() string

	// Enter gives the visitor a place at the tail, or finds the one they have.
	//
	// held is the ticket that the visitor presented, already verified, or nil.
	// A held ticket that is live, away or unknown to the store keeps its place
	// exactly as in [Line.Standing]; one that has ended or is of an earlier
	// epoch gives way to a new ticket at the tail. Without a held ticket the
	// subject alone decides. Standing.Created tells a new place from an old one.
	//
	// Errors: [ErrFull] when a new place would exceed Settings.MaxLength.
	Enter(ctx context.Context, subject string, held *Ticket) (Standing, error)

	// Standing tells where the holder of a verified ticket stands. It is the
	// hot path: for somebody who simply waits it costs one round trip.
	//
	// Re-insertion: a ticket the store has no record of, or that is away,
	// returns to its signed place. Of two tickets of one subject the earlier
	// place and its ticket id win, and the other ticket maps to it.
	//
	// Errors: [ErrEpoch] for a ticket of an earlier epoch. A ticket of a later
	// epoch than the store's proves that the store has lost its memory; the
	// later epoch is adopted.
	Standing(ctx context.Context, t Ticket) (Standing, error)

	// Leave gives up the place of a verified ticket, waiting or admitted. It
	// is not an error if there is none left. A token that is out stays good, and
	// counts as inside, until its own expiry.
	Leave(ctx context.Context, t Ticket) error

	// Remove takes a subject out of the line on an operator's word and reports
	// whether they held anything. As for Leave, a token that is out stays good.
	Remove(ctx context.Context, subject string) (bool, error)

	// MarkAway takes waiting subjects out of the order because they stopped
	// polling; their tickets bring them back to their old places.
	MarkAway(ctx context.Context, subjects []string) error

	// Admit lets in one batch from the head: at most one batch per tick,
	// however many processes call. rate is in admissions per second. The
	// batch is rate × time since the last batch, the fraction carried over,
	// never more than two ticks' worth. Paused, RateOverride, MaxActive and
	// Mode are read from the line's settings in the same step. A rate that
	// [ValidRate] refuses is an error, and nothing happens.
	Admit(ctx context.Context, rate float64) (Batch, error)

	// Spend records that admissions were used for an order. A ticket that the
	// store does not know (it was emptied meanwhile) is recorded as spent too.
	Spend(ctx context.Context, used []Completion) error

	// Snapshot reads the line's figures and settings.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Configure applies an operator's change and returns the new settings. The
	// revision becomes max(old + 1, the store's time in ms).
	Configure(ctx context.Context, p Patch) (Settings, error)

	// Restart empties the line and raises its epoch to max(old + 1, the
	// store's time in ms). Settings stay. Tickets and admissions of the
	// earlier epoch are dead.
	Restart(ctx context.Context) (epoch int64, err error)
}

// Standing is what the line says about one visitor.
type Standing struct {
	State State
	// Ticket is the ticket that holds the place: the visitor's own, or, when a
	// visitor has two, the earlier one. Its IssuedAt and ExpiresAt are zero.
	Ticket Ticket
	// Created is true when Enter made a new place.
	Created bool
	// Position is 1 for the visitor who is next, while waiting.
	Position int64
	// Length is how many wait in the line, while waiting.
	Length int64
	// Admission is set while admitted.
	Admission Admission
}

// Admission is a visitor let in: the record an admission token is signed from.
type Admission struct {
	Line     string
	Epoch    int64
	Subject  string
	TicketID string
	Place    int64
	// AdmittedAt, NotBefore and ExpiresAt are on the store's clock, in whole
	// milliseconds.
	AdmittedAt time.Time
	NotBefore  time.Time
	ExpiresAt  time.Time
}

// Batch is the outcome of one Admit.
type Batch struct {
	// Skipped is true when this tick already had its batch.
	Skipped bool
	// Admitted are those let in, in place order.
	Admitted []Admission
	// LimitedBy is what kept the batch from being larger.
	LimitedBy LimitedBy
	// Rate is what was applied, in admissions per second: the caller's, or the
	// operator's override.
	Rate float64
	// Dropped is how many permits a stall swallowed since the last batch.
	Dropped float64
	// At is the batch's time on the store's clock.
	At time.Time
}

// LimitedBy names what bounds a batch.
type LimitedBy string

// What can bound a batch.
const (
	LimitedByCapacity    LimitedBy = "capacity"
	LimitedByBacklog     LimitedBy = "backlog"
	LimitedByMaxActive   LimitedBy = "max_active"
	LimitedByOverride    LimitedBy = "override"
	LimitedByPaused      LimitedBy = "paused"
	LimitedByRecovering  LimitedBy = "recovering"
	LimitedByNoOneWaits  LimitedBy = "no_one_waiting"
	LimitedByPassthrough LimitedBy = "passthrough"
)

// Completion says that an order was committed with an admission.
type Completion struct {
	Subject  string
	TicketID string
}

// Snapshot is the line at one moment.
type Snapshot struct {
	Line     string
	Epoch    int64
	Settings Settings
	// Waiting is the length of the line; Inside is how many admissions may be in
	// use, also of visitors who left with a token; Away is how many stopped polling and may return.
	Waiting, Inside, Away int64
	// Admitted counts the admissions of this epoch, Spent the ones used for an
	// order, Expired the ones that ran out.
	Admitted, Spent, Expired int64
	// Dropped counts the permits that stalls swallowed in this epoch.
	Dropped float64
	// Rate and LimitedBy are those of the last batch; empty before the first.
	Rate      float64
	LimitedBy LimitedBy
	// At is the store's time of the reading.
	At time.Time
}
