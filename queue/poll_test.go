package queue

import (
	"math"
	"math/rand/v2"
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

// Nobody is told much more than half of what they will wait, and nothing else
// about an interval changes.
func TestPollAfterTellsAtMostHalfOfTheWait(t *testing.T) {
	for _, c := range []struct {
		position, waiting int64
		wait              time.Duration
		budget            float64
		want              time.Duration
	}{
		{5000, 5000, 100 * time.Second, 0, 5 * time.Second}, // the tier
		{5000, 5000, 10 * time.Second, 0, 5 * time.Second},
		{5000, 5000, 8 * time.Second, 0, 4 * time.Second}, // half
		{5000, 5000, 2 * time.Second, 0, time.Second},
		{5000, 5000, time.Millisecond, 0, time.Second}, // never below the first tier
		{50, 5000, 10 * time.Second, 0, time.Second},
		{500_000, 1_000_000, 40 * time.Second, 20_000, 20 * time.Second}, // a budget yields to it
		{500_000, 1_000_000, math.MaxInt64, 0, 5 * time.Second},
	} {
		got := PollAfter(c.position, c.waiting, c.wait, c.budget, middle).Round(time.Millisecond)
		if got != c.want {
			t.Errorf("position %d of %d with a wait of %s at %g/s: %s, want %s", c.position, c.waiting, c.wait, c.budget, got, c.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		position := rapid.Int64Range(1, 2_000_000).Draw(rt, "position")
		wait := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(rt, "wait"))
		budget := rapid.Float64Range(0, 50_000).Draw(rt, "budget")
		r := rapid.Float64Range(0, 0.9999999).Draw(rt, "r")
		got, free := PollAfter(position, position, wait, budget, r), PollAfter(position, position, 0, budget, r)
		if got > max(wait*6/10, 1200*time.Millisecond) || got < 800*time.Millisecond || got > free {
			rt.Fatalf("told %s, %s without an estimate", got, free)
		}
	})
}

// What the bound costs beyond the budget is a few polls for each who is let in.
func TestPollAfterHalfOfTheWaitIsCheap(t *testing.T) {
	const waiting, rate, budget = 100_000, 200, 2500
	var sum float64
	for p := int64(1); p <= waiting; p++ {
		wait := time.Duration(p) * time.Second / rate
		sum += 1 / PollAfter(p, waiting, wait, budget, middle).Seconds()
	}
	each := (sum - budget) / rate
	t.Logf("%.0f polls/s with a budget of %d/s: %.1f more for each who is let in", sum, budget, each)
	if each > 8 {
		t.Errorf("each visitor polls %.1f times more than the budget has", each)
	}
}

func TestPollScheduledTable(t *testing.T) {
	for _, c := range []struct {
		name    string
		opensIn time.Duration
		waiting int64
		budget  float64
		r       float64
		want    time.Duration
	}{
		{"an hour ahead", time.Hour, 10, 1000, middle, 5 * time.Second},
		{"the earliest", time.Hour, 10, 1000, 0, 4 * time.Second},
		{"no budget", time.Hour, 1_000_000, 0, middle, 5 * time.Second},
		{"stretched", time.Hour, 100_000, 10_000, middle, 10 * time.Second},
		{"stretched to the end", time.Hour, 1_000_000, 100, middle, 50 * time.Second},
		{"the last but one", 6001 * time.Millisecond, 10, 1000, middle, 5 * time.Second},
		{"the last one, the first of all", 6 * time.Second, 10_000, 5000, 0, 6 * time.Second},
		{"the last one, the last of all", 6 * time.Second, 10_000, 5000, 0.999999, 8 * time.Second},
		{"a small draw is spread over a second", 3 * time.Second, 10, 5000, 0.5, 3500 * time.Millisecond},
		{"no budget is a second too", 3 * time.Second, 1_000_000, 0, 0.5, 3500 * time.Millisecond},
		{"as far as anybody is told", 40 * time.Second, 1_000_000, 10_000, 0.9, 58 * time.Second},
		{"about to open", time.Millisecond, 10, 1000, 0, 800 * time.Millisecond},
		{"open by now", -time.Minute, 10, 1000, middle, time.Second},
		{"open by now, a large draw", -time.Minute, 500_000, 10_000, 0.5, 25 * time.Second},
		{"nobody counted yet", 3 * time.Second, 0, 0.5, 0.5, 4 * time.Second},
	} {
		got := PollScheduled(c.opensIn, c.waiting, c.budget, c.r).Round(time.Millisecond)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPollScheduledBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		opensIn := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(24*time.Hour)).Draw(rt, "opens in"))
		waiting := rapid.Int64Range(-1, 2_000_000).Draw(rt, "waiting")
		budget := rapid.Float64Range(-1, 50_000).Draw(rt, "budget")
		got := PollScheduled(opensIn, waiting, budget, rapid.Float64Range(0, 0.9999999).Draw(rt, "r"))
		if got < 800*time.Millisecond || got > time.Minute {
			rt.Fatalf("%s is out of bounds", got)
		}
	})
}

// A crowd that obeys: how often it polls after the opening, and when the last has
// asked.
func TestPollScheduledCrowd(t *testing.T) {
	const opensIn = 2 * time.Minute
	for _, c := range []struct {
		crowd  int64
		budget float64
		asked  time.Duration // after the opening, when everybody has
		over   float64       // the budget, at most
	}{
		{20_000, 2000, 10 * time.Second, 1.1},
		{500, 2000, time.Second, 1},
		{20_000, 0, time.Second, 0},
		{50_000, 1000, 50 * time.Second, 2.5}, // more than 30 s to wait are more than 60 s to tell
	} {
		rnd := rand.New(rand.NewPCG(3, 4))
		perSecond := make(map[int]float64) // since the opening
		var last time.Duration
		for range c.crowd {
			now := -opensIn + time.Duration(rnd.Float64()*30*float64(time.Second)) // they arrive over 30 s
			for now < 0 {
				told := PollScheduled(-now, c.crowd, c.budget, rnd.Float64())
				if now+told < 0 && -now <= scheduledEvery*time.Second {
					t.Fatalf("told %s at %s before the opening", told, -now)
				}
				now += told
				perSecond[int(math.Floor(now.Seconds()))]++
			}
			last = max(last, now)
		}
		if limit := c.asked + 1200*time.Millisecond; last > limit {
			t.Errorf("%d at %g/s: the last asks %s after the opening, want %s", c.crowd, c.budget, last, limit)
		}
		var most float64
		for second, n := range perSecond {
			if second >= 0 {
				most = max(most, n)
			}
		}
		t.Logf("%d at %g/s: at most %.0f polls in a second of the opening, the last %s after the opening", c.crowd, c.budget, most, last)
		if c.budget > 0 && float64(c.crowd) > c.budget && most > c.over*c.budget {
			t.Errorf("%d at %g/s: %.0f polls in one second", c.crowd, c.budget, most)
		}
	}
}

func BenchmarkPollAfter(b *testing.B) {
	for b.Loop() {
		PollAfter(500_000, 1_000_000, 0, 30_000, 0.3)
	}
}
