package admission

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/queue"
)

// bypass lets visitors in without the line, each instance by itself: at its part of the
// rate, within what the operator allows, in the order in which they happen to ask.
//
// What it goes by is the last view of the line, and what it does must still be right once
// the line is back: a newcomer's place is behind all that were given before, a ticket let
// in is remembered until the line knows it.
type bypass struct {
	line    string
	options queue.Options
	watch   *queue.Watch
	steady  func() Steady

	// floor is the last place that is known to be given, in µs.
	floor atomic.Int64

	// pending is how many of the passes are not recorded: what everybody looks at who goes
	// to the line itself.
	pending atomic.Int64

	mu      sync.Mutex
	limiter *rate.Limiter // guarded by mu
	passes  passes        // guarded by mu
	// newcomers are those who were given a place here and were not let in since; since is
	// the first of those places, 0 without. Both guarded by mu.
	newcomers, since int64
}

func newBypass(cfg StandbyConfig) *bypass {
	return &bypass{
		line: cfg.Line.ID(), options: cfg.Options, watch: cfg.Watch, steady: cfg.Steady,
		limiter: rate.NewLimiter(0, 0), passes: newPasses(),
	}
}

// saw notes a place that the line has given.
func (b *bypass) saw(place int64) {
	for old := b.floor.Load(); place > old; old = b.floor.Load() {
		if b.floor.CompareAndSwap(old, place) {
			return
		}
	}
}

// enter gives what [queue.Line.Enter] would, as far as it can be known.
func (b *bypass) enter(subject string, held *queue.Ticket) (queue.Standing, error) {
	view, ok := b.watch.View()
	if !ok {
		return queue.Standing{}, ErrBlocked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.watch.Now()
	if held != nil {
		if p := b.passes.of(held.ID); held.Epoch < view.Epoch || p != nil && p.state(now) != queue.Admitted {
			held = nil
		}
	}
	if p := b.passes.live(subject, held, view.Epoch, now); p != nil {
		return p.standing(now), nil
	}
	if view.Settings.Phase(now) == queue.PhaseClosed {
		return queue.Standing{}, queue.ErrClosed
	}
	if held != nil {
		return b.stand(view, *held, now), nil
	}
	t := queue.Ticket{Line: b.line, Epoch: view.Epoch, Subject: subject, ID: queue.NewID(), EnteredAt: now.Truncate(time.Millisecond)}
	if view.Settings.Phase(now) == queue.PhaseOpen {
		t.Place = b.nextPlace(now)
		t.EnteredAt = queue.EnteredAt(t.Place)
	}
	st := b.stand(view, t, now)
	if st.State != queue.Admitted {
		if most := view.Settings.MaxLength; most > 0 && view.Waiting+b.newcomers >= most {
			return queue.Standing{}, queue.ErrFull
		}
		b.newcomers++
		if b.since == 0 {
			b.since = t.Place
		}
		st.Length = view.Waiting + b.newcomers
	}
	st.Created = true
	return st, nil
}

// standing tells what [queue.Line.Standing] would, as far as it can be known. That a
// ticket has ended is known of those that were let in here.
func (b *bypass) standing(t queue.Ticket) (queue.Standing, error) {
	view, ok := b.watch.View()
	switch {
	case !ok:
		return queue.Standing{}, ErrBlocked
	case t.Epoch < view.Epoch:
		return queue.Standing{}, queue.ErrEpoch
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.watch.Now()
	if p := b.passes.live(t.Subject, &t, view.Epoch, now); p != nil {
		return p.standing(now), nil
	}
	if p := b.passes.of(t.ID); p != nil {
		return p.standing(now), nil
	}
	return b.stand(view, t, now), nil
}

// stand lets the holder of a ticket in if that is possible now; otherwise they wait. The
// caller holds mu.
func (b *bypass) stand(view queue.View, t queue.Ticket, now time.Time) queue.Standing {
	t.IssuedAt, t.ExpiresAt = time.Time{}, time.Time{}
	st := queue.Standing{State: queue.Waiting, Ticket: t, Length: max(1, view.Waiting+b.newcomers)}
	switch phase := view.Settings.Phase(now); {
	case phase == queue.PhaseClosed:
		st.State, st.Length = queue.Closed, 0
	case phase == queue.PhaseScheduled:
		st.State = queue.Scheduled
	case b.mayPass(view, now):
		if b.since > 0 && t.Place >= b.since {
			b.newcomers = max(0, b.newcomers-1)
		}
		p := b.passes.give(b.letIn(view.Settings, t, now), t)
		b.pending.Store(b.passes.unrecorded())
		return p.standing(now)
	}
	return st
}

// mayPass takes a permit if there is one. The caller holds mu.
func (b *bypass) mayPass(view queue.View, now time.Time) bool {
	set, steady := view.Settings, b.steady()
	queues := int64(max(1, steady.Queues))
	if set.Paused || now.Before(view.HoldUntil) {
		return false
	}
	if set.MaxActive > 0 {
		// Who was inside at the last look may be until the last admission of then must
		// have run out.
		inside := view.Inside
		if now.Sub(view.At) > b.options.Jitter+b.options.AdmissionTTL {
			inside = 0
		}
		if (set.MaxActive-inside)/queues-b.passes.uncounted(view.At, now) < 1 {
			return false
		}
	}
	perSecond := steady.Rate
	if set.RateOverride != nil {
		perSecond = *set.RateOverride
	}
	return b.permit(min(perSecond, queue.MaxRate) / float64(queues))
}

// permit is true as often per second, in a burst of two ticks' worth at most. The caller
// holds mu.
func (b *bypass) permit(perSecond float64) bool {
	if !(perSecond > 0) {
		return false
	}
	burst := max(1, int(2*perSecond*b.options.Tick.Seconds()))
	if limit := rate.Limit(perSecond); limit != b.limiter.Limit() || burst != b.limiter.Burst() {
		if b.limiter.Limit() == 0 {
			b.limiter = rate.NewLimiter(limit, burst)
		} else {
			b.limiter.SetLimit(limit)
			b.limiter.SetBurst(burst)
		}
	}
	return b.limiter.Allow()
}

// letIn is the admission of a ticket, like one of a batch of one.
func (b *bypass) letIn(set queue.Settings, t queue.Ticket, now time.Time) queue.Admission {
	at := time.UnixMilli(now.UnixMilli())
	notBefore := at.Add(time.Duration(float64(b.options.Jitter) * rand.Float64())).Truncate(time.Millisecond)
	a := queue.Admission{
		Line: b.line, Epoch: t.Epoch, Subject: t.Subject, TicketID: t.ID, Place: t.Place,
		AdmittedAt: at, NotBefore: notBefore, ExpiresAt: notBefore.Add(b.options.AdmissionTTL),
	}
	if t.Early() {
		a.Place = queue.DrawPlace(set.Seed, t.ID)
	}
	return a
}

// nextPlace is behind all that are known: the time, as the line would give it. Instances
// that cannot see each other must not give the same, so each gives those that leave
// another remainder. The caller holds mu.
func (b *bypass) nextPlace(now time.Time) int64 {
	steady := b.steady()
	place := max(now.UnixMicro(), b.floor.Load()+1)
	if n := int64(steady.Queues); n > 1 {
		place += ((int64(steady.Index)-place)%n + n) % n
	}
	b.saw(place)
	return place
}

// promises reports whether there may be somebody whom promised knows, which is seldom so.
func (b *bypass) promises() bool { return b.pending.Load() > 0 }

// promised is where a visitor stands who was let in here, and whom the line does not know
// to be in yet. Whoever asks holds a ticket; whoever enters may hold none, and gets a new
// one if theirs has ended.
func (b *bypass) promised(subject string, held *queue.Ticket, entering bool) (queue.Standing, bool) {
	view, _ := b.watch.View()
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.watch.Now()
	if held != nil && held.Epoch < view.Epoch {
		return queue.Standing{}, false
	}
	p := b.passes.live(subject, held, view.Epoch, now)
	if p == nil && !entering {
		p = b.passes.of(held.ID)
	}
	if p == nil || p.number < b.passes.recorded {
		return queue.Standing{}, false
	}
	return p.standing(now), true
}

// next are the oldest admissions that the line does not know, and the number that those
// behind them begin with.
func (b *bypass) next(most int) (chunk []queue.Admission, below int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.passes.next(most)
}

// taken notes that the line knows those below a number.
func (b *bypass) taken(below int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passes.taken(below, b.watch.Now())
	b.pending.Store(b.passes.unrecorded())
}

func (b *bypass) stats() StandbyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return StandbyStats{Bypassed: b.passes.given, Unrecorded: b.passes.unrecorded(), Forgotten: b.passes.forgotten}
}

// end notes that a ticket which was let in here has ended.
func (b *bypass) end(ticketID string, how queue.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.passes.of(ticketID); p != nil && p.ended == "" {
		p.ended = how
	}
}

// endSubject is end for what a subject holds.
func (b *bypass) endSubject(subject string, how queue.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.passes.bySubject[subject]; p != nil && p.ended == "" {
		p.ended = how
	}
}

// over forgets what only a bypass needs, once the line answers again and knows everybody
// who was let in.
func (b *bypass) over() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.passes.unrecorded() > 0 {
		return
	}
	b.newcomers, b.since = 0, 0
	b.passes.clear()
}
