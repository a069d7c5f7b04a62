package queue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// toldWindow is how long an interval counts: twice what it can be at most, so
	// that a poll which comes at the very end of its interval, or is repeated
	// once, is still covered.
	toldWindow = 2 * pollMax
	// toldSlot is how finely the window moves.
	toldSlot = 10 * time.Second
	// toldSlots are those that the window can touch: an interval counts for the
	// window at least, and at most one slot longer.
	toldSlots = int64(toldWindow/toldSlot) + 1
)

// Told is the longest interval that this process told anybody to wait before
// the next poll in the last two minutes: twice what an interval can be at most.
// Whoever wants to know who is silent, or who can have come back after a loss,
// has to give everybody that long. The zero value is ready; safe for concurrent
// use.
type Told struct {
	began sync.Once
	base  time.Time // for its monotonic reading
	// slots is a ring over time. Each is the slot's number in the upper half and
	// the longest interval noted in it, in µs rounded up, in the lower, so that
	// one compare-and-swap replaces both.
	slots [toldSlots]atomic.Uint64
}

// Note takes in an interval that was told. All but the first few of a slot cost
// one load.
func (t *Told) Note(d time.Duration) {
	if t == nil || d <= 0 {
		return
	}
	micros := uint64(min((d+time.Microsecond-1)/time.Microsecond, math.MaxUint32))
	now := t.slot()
	noted, slot := uint64(now)<<32|micros, &t.slots[now%toldSlots]
	// One number compares both: a later slot is larger whatever is in it.
	for old := slot.Load(); old < noted; old = slot.Load() {
		if slot.CompareAndSwap(old, noted) {
			return
		}
	}
}

// Longest is the longest interval noted in the last two minutes; 0 of a nil Told.
func (t *Told) Longest() time.Duration {
	if t == nil {
		return 0
	}
	oldest, longest := max(0, t.slot()-toldSlots+1), uint64(0)
	for i := range t.slots {
		if noted := t.slots[i].Load(); int64(noted>>32) >= oldest {
			longest = max(longest, noted&math.MaxUint32)
		}
	}
	return time.Duration(longest) * time.Microsecond
}

// slot is the number of the current slot.
func (t *Told) slot() int64 {
	t.began.Do(func() { t.base = time.Now() })
	return int64(time.Since(t.base) / toldSlot)
}
