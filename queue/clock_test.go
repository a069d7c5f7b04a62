package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// storeAhead is how far the store's clock is ahead of this machine's in the
// tests of the clock.
const storeAhead = 42 * time.Second

// reading lets one reading of the store take its time there and back and tells
// the clock of it.
func reading(c *clock, there, back, ahead time.Duration) {
	sent := time.Now()
	time.Sleep(there)
	store := time.Now().Add(ahead)
	time.Sleep(back)
	c.observe(sent, time.Now(), store)
}

// off is how far the clock is from the store's.
func off(c *clock, ahead time.Duration) time.Duration { return c.now().Sub(time.Now().Add(ahead)) }

func TestClockIsLocalBeforeTheFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		time.Sleep(time.Hour)
		if d := off(c, 0); d != 0 {
			t.Errorf("off by %s from the local time", d)
		}
	})
}

func TestClockTakesTheMiddleOfTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		reading(c, 3*time.Millisecond, 3*time.Millisecond, storeAhead)
		if d := off(c, storeAhead); d != 0 {
			t.Errorf("off by %s after an even round trip", d)
		}
		c = newClock()
		reading(c, 0, 6*time.Millisecond, storeAhead)
		if d := off(c, storeAhead); d != -3*time.Millisecond {
			t.Errorf("off by %s, want half the uneven round trip", d)
		}
	})
}

func TestClockBelievesTheShortestRoundTripOfTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		reading(c, 0, 2*time.Millisecond, storeAhead)
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			reading(c, 0, 80*time.Millisecond, storeAhead)
			if d := off(c, storeAhead); d != -time.Millisecond {
				t.Fatalf("off by %s: a longer round trip displaced a shorter one", d)
			}
		}
		time.Sleep(10 * time.Second)
		reading(c, 0, 80*time.Millisecond, storeAhead)
		if d := off(c, storeAhead); d != -40*time.Millisecond {
			t.Errorf("off by %s: a sample older than a minute still serves", d)
		}
	})
}

func TestClockStandsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		reading(c, time.Millisecond, time.Millisecond, storeAhead)
		time.Sleep(3 * time.Hour)
		if d := off(c, storeAhead); d != 0 {
			t.Errorf("off by %s", d)
		}
	})
}

func TestClockFollowsAStoreWhoseClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		reading(c, 0, 0, storeAhead) // the best sample there can be
		time.Sleep(time.Second)
		reading(c, time.Millisecond, time.Millisecond, -storeAhead)
		if d := off(c, -storeAhead); d != 0 {
			t.Errorf("off by %s from the store that answers now", d)
		}
	})
}

// When somebody sets this machine's wall clock, nothing moves: time passes by
// the monotonic reading of the base, and what now returns has none to be
// compared by.
func TestClockKeepsNoWallTime(t *testing.T) {
	c := newClock() // not in a bubble: virtual time has no monotonic reading
	if c.base == c.base.Round(0) {
		t.Error("the base has no monotonic reading")
	}
	if now := c.now(); now != now.Round(0) {
		t.Error("the store's time carries this machine's monotonic reading")
	}
}

// Whatever the readings, the clock is within half the round trip of the one it
// believes, and that is the shortest.
func TestClockErrorIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &clock{}
		shortest := time.Duration(1 << 62)
		const truth = int64(storeAhead)
		var at time.Duration
		for range rapid.IntRange(1, 20).Draw(rt, "readings") {
			there := time.Duration(rapid.Int64Range(0, 1e8).Draw(rt, "there"))
			back := time.Duration(rapid.Int64Range(0, 1e8).Draw(rt, "back"))
			at += there + back
			store := truth + int64(at-back)
			c.learn(clockSample{at: at, roundTrip: there + back, offset: store - int64(at-(there+back)/2)})
			shortest = min(shortest, there+back)
			if d := time.Duration(c.offset.Load() - truth).Abs(); d > shortest/2+1 {
				rt.Fatalf("off by %s, half the shortest round trip is %s", d, shortest/2)
			}
		}
	})
}
