package redisqueue

import (
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"sluice/queue"
)

const (
	// followEvery is the time between two readings of what has moved.
	followEvery = 100 * time.Millisecond
	// chunk is how many places one reading takes in at most, which keeps Redis busy for
	// some 1.5 ms, and chunkPause the time between two while more are to come: together
	// less than 5 % of its time (make bench-memory), and 30,000 places a second.
	chunk      = 1000
	chunkPause = 30 * time.Millisecond
	// maxAge is how old a copy may be to answer from it. It is below the shortest
	// interval that anybody is told (0.8 s): of two polls that keep to it the later is
	// answered by what was read later, at whatever instance, so that no position grows.
	maxAge = 500 * time.Millisecond
	// nearest are the positions from the head whose polls always ask Redis.
	nearest = 1000
)

// copied are the places of the line at one moment.
type copied struct {
	*places
	asked          time.Duration // when, by the follower's clock; it may be of later
	created, epoch int64
	moves          int64  // how many of the line's are in it
	last           string // the last of them
	upTo           int64  // the last place that it was read to
	whole          bool   // nobody stood behind that
	length         int64
	draw           draw
}

// follower keeps a copy of a long line's places, from which polls far from the head are
// answered without asking Redis. A reading asks for the moves since the last one, which
// the scripts noted, and for the places behind the last one it knows, which nobody needs
// to note. The last move that it has, the length and the first place tell whether anything
// was missed, or undone by a fail-over; then the copy is begun anew.
type follower struct {
	began   time.Time // of its clock
	seed    maphash.Seed
	waiting atomic.Int64 // how many wait, by the last snapshot
	now     atomic.Pointer[copied]
	// touched is when this process last changed something of a visitor whose tag falls
	// there: they are not answered by an older copy.
	touched [4096]atomic.Int64 // ns of its clock

	answered, asked atomic.Int64 // polls
	renewed         atomic.Int64
}

func newFollower() *follower { return &follower{began: time.Now(), seed: maphash.MakeSeed()} }

func (f *follower) tag(subject string) uint32 { return uint32(maphash.String(f.seed, subject)) }

func (f *follower) touch(subject string) {
	f.touched[f.tag(subject)%uint32(len(f.touched))].Store(int64(time.Since(f.began)))
}

func (f *follower) touchAll() {
	now := int64(time.Since(f.began))
	for i := range f.touched {
		f.touched[i].Store(now)
	}
}

// Reads tells how the polls of this process were answered.
func (l *Line) Reads() queue.Reads {
	r := queue.Reads{Copied: l.follower.answered.Load(), Asked: l.follower.asked.Load(), Renewed: l.follower.renewed.Load()}
	if c := l.follower.now.Load(); c != nil {
		r.Places = int64(c.size)
	}
	return r
}

// Follow keeps a copy of the places while the line is long, until ctx ends; then it
// returns nil. A process that answers polls runs it.
func (l *Line) Follow(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := followEvery
		if l.follower.waiting.Load() <= nearest {
			l.follower.now.Store(nil)
		} else if l.followOnce(ctx) {
			next = chunkPause
		}
		timer.Reset(next)
	}
}

// followOnce brings the copy up to date, as far as one reading goes; more is whether
// there are places it has not read. One that fails leaves the copy to its age: that Redis
// is away is told by those who cannot do without it.
func (l *Line) followOnce(ctx context.Context) (more bool) {
	ctx, cancel := context.WithTimeout(ctx, maxAge)
	defer cancel()
	f := l.follower
	before := f.now.Load()
	since := cmp.Or(before, &copied{moves: -1, places: index(nil)})
	c := &copied{asked: time.Since(f.began)}
	reply, err := followScript.Run(ctx, l.client, l.keys.all, since.created, since.epoch, since.moves, since.upTo, chunk, since.last).Slice()
	if err != nil {
		return false
	}
	r := values(reply)
	c.created, c.epoch, c.moves, c.length = r.int(1), r.int(2), r.int(3), r.int(4)
	c.last = r.text(9)
	d := r.list(6)
	c.draw = draw{seed: d.text(0), opensAt: d.text(1), closesAt: d.text(2)}
	continued := r.int(0) == 1
	if !continued {
		since = &copied{places: index(nil)}
	}
	e := since.edit()
	for i, moves := 0, r.list(7); i < len(moves); i++ {
		f.move(e, moves.text(i), since.upTo)
	}
	added, tags, more := f.added(r.list(8))
	e.append(added, tags)
	c.upTo, c.whole = since.upTo, !more
	if len(added) > 0 {
		c.upTo = added[len(added)-1]
	}
	c.places = e.done()
	if !c.right(r.int(5)) {
		f.renewed.Add(1)
		f.now.Store(nil)
		return true
	}
	if before != nil && !continued {
		f.renewed.Add(1)
	}
	f.now.Store(c)
	return more
}

// move makes one move in the copy. What is behind it is read with the next places.
func (f *follower) move(e *edit, move string, upTo int64) {
	at, subject, ok := strings.Cut(move, ":")
	if !ok || at == "" {
		return
	}
	place := integer(at[1:])
	switch kind := at[0]; {
	case kind == '<':
		e.dropBefore(place)
	case place > upTo:
	case kind == '+':
		e.insert(place, f.tag(subject))
	case kind == '-':
		e.remove(place, f.tag(subject))
	}
}

// added reads the next places; more is whether there may be others behind them. Of equal
// ones all are taken in or none, since the next reading begins behind the last place.
func (f *follower) added(pairs values) (added []int64, tags []uint32, more bool) {
	n := len(pairs) / 2
	added, tags = make([]int64, n), make([]uint32, n)
	for i := range n {
		added[i], tags[i] = integer(pairs.text(2*i+1)), f.tag(pairs.text(2*i))
	}
	if n < chunk {
		return added, tags, false
	}
	keep := n
	for keep > 0 && added[keep-1] == added[n-1] {
		keep--
	}
	if keep == 0 {
		keep = n // a whole chunk of equal places, which no line of ours has
	}
	return added[:keep], tags[:keep], true
}

// right reports whether a copy that is whole has the length and the first place of the
// line.
func (c *copied) right(first int64) bool {
	return !c.whole || int64(c.size) == c.length && (c.size == 0 || c.firsts[0] == first)
}

// copiedStanding is where somebody stands by the copy; ok is false where only Redis knows
// it, or what it knows may be another thing: near the head, right after this process
// changed something of theirs, out of the time in which the line is open.
func (l *Line) copiedStanding(t queue.Ticket) (s queue.Standing, ok bool) {
	f := l.follower
	c := f.now.Load()
	if c == nil || c.epoch != t.Epoch || time.Since(f.began)-c.asked >= maxAge {
		return s, false
	}
	if phase, known := l.phase(c.draw); !known || phase != queue.PhaseOpen {
		return s, false
	}
	place := placeOf(t, c.draw)
	tag := f.tag(t.Subject)
	if place > c.upTo || f.touched[tag%uint32(len(f.touched))].Load() >= int64(c.asked) {
		return s, false
	}
	ahead, found := c.find(place, tag)
	if !found || ahead < nearest {
		return s, false
	}
	return waiting(t, place, int64(ahead), c.length), true
}
