package memqueue

import (
	"iter"
	"math/rand/v2"
)

// order keeps subjects by place and tells ranks, all in O(log n) expected: a
// treap whose nodes count their subtrees. Drawn places may be equal; then the
// subject decides, as in a sorted set of Redis. A Fenwick tree over slots is ten
// times faster to read, but must be rebuilt when an old place returns in the
// middle, and after a restart every place does.
type order struct{ root *node }

// key is a place and, among equal places, its subject.
type key struct {
	place   int64
	subject string
}

func (k key) before(other key) bool {
	return k.place < other.place || k.place == other.place && k.subject < other.subject
}

type node struct {
	key
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

// split parts a tree into keys below and keys from k on.
func split(n *node, k key) (below, from *node) {
	if n == nil {
		return nil, nil
	}
	if n.before(k) {
		n.right, from = split(n.right, k)
		return n.resize(), from
	}
	below, n.left = split(n.left, k)
	return below, n.resize()
}

// merge joins two trees; every key in a is before every key in b.
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

// insert adds a key that is not there.
func (o *order) insert(k key) {
	below, from := split(o.root, k)
	o.root = merge(merge(below, &node{key: k, priority: rand.Uint64(), size: 1}), from)
}

// remove takes a key out, if it is there.
func (o *order) remove(k key) {
	below, from := split(o.root, k)
	_, above := split(from, key{k.place, k.subject + "\x00"}) // nothing is between the two
	o.root = merge(below, above)
}

// rank is how many stand before k.
func (o *order) rank(k key) int64 {
	var before int64
	for n := o.root; n != nil; {
		if n.before(k) {
			before += n.left.count() + 1
			n = n.right
		} else {
			n = n.left
		}
	}
	return before
}

// first is the key in front; the order must not be empty.
func (o *order) first() key {
	n := o.root
	for n.left != nil {
		n = n.left
	}
	return n.key
}

// popFirst takes the key in front out; the order must not be empty.
func (o *order) popFirst() key {
	k := o.first()
	o.remove(k)
	return k
}

// all goes through the keys from the front; the order must not change meanwhile.
func (o *order) all() iter.Seq[key] {
	return func(yield func(key) bool) { o.root.each(yield) }
}

func (n *node) each(yield func(key) bool) bool {
	return n == nil || n.left.each(yield) && yield(n.key) && n.right.each(yield)
}

func (o *order) len() int64 { return o.root.count() }
