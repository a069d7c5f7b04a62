package web

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Whoever waits as long as told is never refused, whatever others do and however few
// buckets there are for all of them, also in two tabs, with repeated requests, and
// with intervals that change.
func TestPacerNeverRefusesThePatient(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		tabs := rapid.IntRange(1, 3).Draw(r, "tabs")
		repeat, changes := rapid.Bool().Draw(r, "repeat"), rapid.Bool().Draw(r, "changes")
		least := tabs
		for _, twice := range []bool{repeat, changes} { // a tab may come once more, as told before a change
			if twice {
				least *= 2
			}
		}
		often := rapid.IntRange(least, 40).Draw(r, "often")
		seed := rapid.Uint64().Draw(r, "seed")
		abusers := rapid.IntRange(0, 12).Draw(r, "abusers")
		refused := ""
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			p := newPacer(often, 1) // one set: all collide
			intervals := []time.Duration{800 * time.Millisecond, time.Second, 3 * time.Second, 30 * time.Second, time.Minute}
			type visitor struct {
				id   string
				due  []time.Duration // of each tab
				told time.Duration
			}
			var patient []*visitor
			for i := range 8 {
				patient = append(patient, &visitor{id: "patient-" + strconv.Itoa(i), due: make([]time.Duration, tabs)})
			}
			const step = 50 * time.Millisecond
			for now := time.Duration(0); now < time.Minute+step; now += step {
				for i := range abusers {
					key := p.key("abuser-" + strconv.Itoa(i))
					if p.take(key, unknownInterval) == 0 {
						p.told(key, intervals[i%len(intervals)])
					}
				}
				for _, v := range patient {
					for tab := range v.due {
						if now < v.due[tab] {
							continue
						}
						times := 1
						if repeat && random.IntN(4) == 0 {
							times = 2
						}
						for range times {
							if early := p.take(p.key(v.id), unknownInterval); early > 0 {
								refused = fmt.Sprintf("%s was refused for %s at %s, %d tabs, %d times per window", v.id, early, now, tabs, often)
								return
							}
						}
						// All tabs of a visitor are told about the same; now and then the place is another.
						if v.told == 0 || changes && random.IntN(10) == 0 {
							v.told = intervals[random.IntN(len(intervals))]
						}
						p.told(p.key(v.id), v.told)
						if random.IntN(5) > 0 {
							v.due[tab] = now + v.told
						} else {
							v.due[tab] = now + 2*v.told
						}
					}
				}
				time.Sleep(step)
			}
		})
		if refused != "" {
			r.Fatal(refused)
		}
	})
}

// Whoever comes as fast as they can gets through so many times at once, and that many
// times per window afterwards; also where answers are slow, and among a crowd of more
// others than there are buckets.
func TestPacerBoundsTheImpatient(t *testing.T) {
	t.Parallel()
	const often, sets, windows = 20, 16, 5
	for _, told := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, time.Minute} {
		step := told / 300
		for _, others := range []int{0, 4000} {
			for _, takes := range []time.Duration{0, 60 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) {
					p := newPacer(often, sets)
					key, through := p.key("impatient"), 0
					began, next := time.Now(), 0
					crowd := func() { // who come as told, half a minute apart
						for ; next < int(time.Since(began)*time.Duration(others)/(30*time.Second)); next++ {
							other := p.key("other-" + strconv.Itoa(next%others))
							if p.take(other, unknownInterval) > 0 {
								t.Fatal("another was refused")
							}
							p.told(other, 30*time.Second)
						}
					}
					for time.Since(began) < windows*told {
						if p.take(key, unknownInterval) == 0 {
							time.Sleep(takes)
							p.told(key, told)
							through++
						}
						crowd()
						time.Sleep(step)
					}
					fastest := min(often*windows, int(windows*told/(takes+step)))
					if bound := often*(windows+1) + 1; through < fastest || through > bound {
						t.Errorf("told %s, %d others, answers of %s: %d times in %d windows, %d allowed", told, others, takes, through, windows, bound)
					}
				})
			}
		}
	}
}

func TestPacerTellsWhenToComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(3, 1)
		key := p.key("a")
		for range 3 {
			if early := p.take(key, time.Minute); early != 0 {
				t.Fatalf("%s early", early)
			}
		}
		if early := p.take(key, time.Minute); early != 20*time.Second {
			t.Fatalf("%s early", early)
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if p.take(key, time.Minute) == 0 {
			t.Error("let in too soon")
		}
		time.Sleep(time.Nanosecond)
		if p.take(key, time.Minute) != 0 {
			t.Error("told too short a time")
		}
		p.giveBack(key)
		if p.take(key, time.Minute) != 0 || p.take(key, time.Minute) == 0 {
			t.Error("what was given back counts otherwise than once")
		}
	})
}

// Of many who come at the same time with one key as many get through as may.
func TestPacerCountsEverybody(t *testing.T) {
	t.Parallel()
	p := newPacer(100, 4)
	key, through := p.key("a"), make(chan int, 8)
	var all sync.WaitGroup
	for range cap(through) {
		all.Go(func() {
			n := 0
			for range 1000 {
				if p.take(key, time.Hour) == 0 {
					n++
				}
			}
			through <- n
		})
	}
	all.Wait()
	sum := 0
	for range cap(through) {
		sum += <-through
	}
	if sum != 100 {
		t.Errorf("%d of 100", sum)
	}
}

func BenchmarkPacer(b *testing.B) {
	p := newPacer(20, pacerSets)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		ids := make([]string, 10_000)
		for i := range ids {
			ids[i] = strconv.FormatUint(random.Uint64(), 36)
		}
		for i := 0; pb.Next(); i++ {
			id := ids[i%len(ids)]
			_ = p.take(p.key(id), unknownInterval)
			p.told(p.key(id), 30*time.Second)
		}
	})
}
