package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const middle = 0.5 // of the jitter: none

func TestPollAfterTable(t *testing.T) {
	for _, c := range []struct {
		name              string
		position, waiting int64
		budget            float64
		want              time.Duration
	}{
		{"the next one", 1, 1, 0, time.Second},
		{"end of the first tier", 100, 5000, 0, time.Second},
		{"second tier", 101, 5000, 0, 3 * time.Second},
		{"end of the second tier", 1000, 5000, 0, 3 * time.Second},
		{"third tier", 1001, 5000, 0, 5 * time.Second},
		{"far", 1_000_000, 1_000_000, 0, 5 * time.Second},
		{"no budget is no stretch", 1_000_000, 1_000_000, -1, 5 * time.Second},
		{"room enough", 5000, 5000, 2000, 5 * time.Second},
		// 100 at 1 s and 900 at 3 s use 400/s, 9,000 at 5 s 1,800/s: the last
		// 990,000 share 27,800/s.
		{"a million: the last", 1_000_000, 1_000_000, 30_000, 35612 * time.Millisecond},
		{"a million: the next", 1, 1_000_000, 30_000, time.Second},
		{"a million: soon", 5000, 1_000_000, 30_000, 5 * time.Second},
		// 200/s for 1,000: 900 share what the first 100 leave.
		{"the head keeps its second", 100, 1000, 200, time.Second},
		{"the rest share what it leaves", 101, 1000, 200, 9 * time.Second},
		{"a budget for nobody", 1, 10, 0.001, 50 * time.Second},
		{"more behind than the budget bears", 1, 1_000_000, 100, 50 * time.Second},
		{"a position the count does not know yet", 2000, 5, 0, 5 * time.Second},
		{"no position", 0, 0, 0, time.Second},
	} {
		got := PollAfter(c.position, c.waiting, 0, c.budget, middle).Round(time.Millisecond)
		if got != c.want {
			t.Errorf("%s: position %d of %d at %g/s: %s, want %s", c.name, c.position, c.waiting, c.budget, got, c.want)
		}
	}
}

func TestPollAfterJitter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		position := rapid.Int64Range(-1, 2_000_000).Draw(rt, "position")
		waiting := rapid.Int64Range(-1, 2_000_000).Draw(rt, "waiting")
		budget := rapid.Float64Range(-1, 50_000).Draw(rt, "budget")
		base := PollAfter(position, waiting, 0, budget, middle)
		got := PollAfter(position, waiting, 0, budget, rapid.Float64Range(0, 0.9999999).Draw(rt, "r"))
		if got < 800*time.Millisecond || got > 60*time.Second {
			rt.Fatalf("%s is out of bounds", got)
		}
		if ratio := float64(got) / float64(base); ratio < 0.7999 || ratio > 1.2001 {
			rt.Fatalf("%s is not within a fifth of %s", got, base)
		}
	})
}

// polls is how many polls/s a whole line makes.
func polls(waiting int64, budget float64) float64 {
	var sum float64
	for p := int64(1); p <= waiting; p++ {
		sum += 1 / PollAfter(p, waiting, 0, budget, middle).Seconds()
	}
	return sum
}

func TestPollAfterKeepsTheBudget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		waiting := rapid.Int64Range(1, 30_000).Draw(rt, "waiting")
		least := float64(waiting) / 50 // everybody at the longest interval
		budget := least * rapid.Float64Range(1, 60).Draw(rt, "budget as a multiple of the least")
		if sum := polls(waiting, budget); sum > budget*1.05 {
			rt.Fatalf("%d waiting poll %.1f times a second, the budget is %.1f", waiting, sum, budget)
		}
	})
}

// A budget is there to be used: a stretch beyond the need would make visitors
// learn late that they are next.
func TestPollAfterUsesTheBudget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		waiting := rapid.Int64Range(1, 30_000).Draw(rt, "waiting")
		wish := polls(waiting, 0)
		budget := rapid.Float64Range(float64(waiting)/50, wish).Draw(rt, "budget")
		if sum := polls(waiting, budget); sum < budget*0.95 {
			rt.Fatalf("%d waiting poll %.1f times a second of %.1f", waiting, sum, budget)
		}
	})
}

func TestPollAfterNeverShrinksWithThePosition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		waiting := rapid.Int64Range(1, 2_000_000).Draw(rt, "waiting")
		a := rapid.Int64Range(1, waiting).Draw(rt, "position")
		b := rapid.Int64Range(a, waiting).Draw(rt, "position behind")
		budget := rapid.Float64Range(0, 50_000).Draw(rt, "budget")
		if x, y := PollAfter(a, waiting, 0, budget, middle), PollAfter(b, waiting, 0, budget, middle); x > y {
			rt.Fatalf("position %d of %d polls every %s, position %d every %s", a, waiting, x, b, y)
		}
	})
}

func BenchmarkPollAfter(b *testing.B) {
	for b.Loop() {
		PollAfter(500_000, 1_000_000, 0, 30_000, 0.3)
	}
}
