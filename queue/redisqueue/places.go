package redisqueue

import (
	"slices"
	"sort"
)

// blockSize is how many places a block holds when it is made, and half of what it may
// grow to. A change copies one block.
const blockSize = 1024

// places are the places of a line in their order, at one moment. A change makes others,
// which share all blocks but the changed ones: who reads needs no lock. Each place takes
// 12 bytes.
type places struct {
	blocks []block
	// firsts are the first places of the blocks, and before how many places are in the
	// blocks before each.
	firsts []int64
	before []int
	size   int
}

// block is a run of places. The tag of a place tells whose it is, since two drawn ones
// may be equal.
type block struct {
	places []int64
	tags   []uint32
}

// index makes places of blocks that are in order.
func index(blocks []block) *places {
	p := &places{blocks: blocks, firsts: make([]int64, len(blocks)), before: make([]int, len(blocks))}
	for i, b := range blocks {
		p.firsts[i], p.before[i] = b.places[0], p.size
		p.size += len(b.places)
	}
	return p
}

// find is how many places are in front of this one. O(log n).
func (p *places) find(place int64, tag uint32) (ahead int, found bool) {
	at, i := p.search(place)
	for ; at < len(p.blocks); at, i = at+1, 0 {
		b := p.blocks[at]
		for ; i < len(b.places); i++ {
			if b.places[i] != place {
				return 0, false
			}
			if b.tags[i] == tag {
				return p.before[at] + i, true
			}
		}
	}
	return 0, false
}

// search is where the first place that is not before this one stands, or would stand in
// the last block that begins before it.
func (p *places) search(place int64) (at, i int) {
	at = max(0, sort.Search(len(p.firsts), func(i int) bool { return p.firsts[i] >= place })-1)
	if at == len(p.blocks) {
		return at, 0
	}
	i, _ = slices.BinarySearch(p.blocks[at].places, place)
	return at, i
}

// edit is a change of places in the making. The blocks are its own, what is in them is
// shared.
type edit struct {
	blocks []block
}

func (p *places) edit() *edit { return &edit{slices.Clone(p.blocks)} }

func (e *edit) done() *places { return index(e.blocks) }

// append adds places, in order and not before the last one.
func (e *edit) append(added []int64, tags []uint32) {
	if n := len(e.blocks); n > 0 && len(e.blocks[n-1].places) < blockSize {
		last := e.blocks[n-1]
		room := min(blockSize-len(last.places), len(added))
		e.blocks[n-1] = block{slices.Concat(last.places, added[:room]), slices.Concat(last.tags, tags[:room])}
		added, tags = added[room:], tags[room:]
	}
	for len(added) > 0 {
		n := min(blockSize, len(added))
		e.blocks = append(e.blocks, block{slices.Clone(added[:n]), slices.Clone(tags[:n])})
		added, tags = added[n:], tags[n:]
	}
}

// insert adds one place, behind all that are equal.
func (e *edit) insert(place int64, tag uint32) {
	if len(e.blocks) == 0 {
		e.append([]int64{place}, []uint32{tag})
		return
	}
	at := max(0, sort.Search(len(e.blocks), func(i int) bool { return e.blocks[i].places[0] > place })-1)
	b := e.blocks[at]
	i := sort.Search(len(b.places), func(i int) bool { return b.places[i] > place })
	b = block{slices.Insert(slices.Clone(b.places), i, place), slices.Insert(slices.Clone(b.tags), i, tag)}
	if half := len(b.places) / 2; half >= blockSize {
		e.blocks[at] = block{b.places[:half:half], b.tags[:half:half]}
		e.blocks = slices.Insert(e.blocks, at+1, block{b.places[half:], b.tags[half:]})
		return
	}
	e.blocks[at] = b
}

// remove takes one place out; one that is not there is none.
func (e *edit) remove(place int64, tag uint32) {
	at := max(0, sort.Search(len(e.blocks), func(i int) bool { return e.blocks[i].places[0] >= place })-1)
	for ; at < len(e.blocks) && e.blocks[at].places[0] <= place; at++ {
		b := e.blocks[at]
		i, _ := slices.BinarySearch(b.places, place)
		for ; i < len(b.places) && b.places[i] == place; i++ {
			if b.tags[i] != tag {
				continue
			}
			if len(b.places) == 1 {
				e.blocks = slices.Delete(e.blocks, at, at+1)
				return
			}
			e.blocks[at] = block{slices.Delete(slices.Clone(b.places), i, i+1), slices.Delete(slices.Clone(b.tags), i, i+1)}
			return
		}
	}
}

// dropBefore takes out all places before this one.
func (e *edit) dropBefore(place int64) {
	whole := sort.Search(len(e.blocks), func(i int) bool {
		b := e.blocks[i].places
		return b[len(b)-1] >= place
	})
	e.blocks = e.blocks[whole:]
	if len(e.blocks) == 0 {
		return
	}
	// The rest of the array goes when the block does.
	b := e.blocks[0]
	i, _ := slices.BinarySearch(b.places, place)
	e.blocks[0] = block{b.places[i:], b.tags[i:]}
}
