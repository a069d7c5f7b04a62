package memqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/queue"
)

// Snapshot implements [queue.Line].
func (l *Line) Snapshot(context.Context) (queue.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := queue.Snapshot{
		Line: l.id, Epoch: l.epoch, Created: time.UnixMicro(l.created), Settings: l.settings,
		Waiting: l.waiting.len(), Inside: int64(len(l.slots)), Away: l.gone,
		Admitted: l.counts.admitted, Arrived: l.counts.arrived, Spent: l.counts.spent, Expired: l.counts.expired,
		Left: l.counts.left, GivenUp: l.counts.givenUp, Bypassed: l.counts.bypassed,
		Dropped: l.counts.dropped, Rate: l.batch.rate, LimitedBy: l.batch.by,
		Cohorts: slices.Clone(l.cohorts), Lag: l.lag,
		Head: l.head, Last: l.floor,
		At: time.UnixMicro(l.now()),
	}
	if l.holdUntil != 0 {
		s.HoldUntil = time.UnixMicro(l.holdUntil)
	}
	return s, nil
}

// Adopt implements [queue.Line].
func (l *Line) Adopt(s queue.Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Revision > l.settings.Revision {
		l.listenAnew(l.now())
		l.settings = s
	}
}

// Configure implements [queue.Line].
func (l *Line) Configure(_ context.Context, p queue.Patch) (queue.Settings, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == (queue.Patch{}) {
		return l.settings, nil
	}
	now := l.now()
	next := l.settings.Apply(p)
	if p.OpensAt != nil && ahead(next.OpensAt, now) {
		opened := !ahead(l.settings.OpensAt, now)
		if l.undrawn || opened && len(l.early) > 0 {
			return queue.Settings{}, fmt.Errorf("memqueue: line %s: %w", l.id, queue.ErrStarted)
		}
		if opened {
			// An earlier seed is public since then: whoever knew it could enter
			// until the place pleases.
			next.Seed, next.TicketsSHA256 = queue.NewSeed(), ""
		}
	}
	l.listenAnew(now) // also a pause between two sweeps counts
	next.Revision = l.nextRevision(now)
	l.settings = next
	return l.settings, nil
}

func (l *Line) nextRevision(now int64) int64 { return max(l.settings.Revision+1, now/1000) }

// Seal implements [queue.Line].
func (l *Line) Seal(context.Context) error {
	l.mu.Lock()
	epoch, seed, ready := l.epoch, l.settings.Seed, l.sealable()
	var ids []string
	if ready {
		ids = make([]string, 0, len(l.early))
		for id := range l.early {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	if !ready {
		return nil
	}
	hash := queue.HashTickets(ids) // a million take a second: nobody waits for that
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealable() && l.epoch == epoch && l.settings.Seed == seed {
		l.settings.TicketsSHA256, l.settings.Revision = hash, l.nextRevision(l.now())
	}
	return nil
}

// sealable reports whether the draw is over, complete, and not sealed.
func (l *Line) sealable() bool {
	now := l.now()
	return l.settings.Seed != "" && l.settings.TicketsSHA256 == "" && now >= l.holdUntil && !ahead(l.settings.OpensAt, now)
}

// Restart implements [queue.Line].
func (l *Line) Restart(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.beginEpoch(max(l.epoch+1, now/1000))
	l.lostAt, l.holdUntil = 0, 0
	l.redraw(now)
	return l.epoch, nil
}

// redraw gives a new epoch its draw, if it is still to open. The revision makes it
// win over what anybody remembers of the last.
func (l *Line) redraw(now int64) {
	seed := ""
	if ahead(l.settings.OpensAt, now) {
		seed = queue.NewSeed()
	}
	if seed != l.settings.Seed {
		l.settings.Seed, l.settings.TicketsSHA256, l.settings.Revision = seed, "", l.nextRevision(now)
	}
}

// beginEpoch forgets everybody; settings and the floor of places stay.
func (l *Line) beginEpoch(epoch int64) {
	l.epoch = epoch
	l.people = people{
		holders: map[string]*holder{}, admitted: map[string]*holder{}, slots: map[string]bool{},
		ended: map[string]ending{}, aliases: map[string]string{}, early: map[string]int64{},
	}
	l.batch.carry, l.batch.rate, l.batch.by = 0, 0, ""
}
