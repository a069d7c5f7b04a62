package queue

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// clockWindow is how long a sample of the store's time may serve. A cheap
// quartz drifts about 3 ms in it.
const clockWindow = time.Minute

// clockResolution is how finely a store may tell its time.
const clockResolution = time.Millisecond

// clock tells the store's time from this process's monotonic clock and an
// offset learnt from readings of the store. The wall clock of this machine is
// looked at once, at the start; when somebody sets it, nothing here moves.
//
// The store told its time somewhere between the moments its answer was asked
// for and received. Taking the middle is wrong by at most half the round trip
// (Cristian 1989), so the sample with the shortest round trip of the last
// minute is the one believed. While the store is away the last offset stands.
type clock struct {
	base   time.Time    // for its monotonic reading
	offset atomic.Int64 // the store's Unix time at base, ns

	// samples of the last minute; touched by observe alone, which is called
	// from one goroutine at a time.
	samples []clockSample
}

// clockSample is one reading of the store's clock; at and roundTrip are on the
// monotonic clock, in ns, at since base.
type clockSample struct {
	at, roundTrip time.Duration
	offset        int64 // the store's Unix time at base, ns
}

// newClock starts from the local time, until the first sample.
func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixNano())
	return c
}

// now is the store's time; safe for concurrent use.
func (c *clock) now() time.Time {
	return time.Unix(0, c.offset.Load()+int64(time.Since(c.base))).UTC()
}

// observe learns from one reading: asked for at sent, answered at received
// (both from time.Now, with their monotonic readings), telling store.
func (c *clock) observe(sent, received, store time.Time) {
	roundTrip := received.Sub(sent)
	middle := sent.Sub(c.base) + roundTrip/2
	c.learn(clockSample{
		at:        received.Sub(c.base),
		roundTrip: roundTrip,
		offset:    store.UnixNano() - int64(middle),
	})
}

func (c *clock) learn(s clockSample) {
	c.samples = slices.DeleteFunc(c.samples, func(old clockSample) bool {
		return s.at-old.at > clockWindow || old.contradicts(s)
	})
	c.samples = append(c.samples, s)
	best := slices.MinFunc(c.samples, func(a, b clockSample) int { return cmp.Compare(a.roundTrip, b.roundTrip) })
	c.offset.Store(best.offset)
}

// contradicts reports that no one offset explains both samples: the store's
// clock was set, another store took over, or this machine slept. Then the older
// one is worth nothing, however short its round trip was.
func (s clockSample) contradicts(newer clockSample) bool {
	return time.Duration(s.offset-newer.offset).Abs() > (s.roundTrip+newer.roundTrip)/2+clockResolution
}
