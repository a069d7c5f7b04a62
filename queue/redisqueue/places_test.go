package redisqueue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type member struct {
	place int64
	tag   uint32
}

// TestPlaces plays changes on places and on a sorted list, and compares what is found.
// Places are few, so that many are equal and of other tags.
func TestPlaces(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		var want []member
		have, top := index(nil), int64(0)
		for range 60 {
			old, oldWant := have, slices.Clone(want)
			e := have.edit()
			for range r.IntN(4) {
				want, top = change(r, e, want, top)
			}
			have = e.done()
			compare(t, have, want)
			compare(t, old, oldWant) // who reads it still must see what it was
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func change(r *rand.Rand, e *edit, want []member, top int64) ([]member, int64) {
	switch n := len(want); r.IntN(5) {
	case 0: // at the end
		var added []int64
		var tags []uint32
		for range r.IntN(3 * blockSize) {
			top += 1 + r.Int64N(2)
			added, tags = append(added, top), append(tags, r.Uint32())
			want = append(want, member{top, tags[len(tags)-1]})
		}
		e.append(added, tags)
	case 1: // from the head
		if n > 0 {
			k := r.IntN(n)
			first := want[k].place
			e.dropBefore(first)
			want = slices.DeleteFunc(want, func(m member) bool { return m.place < first })
		}
	case 2: // anywhere in between
		for range r.IntN(40) {
			m := member{1 + r.Int64N(top+1), r.Uint32()}
			e.insert(m.place, m.tag)
			i, _ := slices.BinarySearchFunc(want, m.place+1, func(w member, place int64) int { return int(w.place - place) })
			want, top = slices.Insert(want, i, m), max(top, m.place)
		}
	default:
		for range r.IntN(40) {
			if n := len(want); n > 0 {
				i := r.IntN(n)
				e.remove(want[i].place, want[i].tag)
				want = slices.Delete(want, i, i+1)
			}
		}
		e.remove(1+r.Int64N(top+1), r.Uint32()) // is not there
	}
	return want, top
}

func compare(t *testing.T, have *places, want []member) {
	t.Helper()
	if have.size != len(want) {
		t.Errorf("%d places, want %d", have.size, len(want))
		return
	}
	for i := 0; i < len(want); i += 1 + len(want)/50 {
		if ahead, found := have.find(want[i].place, want[i].tag); !found || ahead != i {
			t.Errorf("%v is at %d (%v), want %d", want[i], ahead, found, i)
		}
		if _, found := have.find(want[i].place, want[i].tag+1); found {
			t.Errorf("%v is found for another", want[i])
		}
	}
	if _, found := have.find(1<<60, 1); found {
		t.Error("a place behind all is found")
	}
}

// Inserting one at a time must not leave one block that grows with the line.
func TestBlocksStaySmall(t *testing.T) {
	e := index(nil).edit()
	for i := range 20 * blockSize {
		e.insert(rand.Int64N(1000), uint32(i))
	}
	for _, b := range e.blocks {
		if len(b.places) > 2*blockSize {
			t.Fatalf("a block of %d", len(b.places))
		}
	}
	if n := len(e.blocks); n < 10 || n > 21 {
		t.Errorf("%d blocks", n)
	}
}
