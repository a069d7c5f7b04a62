package queue

import (
	"math"
	"time"
)

const (
	// movementWindow is how far back movement is measured.
	movementWindow = 30 * time.Second
	// movementBucket is how much measured time one sample of the pace holds: long
	// beside a tick, so that single batches do not show.
	movementBucket = time.Second
	// movementMin is the least measured time an estimate is made from.
	movementMin = 2 * time.Second
	// rangeWidth is how many standard deviations the range spans to each side:
	// nine visitors in ten should be let in within it.
	rangeWidth = 1.645
)

// Movement is how fast the head of the line has been moving lately: admissions
// and visitors gone away together, since both shorten the way of everybody
// behind them. Only time in which somebody waited counts, so that an idle line
// does not look like a slow one.
type Movement struct {
	// PerSecond is the mean pace, in places per second.
	PerSecond float64
	// Spread is the standard deviation of the places moved in one second.
	Spread float64
	// Measured is how much time the two figures rest on, at most 30 s.
	Measured time.Duration
}

// Estimate is a wait as a range.
type Estimate struct {
	// Expected is position ÷ pace; nine waits in ten should end between Low
	// and High, if the line goes on as it did.
	Expected, Low, High time.Duration
}

// Estimate says how long the visitor at position (1 is next) will wait. ok is
// false until movement was measured for two seconds, and when the line stands
// still: no figure is better than an invented one.
//
// With pace r, spread s and measured time M, the expected wait is T = p ÷ r.
// The places moved in T vary by s·√T around r·T (a random walk with drift),
// and r itself is only known to s ÷ √M, which is s·T ÷ √M after T. Divided by r
// the two give the standard deviation of the wait (first-order error
// propagation; as in the central limit theorem of renewal processes, Cox 1962):
//
//	σ = s ÷ r × √(T + T² ÷ M)
func (m Movement) Estimate(position int64) (e Estimate, ok bool) {
	if position < 1 || m.Measured < movementMin || !(m.PerSecond > 0) {
		return Estimate{}, false
	}
	wait := float64(position) / m.PerSecond
	sigma := m.Spread / m.PerSecond * math.Sqrt(wait+wait*wait/m.Measured.Seconds())
	return Estimate{
		Expected: seconds(wait),
		Low:      seconds(max(0, wait-rangeWidth*sigma)),
		High:     seconds(wait + rangeWidth*sigma),
	}, true
}

// Estimate says how long the visitor at position will wait if the line goes on as
// it did ([Movement.Estimate]). ok is false also while nobody can be let in, which
// nothing measured before says anything about: paused, not open, recovering.
func (v View) Estimate(position int64) (e Estimate, ok bool) {
	override := v.Settings.RateOverride
	if v.Settings.Paused || v.Recovering() || v.Phase() != PhaseOpen || override != nil && *override == 0 {
		return Estimate{}, false
	}
	return v.Movement.Estimate(position)
}

// seconds is s as a duration; what does not fit becomes the longest there is.
func seconds(s float64) time.Duration {
	if ns := s * float64(time.Second); ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return math.MaxInt64
}

// meter measures movement from one snapshot to the next.
type meter struct {
	last   *Snapshot
	closed []bucket // oldest first, each of at least movementBucket
	open   bucket
}

// bucket is a stretch of measured time.
type bucket struct {
	span  time.Duration
	moved int64     // places
	end   time.Time // the store's time
}

// observe takes the next snapshot in and returns the movement measured so far.
func (m *meter) observe(s Snapshot) Movement {
	prev := m.last
	m.last = &s
	if prev == nil || !continues(*prev, s) {
		m.closed, m.open = nil, bucket{}
		return Movement{}
	}
	if prev.Waiting > 0 && s.Waiting > 0 {
		m.open.span += s.At.Sub(prev.At)
		m.open.moved += moved(*prev, s)
		m.open.end = s.At
		if m.open.span >= movementBucket {
			m.closed = append(m.closed, m.open)
			m.open = bucket{}
		}
	}
	old := s.At.Add(-movementWindow)
	for len(m.closed) > 0 && m.closed[0].end.Before(old) {
		m.closed = m.closed[1:]
	}
	if m.open.end.Before(old) {
		m.open = bucket{}
	}
	return movement(m.closed)
}

// continues reports whether two readings are of one stretch of movement. What
// an operator did to the pace, a new epoch, or a store that forgot what it had
// counted starts a new one: the old pace says nothing about what comes.
func continues(a, b Snapshot) bool {
	gap := b.At.Sub(a.At)
	return a.Epoch == b.Epoch && b.Admitted >= a.Admitted && samePace(a.Settings, b.Settings) &&
		gap >= 0 && gap <= movementWindow
}

// samePace compares the settings that decide how fast the line moves.
func samePace(a, b Settings) bool {
	same := a.Paused == b.Paused && a.Mode == b.Mode && a.MaxActive == b.MaxActive
	if a.RateOverride == nil || b.RateOverride == nil {
		return same && a.RateOverride == b.RateOverride
	}
	return same && *a.RateOverride == *b.RateOverride
}

// moved is how many places the line moved between two readings. Whoever comes
// back to an old place moves it the other way; it is never less than nothing,
// because the away are also given up one day, which moves nobody.
func moved(a, b Snapshot) int64 {
	return max(0, b.Admitted-a.Admitted+b.Away-a.Away)
}

// movement sums buckets up: the mean pace, and the variance per second as the
// mean of the squared deviations, each scaled to its own span.
func movement(buckets []bucket) Movement {
	var span time.Duration
	var places int64
	for _, b := range buckets {
		span += b.span
		places += b.moved
	}
	if len(buckets) < 2 {
		return Movement{Measured: span}
	}
	pace := float64(places) / span.Seconds()
	var variance float64
	for _, b := range buckets {
		off := float64(b.moved) - pace*b.span.Seconds()
		variance += off * off / b.span.Seconds()
	}
	return Movement{
		PerSecond: pace,
		Spread:    math.Sqrt(variance / float64(len(buckets)-1)),
		Measured:  span,
	}
}
