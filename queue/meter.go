package queue

import (
	"math"
	"slices"
	"time"
)

const (
	// movementWindow is how far back movement is measured.
	movementWindow = 30 * time.Second
	// movementBucket is how much measured time one sample of the pace holds: long
	// beside a tick, so that single batches do not show.
	movementBucket = time.Second
	// paceBlock is how many samples are compared at a time to find where the present
	// pace began, and the fewest it is told from: with two, an uneven line forgets
	// too much of what it knew; with five, a fall is told seconds late.
	paceBlock = 3
	// paceShare and paceSigmas are how far two stretches of one pace may differ: as
	// a share of the faster, and in standard errors.
	paceShare, paceSigmas = 0.15, 3.0
	// paceLeast is how many admissions more or less in a block are no change: a line
	// that lets in two a minute does not stand still by turns.
	paceLeast = 2.0
)

// meter measures movement from one snapshot to the next.
//
// How fast people are let in can change from one second to the next, with the
// capacity; which share of those in front has gone changes slowly, and shows in
// lumps. So the second is measured over the whole window, and the first since the
// pace last changed: a plain mean over the window would promise for half a minute
// what the order side can no longer do, and one over the last seconds would make
// every estimate shake with every lump.
type meter struct {
	last   *Snapshot
	closed []bucket // oldest first, each of at least movementBucket
	open   bucket
}

// bucket is a stretch of measured time.
type bucket struct {
	span     time.Duration
	admitted int64
	gone     int64     // found gone from the head, less those who came back
	left     int64     // given up anywhere
	waited   float64   // visitor-seconds
	end      time.Time // the store's time
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
		m.open.add(*prev, s)
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

// throughTheLine is how many the line itself let in. Those let in without it are told
// in lumps, when its store is back, and moved no head.
func (s Snapshot) throughTheLine() int64 { return s.Admitted - s.Bypassed }

// add takes in what happened between two readings. Whoever comes back to an old
// place moves the head the other way, and is let in at once if it has passed
// them. Those who are given up were found gone before.
func (b *bucket) add(from, to Snapshot) {
	span := to.At.Sub(from.At)
	b.span += span
	b.admitted += to.throughTheLine() - from.throughTheLine()
	b.gone += to.Away - from.Away + to.GivenUp - from.GivenUp
	b.left += to.Left - from.Left
	b.waited += float64(from.Waiting+to.Waiting) / 2 * span.Seconds()
	b.end = to.At
}

// continues reports whether two readings are of one stretch of movement. What
// an operator or the schedule did to the pace, a new epoch, or a store that forgot
// what it had counted starts a new one: the old pace says nothing about what
// comes.
func continues(a, b Snapshot) bool {
	gap := b.At.Sub(a.At)
	return a.Epoch == b.Epoch && a.Created.Equal(b.Created) && b.Admitted >= a.Admitted &&
		samePace(a.Settings, b.Settings) && a.Phase() == b.Phase() && a.Recovering() == b.Recovering() &&
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

// movement sums up: who was let in and how evenly at the present pace, all else
// over the whole window.
func movement(window []bucket) Movement {
	present := window[paceBegan(window):]
	var m Movement
	for _, b := range present {
		m.Measured += b.span
	}
	for _, b := range window {
		m.Observed += b.span
	}
	if len(present) < 2 {
		return m
	}
	var all bucket
	for _, b := range window {
		all.left += b.left
		all.waited += b.waited
	}
	m.AdmittedPerSecond, _ = pace(present, admitted)
	_, variance := pace(present, moved)
	m.Spread = math.Sqrt(variance)
	m.PerSecond = m.AdmittedPerSecond * max(0, 1+gonePerAdmission(window))
	if all.waited > 0 {
		m.Leaving = float64(max(0, all.left)) / all.waited
	}
	return m
}

// gonePerAdmission is how many are found gone for each who is let in, since the first
// was found. Before that a line may be so young that nobody at its head has been silent
// for long enough, which says nothing about those behind: to count that time as well
// made the waits that are told early too long. What was found with the first only
// begins the count: it is there by construction, and would tell too many.
func gonePerAdmission(window []bucket) float64 {
	first := slices.IndexFunc(window, func(b bucket) bool { return b.gone > 0 })
	var since bucket
	for _, b := range window[first+1:] { // all of it if nobody was found: some may come back
		since.admitted += b.admitted
		since.gone += b.gone
	}
	if since.admitted == 0 {
		return 0
	}
	return float64(since.gone) / float64(since.admitted)
}

// paceBegan is the index from which on people are let in at the present pace: as
// far back as each block still agrees with all that came after it. People found
// gone come in lumps, which are no other pace.
func paceBegan(buckets []bucket) int {
	sigma := unevenness(buckets)
	from := max(0, len(buckets)-paceBlock)
	for from > 0 {
		block, since := buckets[max(0, from-paceBlock):from], buckets[from:]
		before, _ := pace(block, admitted)
		now, _ := pace(since, admitted)
		chance := sigma * math.Sqrt(1/float64(len(block))+1/float64(len(since)))
		if math.Abs(now-before) > max(paceShare*max(now, before), paceSigmas*chance, paceLeast/paceBlock) {
			break
		}
		from -= len(block)
	}
	return from
}

// unevenness is the standard deviation of the admissions in one second, from the
// median of the differences between neighbours, which a step from one pace to
// another leaves alone (0.954 is that median for normal samples of deviation 1). It
// is not less than half of what events at random would have.
func unevenness(buckets []bucket) float64 {
	if len(buckets) < 2 {
		return 0
	}
	steps := make([]float64, 0, len(buckets)-1)
	perSecond := func(b bucket) float64 { return admitted(b) / b.span.Seconds() }
	for i := range buckets[1:] {
		steps = append(steps, math.Abs(perSecond(buckets[i+1])-perSecond(buckets[i])))
	}
	slices.Sort(steps)
	mean, _ := pace(buckets, admitted)
	return max(steps[len(steps)/2]/0.954, math.Sqrt(mean)/2)
}

// pace is the mean per second of what is counted in each bucket, and the variance
// per second as the mean of the squared deviations, each scaled to its own span.
// The variance of a single bucket is 0.
func pace(buckets []bucket, count func(bucket) float64) (mean, variance float64) {
	var span time.Duration
	var sum float64
	for _, b := range buckets {
		span += b.span
		sum += count(b)
	}
	mean = sum / span.Seconds()
	for _, b := range buckets {
		off := count(b) - mean*b.span.Seconds()
		variance += off * off / b.span.Seconds()
	}
	return mean, variance / float64(max(1, len(buckets)-1))
}

func admitted(b bucket) float64 { return float64(b.admitted) }

// moved is how many places the head moved.
func moved(b bucket) float64 { return float64(b.admitted + b.gone) }
