package memqueue

import "math/rand/v2"

// order keeps subjects by place and tells ranks, all in O(log n) expected: a
// treap whose nodes count their subtrees. A Fenwick tree over slots is ten times
// faster to read, but must be rebuilt when an old place returns in the middle,
// and after a restart every place does.
type order struct{ root *node }

type node struct {
	place       int64
	subject     string
	priority    uint64
	size        int64
	left, right *node
}

func (n *node) count() int64 {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node) resize() *node {
	n.size = 1 + n.left.count() + n.right.count()
	return n
}

// split parts a tree into places below and places from place on.
func split(n *node, place int64) (below, from *node) {
	if n == nil {
		return nil, nil
	}
	if n.place < place {
		n.right, from = split(n.right, place)
		return n.resize(), from
	}
	below, n.left = split(n.left, place)
	return below, n.resize()
}

// merge joins two trees; every place in a is below every place in b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = merge(a.right, b)
		return a.resize()
	default:
		b.left = merge(a, b.left)
		return b.resize()
	}
}

// insert adds a place; places are unique.
func (o *order) insert(place int64, subject string) {
	below, from := split(o.root, place)
	o.root = merge(merge(below, &node{place: place, subject: subject, priority: rand.Uint64(), size: 1}), from)
}

// remove takes a place out, if it is there.
func (o *order) remove(place int64) {
	below, from := split(o.root, place)
	_, above := split(from, place+1)
	o.root = merge(below, above)
}

// rank is how many stand before place.
func (o *order) rank(place int64) int64 {
	var before int64
	for n := o.root; n != nil; {
		if n.place < place {
			before += n.left.count() + 1
			n = n.right
		} else {
			n = n.left
		}
	}
	return before
}

// popFirst takes the first subject out; the order must not be empty.
func (o *order) popFirst() string {
	n := o.root
	for n.left != nil {
		n = n.left
	}
	subject := n.subject
	o.remove(n.place)
	return subject
}

func (o *order) len() int64 { return o.root.count() }
