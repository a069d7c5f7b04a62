package memqueue

import (
	"context"
	"time"

	"sluice/queue"
)

const (
	// markEvery is the least time between two markings, zoneShrinks the part of the
	// zone that it loses at most with one, and mostGivenUp bounds the away places that
	// one sweep gives up: all as in redisqueue, where they are explained.
	markEvery   = 500 * time.Millisecond
	zoneShrinks = 16
	mostGivenUp = 1000
	// unswept is after how long without a sweep nobody counts as having listened.
	unswept = 5 * time.Second
)

// attendance is what the line knows about who is heard.
type attendance struct {
	swept     int64 // µs; the last sweep
	listening int64 // µs; since when silence counts
	marked    int64 // µs; the last marking
	marking   int64 // its number
	zone      int64 // positions from the head in which silence matters
}

// lapse is when an away place is given up, unless its holder came back.
type lapse struct {
	holder *holder
	at     int64 // µs
}

// Sweep implements [queue.Line].
func (l *Line) Sweep(_ context.Context, heard []queue.Heard) (queue.Swept, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now-l.swept > unswept.Microseconds() {
		l.listening = now
	}
	l.listenAnew(now)
	l.swept = now
	for _, v := range heard {
		if h := l.holders[v.Subject]; h != nil {
			h.due = now + v.Told.Microseconds()
		}
	}
	silence := l.opts.Told.Longest() + l.opts.Grace
	l.zone = min(max(int64(2*l.batch.rate*silence.Seconds()), l.zone, queue.MinZone), queue.MaxZone)
	s := queue.Swept{Zone: l.zone}
	if now-l.marked >= markEvery.Microseconds() {
		s.Away = l.markSilent(l.zone, now)
		l.zone -= l.zone / zoneShrinks
	}
	s.GivenUp = l.giveUpLapsed(now)
	return s, nil
}

// listenAnew counts silence from now on if the line does not move: who waits in
// front of a closed door may look away.
func (l *Line) listenAnew(now int64) {
	if l.standstill(now) != "" {
		l.listening = now
	}
}

// markSilent takes those of the zone out of the order whose poll is overdue, and
// returns how many.
func (l *Line) markSilent(zone, now int64) int64 {
	told, grace := l.opts.Told.Longest().Microseconds(), l.opts.Grace.Microseconds()
	l.marked = now
	l.marking++
	var silent []*holder
	for k := range l.waiting.all() {
		if zone--; zone < 0 {
			break
		}
		h := l.holders[k.subject]
		if h.zoned != l.marking-1 {
			h.due = now + told // only now does anybody listen for them
		}
		h.zoned = l.marking
		if now > max(h.due, l.listening+told)+grace {
			silent = append(silent, h)
		}
	}
	for _, h := range silent {
		l.unplace(h)
		h.where = away
		l.gone++
		l.away.insert(h.key())
	}
	return int64(len(silent))
}

// giveUpLapsed ends away places that the head has passed for long enough, and
// returns how many.
func (l *Line) giveUpLapsed(now int64) int64 {
	for l.away.len() > 0 && l.away.first().place <= l.head {
		h := l.holders[l.away.popFirst().subject]
		h.lapse = now + l.opts.KeepPlace.Microseconds()
		l.lapsing = append(l.lapsing, lapse{h, h.lapse})
	}
	before := l.counts.givenUp
	for len(l.lapsing) > 0 && l.lapsing[0].at <= now && l.counts.givenUp-before < mostGivenUp {
		h, at := l.lapsing[0].holder, l.lapsing[0].at
		l.lapsing = l.lapsing[1:]
		if h.where == away && h.lapse == at {
			l.giveUp(h, now)
		}
	}
	return l.counts.givenUp - before
}

func (l *Line) giveUp(h *holder, now int64) {
	l.end(h, queue.Expired, now)
	l.counts.givenUp++
}
