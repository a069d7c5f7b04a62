package memqueue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The order against a sorted slice, with many equal places.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o order
		var want []key
		find := func(k key) (int, bool) {
			return slices.BinarySearchFunc(want, k, func(a, b key) int {
				switch {
				case a.before(b):
					return -1
				case b.before(a):
					return 1
				}
				return 0
			})
		}
		draw := func(t *rapid.T) key {
			return key{rapid.Int64Range(1, 4).Draw(t, "place"), fmt.Sprint(rapid.IntRange(1, 12).Draw(t, "subject"))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				k := draw(t)
				if i, ok := find(k); !ok {
					o.insert(k)
					want = slices.Insert(want, i, k)
				}
			},
			"remove": func(t *rapid.T) {
				k := draw(t)
				o.remove(k)
				if i, ok := find(k); ok {
					want = slices.Delete(want, i, i+1)
				}
			},
			"pop": func(t *rapid.T) {
				if len(want) > 0 {
					if k := o.popFirst(); k != want[0] {
						t.Fatalf("popped %v, want %v", k, want[0])
					}
					want = want[1:]
				}
			},
			"": func(t *rapid.T) {
				if got := slices.Collect(o.all()); !slices.Equal(got, want) || o.len() != int64(len(want)) {
					t.Fatalf("%d: %v, want %v", o.len(), got, want)
				}
				for i, k := range want {
					if n := o.rank(k); n != int64(i) {
						t.Fatalf("%v has %d in front, want %d", k, n, i)
					}
				}
			},
		})
	})
}
