package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// part is what can break.
type part string

const (
	theRedis    part = "Redis"
	theDatabase part = "MariaDB"
	oneInstance part = "instance 1"
	twoInstance part = "instance 2"
)

// harm is how it breaks.
type harm string

const (
	killed  harm = "killed"  // at once, and started again; Redis keeps nothing
	frozen  harm = "frozen"  // SIGSTOP: connections stay, nothing is answered
	stopped harm = "stopped" // SIGTERM, and started again
	flushed harm = "flushed" // FLUSHALL
)

// fault is one thing that goes wrong, at a time from the start of a run.
type fault struct {
	at, lasts time.Duration
	part      part
	harm      harm
}

func (f fault) String() string { return fmt.Sprintf("%s %s", f.part, f.harm) }

// loses is whether a line's store forgets everything by it.
func (f fault) loses() bool { return f.part == theRedis && f.harm != frozen }

// everyFault is what a run goes through, shuffled, again and again: so a run of minutes
// sees each of them as well.
var everyFault = []fault{
	{part: theRedis, harm: killed}, {part: theRedis, harm: frozen}, {part: theRedis, harm: flushed},
	{part: theDatabase, harm: killed}, {part: theDatabase, harm: frozen},
	{part: oneInstance, harm: killed}, {part: twoInstance, harm: frozen}, {part: oneInstance, harm: stopped},
	{part: twoInstance, harm: killed}, {part: oneInstance, harm: frozen}, {part: twoInstance, harm: stopped},
}

// Bounds of a plan. The last fault has ended a while before the plan has.
const (
	firstFault   = 12 * time.Second
	longestFault = 8 * time.Second
	// How long recovery is watched before the next fault: after a loss the line holds
	// for the longest interval told and chaosHold.
	leastPause, spreadPause = 5 * time.Second, 6 * time.Second
	chaosHold               = 5 * time.Second
	holdPause               = 5*time.Second + chaosHold
)

// planChaos says what goes wrong when, by the seed and nothing else. One in four faults
// has another, of another part, begin while it lasts.
func planChaos(seed uint64, over time.Duration) (plan []fault) {
	r := rand.New(rand.NewPCG(seed, 5))
	var deck []fault
	draw := func(besides part) fault {
		i := slices.IndexFunc(deck, func(f fault) bool { return f.part != besides })
		if i < 0 {
			deck = append(deck, everyFault...)
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
			i = slices.IndexFunc(deck, func(f fault) bool { return f.part != besides })
		}
		f := deck[i]
		deck = slices.Delete(deck, i, i+1)
		f.lasts = 500*time.Millisecond + time.Duration(r.Int64N(int64(longestFault-500*time.Millisecond)))
		if f.harm == flushed {
			f.lasts = 0
		}
		return f
	}
	for at := firstFault; ; {
		first := draw("")
		first.at = at
		group := []fault{first}
		if r.IntN(4) == 0 && first.lasts > 0 {
			second := draw(first.part)
			second.at = at + time.Duration(r.Int64N(int64(first.lasts)))
			group = append(group, second)
		}
		for _, f := range group {
			at = max(at, f.at+f.lasts)
		}
		if at > over-firstFault {
			return plan
		}
		plan = append(plan, group...)
		at += leastPause + time.Duration(r.Int64N(int64(spreadPause)))
		if slices.ContainsFunc(group, fault.loses) {
			at += holdPause
		}
	}
}

func TestChaosIsOfItsSeed(t *testing.T) {
	const over = 30 * time.Minute
	plan := planChaos(7, over)
	if again := planChaos(7, over); !slices.Equal(plan, again) {
		t.Errorf("another plan of the same seed:\n%v\n%v", plan, again)
	}
	if other := planChaos(8, over); slices.Equal(plan, other) {
		t.Error("the same plan of another seed")
	}
	// A longer run begins as the shorter one.
	if longer := planChaos(7, 2*over); !slices.Equal(plan, longer[:len(plan)]) {
		t.Error("the duration changes what happens before its end")
	}
}

func TestChaosKeepsToItsBounds(t *testing.T) {
	for seed := range uint64(200) {
		const over = 10 * time.Minute
		plan := planChaos(seed, over)
		count := map[string]int{}
		double := 0
		for i, f := range plan {
			count[f.String()]++
			if f.at < firstFault || f.at+f.lasts > over-firstFault || f.lasts > longestFault || f.lasts < 500*time.Millisecond && f.harm != flushed {
				t.Fatalf("seed %d: %v at %s for %s", seed, f, f.at, f.lasts)
			}
			for _, before := range plan[:i] {
				if before.part == f.part && f.at < before.at+before.lasts+leastPause {
					t.Fatalf("seed %d: %v at %s, and %v until %s", seed, f, f.at, before, before.at+before.lasts)
				}
				if f.at < before.at+before.lasts {
					double++
				}
			}
		}
		if len(count) != len(everyFault) {
			t.Fatalf("seed %d: only %v", seed, count)
		}
		if double == 0 || double > len(plan)/2 {
			t.Fatalf("seed %d: %d of %d faults begin during another", seed, double, len(plan))
		}
	}
}
