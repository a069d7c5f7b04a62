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

	mu       sync.Mutex // guards everything below
	epoch    int64
	floor    int64 // the last place given, µs
	settings queue.Settings
	waiting  order
	away     int64
	holders  map[string]*holder // by subject: waiting, away or admitted
	admitted map[string]*holder // by ticket id: live admissions
	inside   expiries           // admissions by expiry; those ended before are skipped
	slots    map[string]bool    // ticket ids of admissions whose token may be in use
	ended    map[string]ending  // by ticket id
	forget   []remembered       // ended, in the order in which they are forgotten
	aliases  map[string]string  // ticket id → the earlier one of the same subject
	aliased  int64              // µs; until when the aliases are remembered
	batch    struct {
		at    int64 // µs
		carry float64
		rate  float64
		by    queue.LimitedBy
	}
	counts struct {
		admitted, spent, expired int64
		dropped                  float64
	}
}

// holder is somebody who holds something.
type holder struct {
	subject  string
	ticketID string
	place    int64
	away     bool
	// admission is nil while waiting or away.
	admission *queue.Admission
}

type ending struct {
	state queue.State
	until int64 // µs
}

type remembered struct {
	id    string
	until int64
}

var _ queue.Line = (*Line)(nil)

// New makes an empty line of that name.
func New(lineID string, opts queue.Options) (*Line, error) {
	if !queue.ValidID(lineID) {
		return nil, fmt.Errorf("memqueue: %q is not a line id", lineID)
	}
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("memqueue: line %s: %w", lineID, err)
	}
	l := &Line{id: lineID, opts: opts, born: time.Now(), settings: opts.Initial}
	if opts.Known != nil {
		opts.Initial.Revision = 0
		l.beginEpoch(opts.Known.Epoch)
		if opts.Known.Settings.Revision > 0 {
			l.settings = opts.Known.Settings
		}
	} else {
		l.beginEpoch(0)
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
	var id string
	if held != nil {
		switch {
		case held.Epoch > l.epoch:
			l.beginEpoch(held.Epoch)
			id = held.ID
		case held.Epoch == l.epoch:
			id = held.ID
		case !entering:
			return queue.Standing{}, queue.ErrEpoch
		}
	}
	if id != "" {
		id = l.earliest(id)
		if state, over := l.endOf(id, now); over {
			if !entering {
				return l.endStanding(state, subject, id), nil
			}
			id = ""
		}
	}

	h := l.holders[subject]
	if h != nil && h.admission != nil && ranOut(h.admission, now) {
		l.endAdmission(h, queue.Expired, now)
		if id == h.ticketID {
			if !entering {
				return l.endStanding(queue.Expired, subject, id), nil
			}
			id = ""
		}
		h = nil
	}

	created := false
	switch {
	case h != nil && id != "" && id != h.ticketID:
		if h.admission == nil && held.Place < h.place {
			l.alias(h.ticketID, id, now)
			l.unplace(h)
			h.ticketID, h.place = id, held.Place
		} else {
			l.alias(id, h.ticketID, now)
		}
	case h == nil && id != "":
		h = &holder{subject: subject, ticketID: id, place: held.Place}
	case h == nil:
		length := l.waiting.len()
		if l.settings.MaxLength > 0 && length >= l.settings.MaxLength && !l.mayPass(entering, length) {
			return queue.Standing{}, queue.ErrFull
		}
		h = &holder{subject: subject, ticketID: queue.NewID(), place: max(now, l.floor+1)}
		created = true
	}
	if h.admission == nil {
		l.floor = max(l.floor, h.place)
		l.place(h)
		if l.mayPass(entering, l.waiting.rank(h.place)) {
			l.waiting.remove(h.place)
			l.letIn(h, now, rand.Float64())
		}
	}
	s := l.standing(h)
	s.Created = created
	return s, nil
}

// place puts a holder into the order, if they are not in it.
func (l *Line) place(h *holder) {
	if l.holders[h.subject] == h && !h.away {
		l.waiting.remove(h.place) // idempotent: the same place again
	}
	if h.away {
		h.away = false
		l.away--
	}
	l.holders[h.subject] = h
	l.waiting.insert(h.place, h.subject)
}

// unplace takes a waiting or away holder out of the order.
func (l *Line) unplace(h *holder) {
	if h.away {
		h.away = false
		l.away--
		return
	}
	l.waiting.remove(h.place)
}

// mayPass: in passthrough whoever enters goes straight in, if the cap on people
// inside leaves room for them and for everybody in front of them.
func (l *Line) mayPass(entering bool, ahead int64) bool {
	s := l.settings
	return entering && s.Mode == queue.ModePassthrough && !s.Paused &&
		(s.MaxActive == 0 || int64(len(l.slots))+ahead < s.MaxActive)
}

func (l *Line) standing(h *holder) queue.Standing {
	s := queue.Standing{
		State:  queue.Waiting,
		Ticket: queue.Ticket{Line: l.id, Epoch: l.epoch, Subject: h.subject, ID: h.ticketID, Place: h.place},
	}
	if h.admission != nil {
		s.State, s.Admission = queue.Admitted, *h.admission
		return s
	}
	s.Position, s.Length = l.waiting.rank(h.place)+1, l.waiting.len()
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
	if t.Epoch < l.epoch {
		return nil
	}
	if t.Epoch > l.epoch {
		l.beginEpoch(t.Epoch)
	}
	id := l.earliest(t.ID)
	if _, over := l.endOf(id, now); over {
		return nil // how it ended stays as it was
	}
	// A ticket ends its own place only: it may be so old that its own end is
	// forgotten, and its visitor has another place since.
	if h := l.holders[t.Subject]; h != nil && h.ticketID == id {
		l.end(h, queue.Left, now)
	} else {
		l.rememberEnd(id, queue.Left, now)
	}
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
func (l *Line) Spend(_ context.Context, used []queue.Completion) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, c := range used {
		if h := l.admitted[c.TicketID]; h != nil {
			l.endAdmission(h, queue.Spent, now)
			continue
		}
		delete(l.slots, c.TicketID)
		if state, over := l.endOf(c.TicketID, now); over && state == queue.Spent {
			continue
		}
		if h := l.holders[c.Subject]; h != nil && h.ticketID == c.TicketID {
			l.end(h, queue.Spent, now)
		}
		l.rememberEnd(c.TicketID, queue.Spent, now)
		l.counts.spent++
	}
	return nil
}

// Snapshot implements [queue.Line].
func (l *Line) Snapshot(context.Context) (queue.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return queue.Snapshot{
		Line: l.id, Epoch: l.epoch, Settings: l.settings,
		Waiting: l.waiting.len(), Inside: int64(len(l.slots)), Away: l.away,
		Admitted: l.counts.admitted, Spent: l.counts.spent, Expired: l.counts.expired,
		Dropped: l.counts.dropped, Rate: l.batch.rate, LimitedBy: l.batch.by,
		At: time.UnixMicro(l.now()),
	}, nil
}

// Configure implements [queue.Line].
func (l *Line) Configure(_ context.Context, p queue.Patch) (queue.Settings, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == (queue.Patch{}) {
		return l.settings, nil
	}
	revision := max(l.settings.Revision+1, l.now()/1000)
	l.settings = l.settings.Apply(p)
	l.settings.Revision = revision
	return l.settings, nil
}

// Restart implements [queue.Line].
func (l *Line) Restart(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginEpoch(max(l.epoch+1, l.now()/1000))
	return l.epoch, nil
}

// beginEpoch forgets everybody; settings and the floor of places stay.
func (l *Line) beginEpoch(epoch int64) {
	l.epoch = epoch
	l.waiting, l.away = order{}, 0
	l.holders, l.admitted = map[string]*holder{}, map[string]*holder{}
	l.inside, l.slots = nil, map[string]bool{}
	l.ended, l.forget = map[string]ending{}, nil
	l.aliases = map[string]string{}
	l.counts.admitted, l.counts.spent, l.counts.expired, l.counts.dropped = 0, 0, 0, 0
	l.batch.carry, l.batch.rate, l.batch.by = 0, 0, ""
}

// now is the line's time in µs: the wall clock as it was when the line was made,
// and the monotonic clock since. When somebody sets this machine's clock, no
// admission runs out early and no tick is lost.
func (l *Line) now() int64 { return l.born.Add(time.Since(l.born)).UnixMicro() }
