package web

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// pacerWays are the entries of a set: one cache line and a half.
	pacerWays = 4
	// pacerSets make 16,384 × 4 entries of 24 bytes, 1.7 MB with the locks.
	pacerSets = 1 << 14
)

// pacer bounds how often somebody may come within a window: so many times at
// once, and that many times per window in the long run.
//
// It is a leaky bucket for each who comes, in a table of a fixed size. What a
// bucket holds leaks out within the window, and an empty bucket says nothing, so
// it needs no entry: of those who come as seldom as they are asked to, each is
// remembered for a fraction of the window only. Where a set of the table is full,
// the emptiest bucket is forgotten, or the newcomer's. To be forgotten is to be
// forgiven, so nobody is refused for what others do; and whoever comes fastest is
// forgotten last.
//
// Buckets are found by a keyed hash of 64 bits: nobody can choose whom to share a
// set with, and that two share a bucket is as likely as guessing a key.
//
// A nil pacer bounds nothing. Safe for concurrent use: each set has its own lock.
type pacer struct {
	seed  maphash.Seed
	began time.Time
	often time.Duration // how many times per window; a Duration to divide one by
	sets  []pacerSet
}

type pacerSet struct {
	mu   sync.Mutex
	ways [pacerWays]bucket // guarded by mu
}

// bucket is empty from idle on, since the pacer began.
type bucket struct {
	key          uint64
	idle, window time.Duration
}

// fill is how much of the window is used up, 0 to 1.
func (b *bucket) fill(now time.Duration) float64 {
	return max(0, float64(b.idle-now)/float64(b.window))
}

// newPacer makes one that lets everybody come so often per window; nil for 0.
// sets is a power of two.
func newPacer(often, sets int) *pacer {
	if often == 0 {
		return nil
	}
	return &pacer{seed: maphash.MakeSeed(), began: time.Now(), often: time.Duration(often), sets: make([]pacerSet, sets)}
}

func (p *pacer) key(id string) uint64 { return maphash.String(p.seed, id) }

// take notes that somebody has come, and tells how long they should have waited
// longer: 0 is good. Who is refused is not counted as having come. window is for
// those of whom nothing is known.
func (p *pacer) take(key uint64, window time.Duration) (early time.Duration) {
	set, now := p.open(key)
	defer set.mu.Unlock()
	b := set.find(key, now)
	if b == nil {
		set.put(bucket{key, now + window/p.often, window}, now)
		return 0
	}
	filled := b.idle + b.window/p.often
	if early = filled - b.window - now; early > 0 {
		return early
	}
	b.idle = filled
	return 0
}

// told sets the window of somebody who has just come. What they have used of the
// last one they have used of this.
func (p *pacer) told(key uint64, window time.Duration) {
	if p == nil || window <= 0 {
		return
	}
	set, now := p.open(key)
	defer set.mu.Unlock()
	once := window / p.often
	b := set.find(key, now)
	if b == nil {
		set.put(bucket{key, now + once, window}, now)
		return
	}
	b.idle, b.window = now+max(once, time.Duration(b.fill(now)*float64(window))), window
}

// giveBack takes back what take noted last.
func (p *pacer) giveBack(key uint64) {
	if p == nil {
		return
	}
	set, now := p.open(key)
	defer set.mu.Unlock()
	if b := set.find(key, now); b != nil {
		b.idle -= b.window / p.often
	}
}

// open locks the set of a key and reads the clock.
func (p *pacer) open(key uint64) (*pacerSet, time.Duration) {
	set := &p.sets[key&uint64(len(p.sets)-1)]
	set.mu.Lock()
	return set, time.Since(p.began)
}

// find is the bucket of a key; nil if it is empty or there is none.
func (s *pacerSet) find(key uint64, now time.Duration) *bucket {
	for i := range s.ways {
		if b := &s.ways[i]; b.key == key && b.idle > now {
			return b
		}
	}
	return nil
}

// put keeps b in place of the emptiest, unless all are fuller.
func (s *pacerSet) put(b bucket, now time.Duration) {
	least := &s.ways[0]
	for i := range s.ways {
		if w := &s.ways[i]; w.idle <= now {
			least = w
			break
		} else if w.fill(now) < least.fill(now) {
			least = w
		}
	}
	if least.idle <= now || least.fill(now) <= b.fill(now) {
		*least = b
	}
}
