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
	// ErrClosed means that the line has closed: nobody takes a place any more.
	ErrClosed = errors.New("queue: the line is closed")
	// ErrStarted means that the opening time cannot be moved into the future any
	// more: somebody holds a place that was not drawn.
	ErrStarted = errors.New("queue: the line has started")
)

// lineID is what a line may be called: it becomes part of store keys, cookie
// names and token audiences.
var lineID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidID reports whether id may name a line.
func ValidID(id string) bool { return lineID.MatchString(id) }

// State is what the line knows about a visitor.
type State string

// The states of a visitor. Scheduled, Waiting, Closed and Admitted hold
// something; Spent, Expired, Left and Removed are the ends of a ticket, after
// which Enter gives a new one.
const (
	Scheduled State = "scheduled" // in the draw of a line that has not opened
	Waiting   State = "waiting"
	Closed    State = "closed" // holds a place in a line that has closed since
	Admitted  State = "admitted"
	Spent     State = "spent"   // ordered with the admission
	Expired   State = "expired" // the admission ran out unused, or an away place was given up
	Left      State = "left"    // gave the place up
	Removed   State = "removed" // taken out by an operator
)

// Live reports whether a visitor in this state waits or may buy.
func (s State) Live() bool { return s == Scheduled || s == Waiting || s == Admitted }

// Line is one waiting line. Implementations keep these rules:
//
//   - Every method is safe for concurrent use by any number of processes that
//     share a store, and safe to repeat when an answer was lost.
//   - A method that cannot reach its store returns an error that wraps
//     [ErrUnavailable] and respects the context's deadline.
//   - Order and expiry are decided on the store's clock alone.
//   - Nothing of it runs on when its calls have returned, but for the end of a
//     call that its caller gave up.
//
// Loss. A line remembers, in this process, the incarnation of its store that it
// knew ([Snapshot].Created), the epoch, the floor of places and the settings. A
// store that has another incarnation, or none, has lost its memory; so has one
// whose incarnation is younger than a genuine ticket it has no record of. Then
// what was known is put back (never an older revision over a newer one; of equal
// ones the larger hash wins, but a draw still to open that was announced before the
// loss stands) and nobody is admitted until the longest interval that anybody was
// told ([Told]) plus Options.RecoveryHold has passed since, at most [MaxHold]: every
// client raises that end to what it told itself. A store loses its memory once per
// incarnation, or once more after a restart and when a draw is put back, however many
// old tickets follow. A process that never knew the line and finds none creates it,
// open at once.
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
	// Before Settings.OpensAt a new ticket is an early one: its place is drawn
	// ([DrawPlace]) and not shown, and the state is Scheduled.
	//
	// Errors: [ErrFull] when a new place would exceed Settings.MaxLength,
	// [ErrClosed] once Settings.ClosesAt has passed, but for somebody admitted.
	Enter(ctx context.Context, subject string, held *Ticket) (Standing, error)

	// Standing tells where the holder of a verified ticket stands. It is the
	// hot path: for somebody who simply waits it costs one round trip.
	//
	// Re-insertion: a ticket the store has no record of, or that is away,
	// returns to its signed place, an early one to its drawn place. Of two
	// tickets of one subject the earlier place and its ticket id win, and the
	// other ticket maps to it.
	//
	// The first Standing that tells an admission notes the time: it is the
	// record's FetchedAt. One that ran out in a stall ([StallAfter]) and that nobody had
	// been told of is given anew: nobody's turn passes while they cannot ask.
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

	// Sweep takes in who was heard lately and takes those out of the order who
	// have fallen silent near the head, so that they use up no admission; their
	// tickets bring them back to their old places. Each process that answers
	// polls calls it once a second, also with nobody heard.
	//
	// Silent is who polls later than they were told to, by more than Options.Grace.
	// Who has just come near the head counts as told the longest interval that any
	// process told in the last two minutes, and so does everybody from the last time
	// that the line was paused, recovering, not open, or swept by nobody for five
	// seconds. The zone near the head is what the line would admit in twice the
	// longest silence, that interval and Options.Grace, at the rate of the last
	// batch, between [MinZone] and [MaxZone] positions: whoever has gone before they
	// enter it is found silent half-way, and not when it is their turn. When the rate
	// falls it shrinks by a sixteenth every half a second at most: with a rate that
	// shakes, those further behind would never be in it for long enough.
	//
	// Somebody away whose place the head has passed for Options.KeepPlace is
	// given up: the record becomes Expired.
	//
	// Whoever is marked away although they polled loses nothing: their next
	// poll puts them back, and the next batch lets them in.
	Sweep(ctx context.Context, heard []Heard) (Swept, error)

	// Admit lets in one batch from the head: at most one batch per tick,
	// however many processes call. rate is in admissions per second, and why is
	// what bounds it. The batch is rate × time since the last batch, the fraction
	// carried over, never more than two ticks' worth. Opening and closing time,
	// the hold after a loss, Paused, RateOverride, MaxActive and Mode are read
	// from the line in the same step. A rate that [ValidRate] refuses is an
	// error, and nothing happens.
	//
	// With [LimitedByBlock] as why it lets nobody in, takes no tick from anybody, and
	// is skipped: it only shows whether the store takes a batch. So asks who is not
	// heard: whoever it let in would not learn it, and lose their turn.
	Admit(ctx context.Context, rate float64, why LimitedBy) (Batch, error)

	// Arrive notes that holders of admissions have come to order, whatever
	// comes of it; each admission counts once. It is how the line learns what
	// share of the admitted comes, and how long they take ([Snapshot].Cohorts,
	// Lag). Unknown and ended admissions count for nothing.
	Arrive(ctx context.Context, came []Completion) error

	// Spend records that admissions were used for an order. A ticket that the
	// store does not know (it was emptied meanwhile) is recorded as spent too.
	// Whoever spends has arrived.
	Spend(ctx context.Context, used []Completion) error

	// Record notes admissions that were given without the line, in [ModeBypass] or while
	// its store was away: each takes its visitor out of the order and counts as let in, at
	// the time it was, and ends when it runs out, or at once if it has. The head does not
	// move by it, and its [Record] says Bypassed.
	//
	// One of an earlier epoch, or whose ticket has an admission or has ended already,
	// changes nothing; but one that is known to be spent and no more gets the rest of its
	// record. Another ticket of the visitor maps to it, unless that one has a live
	// admission, to which this one maps, or was given after this one had run out.
	Record(ctx context.Context, given []Admission) error

	// Adopt takes in settings that an operator changed while the store was away. A later
	// revision than the store's is put back into it with the next Snapshot that reaches it.
	Adopt(s Settings)

	// Snapshot reads the line's figures and settings.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Configure applies an operator's change and returns the new settings. The
	// revision becomes max(old + 1, the store's time in ms). An OpensAt in the
	// future makes the seed of the draw, unless one is ahead already: that keeps
	// its seed until it has passed or a restart. A seed that is public by then
	// draws nothing any more. Settings that a line is born with do the same.
	//
	// Errors: [ErrStarted].
	Configure(ctx context.Context, p Patch) (Settings, error)

	// Seal fixes Settings.TicketsSHA256 once the line has opened, is not
	// recovering, and had a draw: the hash of the set of early tickets
	// ([HashTickets]). It does nothing otherwise, or if that is done. It may
	// take seconds.
	Seal(ctx context.Context) error

	// Restart empties the line and raises its epoch to max(old + 1, the
	// store's time in ms). Settings stay, but for the draw: a line that is still
	// to open gets a new seed, any other none, and a new revision with either, so
	// that nobody puts the old draw back. Tickets and admissions of the
	// earlier epoch are dead; with them ends a hold after a loss.
	Restart(ctx context.Context) (epoch int64, err error)

	// Export lists what is recorded of every ticket of this epoch, in the order
	// of places: those who hold something, those whose ticket has ended within
	// its lifetime, and all that took part in the draw. It holds all of them in
	// memory while it runs; the records of people who come and go meanwhile may be
	// from before or after.
	Export(ctx context.Context) ([]Record, error)
}

// Standing is what the line says about one visitor.
type Standing struct {
	State State
	// Ticket is the ticket that holds the place: the visitor's own, or, when a
	// visitor has two, the earlier one. Its IssuedAt and ExpiresAt are zero; an
	// early ticket has no Place.
	Ticket Ticket
	// Created is true when Enter made a new place.
	Created bool
	// Position is 1 for the visitor who is next, while waiting; 0 while nobody knows it,
	// because the line's store is away.
	Position int64
	// Length is how many wait in the line, while waiting or scheduled.
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

// Heard is a visitor who polled since the last Sweep.
type Heard struct {
	Subject string
	// Told is how long they were told to wait before the next poll.
	Told time.Duration
}

// Swept is the outcome of one Sweep.
type Swept struct {
	// Zone is how many positions from the head matter: only who polls from one
	// of them needs to be told to the next Sweep.
	Zone int64
	// Away is how many were taken out of the order, GivenUp how many away places
	// were given up.
	Away, GivenUp int64
}

// Record is what a line remembers of one ticket, for the audit. Times that are
// not known are zero.
type Record struct {
	TicketID string
	// Place is the sort key, drawn or in µs; 0 if the store has forgotten it.
	Place                            int64
	EnteredAt, AdmittedAt, FetchedAt time.Time
	// Outcome is Scheduled, Waiting, Admitted, or how the ticket ended; empty for a
	// ticket of the draw whose end is forgotten.
	Outcome State
	// Bypassed is true of one that was let in without the line ([Line.Record]).
	Bypassed bool
}

// Batch is the outcome of one Admit.
type Batch struct {
	// Skipped is true when this tick already had its batch, or was only asked about.
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
	// At is the batch's time on the store's clock; Since that of the batch before, zero
	// for the first, and when skipped.
	At, Since time.Time
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
	LimitedBySchedule    LimitedBy = "schedule" // not open yet, or closed
	LimitedByBlock       LimitedBy = "block"
	LimitedByBypass      LimitedBy = "bypass"
)

// Completion names the admission that an order was made with.
type Completion struct {
	Subject  string
	TicketID string
}

// Cohort is the visitors admitted within one second.
type Cohort struct {
	// Second is the Unix time of it, on the store's clock.
	Second int64
	// Admitted is how many were let in, Arrived how many of them have come to
	// order so far.
	Admitted, Arrived int64
}

// MaxCohorts is how many of the latest seconds with admissions are kept.
const MaxCohorts = 128

// Snapshot is the line at one moment.
type Snapshot struct {
	Line  string
	Epoch int64
	// Created is when the store began to know the line: its incarnation.
	Created time.Time
	// HoldUntil is until when nobody is admitted after a loss; zero without one.
	HoldUntil time.Time
	Settings  Settings
	// Waiting is the length of the line, with the early tickets of a draw; Inside
	// is how many admissions may be in use, also of visitors who left with a
	// token; Away is how many stopped polling and may return.
	Waiting, Inside, Away int64
	// Of this epoch: Admitted counts the admissions, Arrived those who came to
	// order, Spent the ones used for an order, Expired the ones that ran out;
	// Left counts who gave up or lost a place while waiting, GivenUp the away
	// places that were not come back for, Bypassed those of Admitted who were let in
	// without the line ([Line.Record]).
	Admitted, Arrived, Spent, Expired, Left, GivenUp, Bypassed int64
	// Dropped counts the permits that stalls swallowed in this epoch.
	Dropped float64
	// Rate and LimitedBy are those of the last batch; empty before the first.
	Rate      float64
	LimitedBy LimitedBy
	// Cohorts are the latest seconds with admissions, oldest first, at most
	// [MaxCohorts].
	Cohorts []Cohort
	// Lag is how long visitors take from their admission until they come to
	// order: a moving mean with a weight of 1/32 per arrival; 0 before the first.
	Lag time.Duration
	// Head is the highest place that was let in from the line in this epoch, Last the
	// last place that was given; 0 before the first. Places of a draw are below all
	// others.
	Head, Last int64
	// At is the store's time of the reading.
	At time.Time
}

// Recovering reports whether admission is on hold after a loss.
func (s Snapshot) Recovering() bool { return s.At.Before(s.HoldUntil) }

// Phase is the phase of the line's schedule.
func (s Snapshot) Phase() Phase { return s.Settings.Phase(s.At) }

// Reads is how a process answered the polls of a line: Copied from a copy of its places,
// Asked by asking its store. Places is how many the copy holds, and Renewed how often it
// did not continue the one before and was begun anew.
type Reads struct {
	Copied, Asked, Renewed, Places int64
}
