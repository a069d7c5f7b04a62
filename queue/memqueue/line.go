package memqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/queue"
)

// Line is a line in this process. See [queue.Line] for its contract; the
// store's clock is this machine's, and no method ever fails to reach it.
type Line struct {
	id   string
	opts queue.Options
	born time.Time // with its monotonic reading

	mu sync.Mutex // guards everything below
	// The store: its incarnation, when it was found to have lost its memory (0 is
	// never), and until when nobody is admitted because of that.
	created, lostAt, holdUntil int64 // µs; created in whole ms
	// quiet is true of a line that goes on after a clean stop at which nobody waited:
	// how earlier tickets ended is forgotten, and yet nothing was lost.
	quiet    bool
	epoch    int64
	floor    int64 // the last place given, µs
	settings queue.Settings
	people
	attendance
	batch struct {
		at int64 // µs
		// from and till are the last stall: the last batch before it and the first
		// moment after it that was noticed, in µs.
		from, till int64
		carry      float64
		rate       float64
		by         queue.LimitedBy
	}
}

// people is everything that ends with an epoch.
type people struct {
	waiting  order
	holders  map[string]*holder // by subject: waiting, away or admitted
	admitted map[string]*holder // by ticket id: live admissions
	inside   expiries           // admissions by expiry; those ended before are skipped
	slots    map[string]bool    // ticket ids of admissions whose token may be in use
	ended    map[string]ending  // by ticket id
	forget   []remembered       // ended, in the order in which they are forgotten
	aliases  map[string]string  // ticket id → the earlier one of the same subject
	aliased  int64              // µs; until when the aliases are remembered
	early    map[string]int64   // ticket ids of the draw → entry time, ms
	undrawn  bool               // somebody has held a place that was not drawn
	head     int64              // the highest place admitted
	away     order              // away places that the head has not passed
	lapsing  []lapse            // those it has, in the order in which they are given up
	gone     int64              // how many are away
	cohorts  []queue.Cohort     // oldest first
	lag      time.Duration
	timed    bool // lag is of somebody: an order of an unknown admission has none
	counts   struct {
		admitted, arrived, spent, expired, left, givenUp, bypassed int64
		dropped                                                    float64
	}
}

// holder is somebody who holds something.
type holder struct {
	subject  string
	ticketID string
	place    int64 // drawn or in µs
	entered  int64 // ms; of an early ticket, otherwise 0
	where    where
	lapse    int64 // µs; when an away place is given up, 0 if the head has not passed it
	due      int64 // µs; when the next poll is due; of those in the zone
	zoned    int64 // the marking that found it in the zone last
	// Of the admission, which is nil while waiting or away:
	admission *queue.Admission
	fetched   int64 // ms; 0 until it was told
	arrived   bool
	bypassed  bool // given without the line
}

// where a holder stands.
type where byte

const (
	nowhere where = iota // also: inside
	inLine
	away
)

func (h *holder) key() key { return key{h.place, h.subject} }

// ending is how a ticket ended, and what is known of it.
type ending struct {
	state             queue.State
	until             int64 // µs
	place             int64
	admitted, fetched int64 // ms
	arrived, bypassed bool
}

type remembered struct {
	id    string
	until int64
}

var _ queue.Line = (*Line)(nil)

// New makes an empty line of that name. One that this process is known to have
// held before has lost its memory, unless nobody waited at a clean stop.
func New(lineID string, opts queue.Options) (*Line, error) {
	if !queue.ValidID(lineID) {
		return nil, fmt.Errorf("memqueue: %q is not a line id", lineID)
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("memqueue: line %s: %w", lineID, err)
	}
	l := &Line{id: lineID, opts: opts, born: time.Now(), settings: opts.Initial}
	now := l.now()
	l.created = now / 1000 * 1000
	epoch := int64(0)
	if known := opts.Known; known != nil {
		epoch = known.Epoch
		if known.Settings.Revision > 0 {
			l.settings = known.Settings
		}
		switch {
		case !known.Quiet:
			l.lose(now)
		case !known.Created.IsZero():
			// Nothing was lost: the incarnation goes on, and the tickets of before,
			// which all have ended, prove nothing. Those from before an earlier loss
			// neither, or whoever kept one could hold the line up after each start.
			l.created, l.quiet = known.Created.UnixMicro(), true
		}
	}
	l.beginEpoch(epoch)
	if l.settings.Seed == "" && ahead(l.settings.OpensAt, now) {
		// Born with an opening time. The revision makes the seed known to the next
		// start: it must stay.
		l.settings.Seed, l.settings.Revision = queue.NewSeed(), l.nextRevision(now)
	}
	return l, nil
}

// ID is the line's name.
func (l *Line) ID() string { return l.id }

// Enter implements [queue.Line].
func (l *Line) Enter(_ context.Context, subject string, held *queue.Ticket) (queue.Standing, error) {
	return l.visit(subject, held, true)
}

// Standing implements [queue.Line].
func (l *Line) Standing(_ context.Context, t queue.Ticket) (queue.Standing, error) {
	return l.visit(t.Subject, &t, false)
}

// visit holds the rules of who may be put back where. They are the same, in the
// same order, as in redisqueue's visit.lua.
func (l *Line) visit(subject string, held *queue.Ticket, entering bool) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	phase := l.settings.Phase(time.UnixMicro(now))
	var id string
	if held != nil {
		l.judge(*held, now)
		switch {
		case held.Epoch == l.epoch:
			id = l.earliest(held.ID)
		case !entering:
			return queue.Standing{}, queue.ErrEpoch
		}
	}
	if e, over := l.endOf(id, now); over {
		if !entering {
			return l.endStanding(e.state, subject, id), nil
		}
		id = ""
	}

	h := l.holders[subject]
	if h != nil && l.over(h, now) {
		if id == h.ticketID {
			if !entering {
				return l.endStanding(queue.Expired, subject, id), nil
			}
			id = ""
		}
		h = nil
	}
	if entering && phase == queue.PhaseClosed && (h == nil || h.admission == nil) {
		return queue.Standing{}, queue.ErrClosed
	}

	if h != nil && held != nil && held.ID == h.ticketID && held.Early() && h.entered == 0 {
		h.entered = held.EnteredAt.UnixMilli() // recorded as let in by somebody who did not know
		l.early[h.ticketID] = h.entered
	}
	created := false
	switch {
	case h != nil && id != "" && id != h.ticketID:
		l.oneOfTwo(h, id, *held, now)
	case h == nil && id != "":
		h = &holder{subject: subject}
		l.hold(h, id, *held)
	case h == nil:
		length := l.waiting.len()
		if l.settings.MaxLength > 0 && length >= l.settings.MaxLength && (!entering || !l.mayPass(length, now)) {
			return queue.Standing{}, queue.ErrFull
		}
		h = l.newcomer(subject, phase, now)
		created = true
	}
	if h.admission == nil {
		l.place(h, now)
		if entering && l.mayPass(l.waiting.rank(h.key()), now) {
			l.unplace(h)
			l.letIn(h, now, rand.Float64())
		}
	}
	s := l.standing(h, phase, now)
	s.Created = created
	return s, nil
}

// over ends what a holder's time has run out for, before a sweep or a batch does.
func (l *Line) over(h *holder, now int64) bool {
	switch {
	case h.admission != nil && ranOut(h.admission, now):
		l.expire(now)
		return ranOut(h.admission, now)
	case h.where == away && h.lapse != 0 && h.lapse <= now:
		l.giveUp(h, now)
	default:
		return false
	}
	return true
}

// newcomer is a holder with a new ticket.
func (l *Line) newcomer(subject string, phase queue.Phase, now int64) *holder {
	h := &holder{subject: subject, ticketID: queue.NewID()}
	if phase == queue.PhaseScheduled {
		h.place, h.entered = queue.DrawPlace(l.settings.Seed, h.ticketID), now/1000
	} else {
		h.place = max(now, l.floor+1)
	}
	return h
}

// hold gives a holder the place of a ticket, whose id is given: it may be that of
// an earlier ticket which the presented one maps to.
func (l *Line) hold(h *holder, id string, t queue.Ticket) {
	h.ticketID, h.place, h.entered = id, l.placeOf(t), 0
	if t.Early() {
		h.entered = t.EnteredAt.UnixMilli()
	}
}

func (l *Line) placeOf(t queue.Ticket) int64 {
	if t.Early() {
		return queue.DrawPlace(l.settings.Seed, t.ID)
	}
	return t.Place
}

// oneOfTwo settles which ticket of a subject counts: the earlier place and its id,
// and never another than the one admitted with.
func (l *Line) oneOfTwo(h *holder, id string, t queue.Ticket, now int64) {
	if h.admission != nil || l.placeOf(t) >= h.place {
		l.alias(id, h.ticketID, now)
		return
	}
	l.alias(h.ticketID, id, now)
	l.unplace(h)
	l.hold(h, id, t)
}

// place puts a holder into the order, if they are not in it.
func (l *Line) place(h *holder, now int64) {
	if h.where == inLine {
		return
	}
	l.unplace(h)
	if h.entered > 0 {
		l.early[h.ticketID] = h.entered
	} else {
		l.undrawn = true
		l.floor = max(l.floor, h.place)
	}
	h.where, h.zoned = inLine, -1 // what was heard at an earlier place counts no more
	l.holders[h.subject] = h
	l.waiting.insert(h.key())
}

// unplace takes a holder out of wherever they stand.
func (l *Line) unplace(h *holder) {
	switch h.where {
	case inLine:
		l.waiting.remove(h.key())
	case away:
		l.gone--
		if h.lapse == 0 {
			l.away.remove(h.key())
		}
		h.lapse = 0
	}
	h.where = nowhere
}

// mayPass: in passthrough whoever enters goes straight in, if the cap on people
// inside leaves room for them and for everybody in front of them.
func (l *Line) mayPass(ahead, now int64) bool {
	s := l.settings
	return s.Mode == queue.ModePassthrough && l.standstill(now) == "" &&
		(s.MaxActive == 0 || int64(len(l.slots))+ahead < s.MaxActive)
}

func (l *Line) standing(h *holder, phase queue.Phase, now int64) queue.Standing {
	s := queue.Standing{
		State:  queue.Waiting,
		Ticket: queue.Ticket{Line: l.id, Epoch: l.epoch, Subject: h.subject, ID: h.ticketID},
	}
	if h.entered > 0 {
		s.Ticket.EnteredAt = time.UnixMilli(h.entered)
	} else {
		s.Ticket.Place, s.Ticket.EnteredAt = h.place, queue.EnteredAt(h.place)
	}
	switch {
	case h.admission != nil:
		s.State, s.Admission = queue.Admitted, *h.admission
		if h.fetched == 0 {
			h.fetched = now / 1000
		}
	case phase == queue.PhaseClosed:
		s.State = queue.Closed
	case phase == queue.PhaseScheduled:
		s.State, s.Length = queue.Scheduled, l.waiting.len()
	default:
		s.Position, s.Length = l.waiting.rank(h.key())+1, l.waiting.len()
	}
	return s
}

func (l *Line) endStanding(state queue.State, subject, id string) queue.Standing {
	return queue.Standing{State: state, Ticket: queue.Ticket{Line: l.id, Epoch: l.epoch, Subject: subject, ID: id}}
}

// Leave implements [queue.Line].
func (l *Line) Leave(_ context.Context, t queue.Ticket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.judge(t, now)
	if t.Epoch < l.epoch {
		return nil
	}
	id := l.earliest(t.ID)
	if _, over := l.endOf(id, now); over {
		return nil // how it ended stays as it was
	}
	// A ticket ends its own place only: it may be so old that its own end is
	// forgotten, and its visitor has another place since.
	if h := l.holders[t.Subject]; h != nil && h.ticketID == id {
		l.end(h, queue.Left, now)
		return nil
	}
	if t.Early() && id == t.ID {
		l.early[id] = t.EnteredAt.UnixMilli() // who drew and left has drawn
	}
	l.rememberEnd(id, ending{state: queue.Left, place: l.placeOf(t)}, now)
	return nil
}

// Remove implements [queue.Line].
func (l *Line) Remove(_ context.Context, subject string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[subject]
	if h == nil {
		return false, nil
	}
	l.end(h, queue.Removed, l.now())
	return true, nil
}

// now is the line's time in µs: the wall clock as it was when the line was made,
// and the monotonic clock since. When somebody sets this machine's clock, no
// admission runs out early and no tick is lost.
func (l *Line) now() int64 { return l.born.Add(time.Since(l.born)).UnixMicro() }
