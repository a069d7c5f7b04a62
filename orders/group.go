package orders

import (
	"container/heap"
	"container/list"
	"time"
)

// group is what one worker does at a time: units of one work, oldest first.
type group struct {
	members []*submission
	begun   time.Time
	err     error // what ended it before its work did; read once its members are told
}

// backlog is those who wait for a worker, and the rule by which a worker takes some of
// them. Everybody stands in one line per key, in the order of arrival.
//
//   - Who is first in all their lines, while no group has one of their keys, can be
//     taken. Anybody else the database would only make wait for that group's locks,
//     with a connection in their hands; so they wait here and leave it to others.
//   - Nobody passes anybody in a line. An order of several products keeps its turn for
//     each of them, and is not starved by those who want only one.
//   - A group begins with the oldest that can be taken, and goes on with the next
//     oldest of the same work, those behind its own members included. Its share is
//     ⌈waiting ÷ workers⌉.
//   - Beyond its share it takes those whose keys are all its own, up to what its work
//     allows: they could not be at work beside it anyway.
//   - Who has no keys can be taken at any time, and is a group of one.
//
// What a step costs depends on how many keys it touches, not on how many wait: the
// pool's lock is held meanwhile. Methods are not safe for concurrent use.
type backlog struct {
	all   *list.List // of *submission, oldest in front
	lines map[key]*line
	ready map[*work]*byAge // those who can be taken; nil has those without keys
	last  int64            // age of the youngest
}

// key is a unit's key among all works.
type key struct {
	work *work
	id   int64
}

// line is those who wait for one key.
type line struct {
	key    key
	turns  list.List // of *submission, oldest in front
	holder *group    // at work with the key; nil for none
}

// turn is a submission's place in a line.
type turn struct {
	line *line
	at   *list.Element
}

func newBacklog() backlog {
	return backlog{all: list.New(), lines: map[key]*line{}, ready: map[*work]*byAge{}}
}

func (b *backlog) len() int { return b.all.Len() }

// add puts a submission with these keys, each once, at the end.
func (b *backlog) add(s *submission, keys []int64) {
	b.last++
	s.age, s.at, s.turns = b.last, b.all.PushBack(s), make([]turn, len(keys))
	for i, id := range keys {
		k := key{s.work, id}
		l := b.lines[k]
		if l == nil {
			l = &line{key: k}
			b.lines[k] = l
		}
		s.turns[i] = turn{l, l.turns.PushBack(s)}
	}
	if s.next(nil) {
		b.wake(s)
	}
}

// remove takes out somebody who gives up.
func (b *backlog) remove(s *submission) {
	if s.next(nil) {
		heap.Remove(b.readyLike(s), s.inHeap)
	}
	b.all.Remove(s.at)
	for _, t := range s.turns {
		first := t.line.turns.Front() == t.at
		t.line.turns.Remove(t.at)
		if first {
			b.advance(t.line)
		}
	}
}

// take removes the next group for one of so many workers, or returns nil if nobody can
// be taken.
func (b *backlog) take(workers int) *group {
	ready := b.oldest()
	if ready == nil {
		return nil
	}
	share, most := (b.len()+workers-1)/workers, 1
	if first := ready.first(); len(first.turns) > 0 {
		most = first.work.most
	}
	g := &group{}
	var behind byAge // who would be next if the group's keys were nobody's
	for len(g.members) < most {
		from := &behind
		if len(g.members) < share && ready.first().before(behind.first()) {
			from = ready
		}
		if from.Len() == 0 {
			break
		}
		s := heap.Pop(from).(*submission)
		if len(g.members) < share || s.within(g) { // else it keeps its turns
			b.join(g, s, &behind)
		}
	}
	return g
}

// join moves a submission into a group, which has its keys from then on, and adds to
// behind who is next because of that.
func (b *backlog) join(g *group, s *submission, behind *byAge) {
	b.all.Remove(s.at)
	s.group = g
	g.members = append(g.members, s)
	for _, t := range s.turns {
		t.line.turns.Remove(t.at)
		t.line.holder = g
		if next := t.line.first(); next != nil && next.next(g) {
			heap.Push(behind, next)
		}
	}
}

// release gives the keys of a group back when it is done.
func (b *backlog) release(g *group) {
	for _, s := range g.members {
		for _, t := range s.turns {
			if t.line.holder == g { // else it was given back with an earlier member
				t.line.holder = nil
				b.advance(t.line)
			}
		}
	}
}

// ungroup lets everybody who waits be taken alone, whatever their keys.
func (b *backlog) ungroup() {
	waiting := b.all
	b.all, b.ready = list.New(), map[*work]*byAge{}
	for e := waiting.Front(); e != nil; e = e.Next() {
		s := e.Value.(*submission)
		for _, t := range s.turns {
			t.line.turns.Remove(t.at)
			b.tidy(t.line)
		}
		b.add(s, nil)
	}
}

// clear takes everybody out, oldest first.
func (b *backlog) clear(yield func(*submission) bool) {
	for front := b.all.Front(); front != nil; front = b.all.Front() {
		s := front.Value.(*submission)
		b.remove(s)
		if !yield(s) {
			return
		}
	}
}

// advance is called when a line has another first, or nobody has its key any more.
func (b *backlog) advance(l *line) {
	if s := l.first(); s != nil && s.next(nil) {
		b.wake(s)
	}
	b.tidy(l)
}

// tidy forgets a line that is not needed.
func (b *backlog) tidy(l *line) {
	if l.turns.Len() == 0 && l.holder == nil {
		delete(b.lines, l.key)
	}
}

// wake notes somebody who can be taken from now on.
func (b *backlog) wake(s *submission) { heap.Push(b.readyLike(s), s) }

func (b *backlog) readyLike(s *submission) *byAge {
	w := s.work
	if len(s.turns) == 0 {
		w = nil
	}
	if b.ready[w] == nil {
		b.ready[w] = new(byAge)
	}
	return b.ready[w]
}

// oldest is where the oldest is of those who can be taken; nil if nobody can be.
func (b *backlog) oldest() *byAge {
	var found *byAge
	for _, ready := range b.ready {
		if ready.Len() > 0 && (found == nil || ready.first().before(found.first())) {
			found = ready
		}
	}
	return found
}

// next tells whether a submission is first in all its lines, and no group but g has
// one of its keys.
func (s *submission) next(g *group) bool {
	for _, t := range s.turns {
		if t.line.turns.Front() != t.at || t.line.holder != nil && t.line.holder != g {
			return false
		}
	}
	return true
}

// within tells whether all keys of a submission are the group's.
func (s *submission) within(g *group) bool {
	for _, t := range s.turns {
		if t.line.holder != g {
			return false
		}
	}
	return true
}

// before tells who of two is there and older.
func (s *submission) before(other *submission) bool {
	return s != nil && (other == nil || s.age < other.age)
}

func (l *line) first() *submission {
	if front := l.turns.Front(); front != nil {
		return front.Value.(*submission)
	}
	return nil
}

// byAge is a heap with the oldest on top.
type byAge []*submission

func (h byAge) first() *submission {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

func (h byAge) Len() int           { return len(h) }
func (h byAge) Less(i, j int) bool { return h[i].age < h[j].age }
func (h byAge) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].inHeap, h[j].inHeap = i, j
}

func (h *byAge) Push(x any) {
	s := x.(*submission)
	s.inHeap = len(*h)
	*h = append(*h, s)
}

func (h *byAge) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
