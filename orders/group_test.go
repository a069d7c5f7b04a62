package orders

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// byTheBook keeps the rules of [backlog]: one look at everybody who waits, oldest
// first. It is what the backlog is held to, and too slow to be it.
type byTheBook struct {
	waiting []*waiter
	running [][]*waiter
}

type waiter struct {
	*submission
	want []int64
}

func (w *waiter) touches(others []*waiter) bool {
	return slices.ContainsFunc(others, func(o *waiter) bool {
		return o.work == w.work && slices.ContainsFunc(o.want, func(k int64) bool { return slices.Contains(w.want, k) })
	})
}

func (w *waiter) isWithin(group []*waiter) bool {
	for _, k := range w.want {
		if !slices.ContainsFunc(group, func(o *waiter) bool { return slices.Contains(o.want, k) }) {
			return false
		}
	}
	return true
}

func (r *byTheBook) take(workers int) []*waiter {
	var group, passed []*waiter
	share := (len(r.waiting) + workers - 1) / workers
	for _, w := range r.waiting {
		free := !w.touches(slices.Concat(r.running...)) && !w.touches(passed)
		alone := len(w.want) == 0
		switch {
		case len(group) == 0 && free && alone:
			return []*waiter{w}
		case len(group) == 0 && free,
			len(group) > 0 && len(group) < group[0].work.most && group[0].work == w.work && !alone && free && (len(group) < share || w.isWithin(group)):
			group = append(group, w)
		default:
			passed = append(passed, w)
		}
	}
	return group
}

func drop(ws []*waiter, gone ...*waiter) []*waiter {
	return slices.DeleteFunc(slices.Clone(ws), func(w *waiter) bool { return slices.Contains(gone, w) })
}

// backlogs is a backlog beside the rules.
type backlogs struct {
	b       backlog
	r       byTheBook
	workers int
	groups  []*group // as r.running
}

func (x *backlogs) take(t *rapid.T) (more bool) {
	want, got := x.r.take(x.workers), x.b.take(x.workers)
	if got == nil {
		got = &group{}
	}
	if !slices.EqualFunc(want, got.members, func(w *waiter, s *submission) bool { return w.submission == s }) {
		t.Fatalf("%d of %d waiting taken, want %d", len(got.members), len(x.r.waiting), len(want))
	}
	if len(want) == 0 {
		return false
	}
	x.r.waiting = drop(x.r.waiting, want...)
	x.r.running, x.groups = append(x.r.running, want), append(x.groups, got)
	return true
}

func (x *backlogs) release(i int) {
	x.b.release(x.groups[i])
	x.r.running, x.groups = slices.Delete(x.r.running, i, i+1), slices.Delete(x.groups, i, i+1)
}

// Whatever comes, goes and ends, a worker takes what the rules say.
func TestBacklogKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		works := []*work{{most: 1}, {most: 3}, {most: 50}}
		x := &backlogs{b: newBacklog(), workers: rapid.IntRange(1, 4).Draw(t, "workers")}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				w := &waiter{
					&submission{work: rapid.SampledFrom(works).Draw(t, "work")},
					rapid.SliceOfNDistinct(rapid.Int64Range(1, 5), 0, 3, rapid.ID).Draw(t, "keys"),
				}
				x.b.add(w.submission, w.want)
				x.r.waiting = append(x.r.waiting, w)
			},
			"take": func(t *rapid.T) { x.take(t) },
			"release": func(t *rapid.T) {
				if len(x.groups) > 0 {
					x.release(rapid.IntRange(0, len(x.groups)-1).Draw(t, "group"))
				}
			},
			"remove": func(t *rapid.T) {
				if len(x.r.waiting) > 0 {
					w := rapid.SampledFrom(x.r.waiting).Draw(t, "who")
					x.b.remove(w.submission)
					x.r.waiting = drop(x.r.waiting, w)
				}
			},
			"ungroup": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
					x.b.ungroup()
					for _, w := range x.r.waiting {
						w.want = nil
					}
				}
			},
			"": func(t *rapid.T) {
				if x.b.len() != len(x.r.waiting) {
					t.Fatalf("%d wait, want %d", x.b.len(), len(x.r.waiting))
				}
			},
		})
		// In the end everybody is served, and nothing is left.
		for len(x.r.waiting) > 0 || len(x.groups) > 0 {
			for x.take(t) {
			}
			if len(x.groups) == 0 {
				t.Fatalf("%d wait for nobody", len(x.r.waiting))
			}
			x.release(0)
		}
		if x.b.len() != 0 || len(x.b.lines) != 0 || x.b.oldest() != nil {
			t.Fatalf("left: %d, %d lines", x.b.len(), len(x.b.lines))
		}
	})
}

// The rules, by example: who of those waiting goes with the first group of a pool of
// two workers, while another group has the product 9.
func TestRulesByExample(t *testing.T) {
	orders, claims := &work{most: 4}, &work{most: 4}
	type cart = []int64
	for name, c := range map[string]struct {
		carts []cart
		want  []int
	}{
		"the share":                         {[]cart{{1}, {2}, {3}}, []int{0, 1}},
		"all of one product, to the most":   {[]cart{{1}, {1}, {1}, {1}, {1}}, []int{0, 1, 2, 3}},
		"beyond the share what is its own":  {[]cart{{1}, {2}, {3}, {1, 2}}, []int{0, 1, 3}},
		"but not what is half its own":      {[]cart{{1}, {2}, {1, 3}, {1}}, []int{0, 1}},
		"a product in use is passed over":   {[]cart{{9}, {1}, {9}, {2}}, []int{1, 3}},
		"who was passed over keeps turns":   {[]cart{{1, 9}, {1}, {2}, {2}}, []int{2, 3}},
		"and so does who waits behind them": {[]cart{{1, 9}, {1, 2}, {2, 3}, {3}, {4}}, []int{4}},
		"who has no product goes alone":     {[]cart{{}, {1}}, []int{0}},
		"and does not go with others":       {[]cart{{1}, {}, {1}}, []int{0, 2}},
		"nobody can":                        {[]cart{{9}, {9, 1}, {1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			b.add(&submission{work: orders}, cart{9})
			b.take(2)
			b.add(&submission{work: claims}, cart{2}) // at work with another 2, in nobody's way
			b.take(2)
			var all []*submission
			for _, keys := range c.carts {
				all = append(all, &submission{work: orders})
				b.add(all[len(all)-1], keys)
			}
			var got []int
			if g := b.take(2); g != nil {
				for _, s := range g.members {
					got = append(got, slices.Index(all, s))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v taken, want %v", got, c.want)
			}
		})
	}
}

// A worker comes free, takes what it can, and is free again, beside 10,000 who wait.
// Those who were taken come again.
func BenchmarkBacklog(b *testing.B) {
	const waiting = 10_000
	orders := &work{most: 500}
	for _, c := range []struct {
		name string
		keys func(i int) []int64
	}{
		{"one hot product", func(int) []int64 { return []int64{1} }},
		{"one hot product and a cold one each", func(i int) []int64 { return []int64{1, int64(2 + i%1000)} }},
		{"a product each", func(i int) []int64 { return []int64{int64(i)} }},
		{"carts of five in a thousand", func(i int) []int64 {
			return []int64{int64(i * 7 % 1000), int64(1000 + i%1000), int64(2000 + i*3%1000), int64(3000 + i*11%1000), int64(4000 + i*13%1000)}
		}},
	} {
		for _, hot := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/hot at work=%v", c.name, hot), func(b *testing.B) {
				l := newBacklog()
				if hot { // and so everybody who wants the product 1 is in the way
					l.add(&submission{work: orders}, []int64{1})
					l.take(10)
				}
				for i := range waiting {
					l.add(&submission{work: orders}, c.keys(i))
				}
				b.ReportAllocs()
				units, n := 0, waiting
				for b.Loop() {
					lone := &submission{work: orders}
					l.add(lone, []int64{-1})
					g := l.take(10)
					units += len(g.members)
					l.release(g)
					for _, s := range g.members {
						if s != lone {
							l.add(&submission{work: orders}, c.keys(n))
							n++
						}
					}
				}
				b.ReportMetric(float64(units)/float64(b.N), "units/group")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(units), "ns/unit")
			})
		}
	}
}
