package queue

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// road is a line that is read at intervals: the tests say what happens between.
type road struct {
	m    meter
	snap Snapshot
	mov  Movement
}

func newRoad() *road {
	r := &road{snap: Snapshot{Line: "l", Waiting: 1_000_000, At: time.UnixMilli(1_700_000_000_000)}}
	r.read(0)
	return r
}

// read lets the time pass and takes a reading.
func (r *road) read(after time.Duration) {
	r.snap.At = r.snap.At.Add(after)
	r.mov = r.m.observe(r.snap)
}

// run admits n before each of the readings, four a second.
func (r *road) run(d time.Duration, n int64) {
	for range int(d / (250 * time.Millisecond)) {
		r.snap.Admitted += n
		r.read(250 * time.Millisecond)
	}
}

func (r *road) ok() bool {
	_, ok := r.mov.Estimate(10)
	return ok
}

func TestEstimateNeedsTwoSecondsOfMovement(t *testing.T) {
	r := newRoad()
	r.run(1750*time.Millisecond, 10)
	if r.ok() {
		t.Errorf("an estimate from less than two seconds: %+v", r.mov)
	}
	r.run(250*time.Millisecond, 10)
	e, ok := r.mov.Estimate(400)
	if !ok || e.Expected != 10*time.Second || e.Low != e.Expected || e.High != e.Expected {
		t.Errorf("40 places/s without spread: position 400 waits %+v, %v; want 10s sharp", e, ok)
	}
}

func TestEstimateRefusesWhatHasNoMeaning(t *testing.T) {
	m := Movement{PerSecond: 10, Spread: 1, Measured: 10 * time.Second}
	for _, position := range []int64{0, -1} {
		if e, ok := m.Estimate(position); ok {
			t.Errorf("position %d: %+v", position, e)
		}
	}
	for _, m := range []Movement{{}, {PerSecond: 10, Measured: movementMin - 1}, {Measured: movementWindow}} {
		if e, ok := m.Estimate(1); ok {
			t.Errorf("an estimate from %+v: %+v", m, e)
		}
	}
	if e, ok := (Movement{PerSecond: 1e-9, Spread: 1, Measured: time.Minute}).Estimate(1 << 62); !ok || e.High <= 0 || e.Expected <= 0 {
		t.Errorf("a wait beyond all measure overflowed: %+v", e)
	}
}

func TestEstimateFormula(t *testing.T) {
	// T = 1000/100 = 10 s; σ = 20/100 × √(10 + 100/25) = 0.2 × √14 = 0.748 s.
	m := Movement{PerSecond: 100, Spread: 20, Measured: 25 * time.Second}
	e, ok := m.Estimate(1000)
	want := Estimate{Expected: 10 * time.Second, Low: 8769 * time.Millisecond, High: 11231 * time.Millisecond}
	near := func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond }
	if !ok || !near(e.Expected, want.Expected) || !near(e.Low, want.Low) || !near(e.High, want.High) {
		t.Errorf("got %+v, want %+v", e, want)
	}
}

func TestMovementEndsWhenTheLineStandsStill(t *testing.T) {
	r := newRoad()
	r.run(10*time.Second, 10)
	r.run(25*time.Second, 0)
	if !r.ok() {
		t.Error("the window still holds movement")
	}
	r.run(10*time.Second, 0)
	if r.ok() {
		t.Errorf("nothing moved for 35 s, yet: %+v", r.mov)
	}
}

func TestMovementForgetsWhatIsOlderThanTheWindow(t *testing.T) {
	r := newRoad()
	r.run(40*time.Second, 100)
	r.run(31*time.Second, 10)
	if r.mov.PerSecond != 40 || r.mov.Spread != 0 {
		t.Errorf("the pace is 40/s for 31 s, measured %+v", r.mov)
	}
	if r.mov.Measured > movementWindow+movementBucket {
		t.Errorf("measured over %s", r.mov.Measured)
	}
}

func TestMovementStartsAfresh(t *testing.T) {
	rate := func(f float64) *float64 { return &f }
	for name, change := range map[string]func(*Snapshot){
		"a new epoch":            func(s *Snapshot) { s.Epoch++ },
		"the counter went back":  func(s *Snapshot) { s.Admitted = 1 },
		"paused":                 func(s *Snapshot) { s.Settings.Paused = true },
		"another mode":           func(s *Snapshot) { s.Settings.Mode = ModePassthrough },
		"an override set":        func(s *Snapshot) { s.Settings.RateOverride = rate(5) },
		"another max_active":     func(s *Snapshot) { s.Settings.MaxActive = 9 },
		"the store's clock back": func(s *Snapshot) { s.At = s.At.Add(-time.Minute) },
		"not read for long":      func(s *Snapshot) { s.At = s.At.Add(movementWindow) },
	} {
		r := newRoad()
		r.run(5*time.Second, 10)
		change(&r.snap)
		r.read(250 * time.Millisecond)
		if r.mov != (Movement{}) {
			t.Errorf("%s: the old pace is still told: %+v", name, r.mov)
		}
		r.run(2*time.Second, 20)
		if r.mov.PerSecond != 80 {
			t.Errorf("%s: then 80/s, measured %+v", name, r.mov)
		}
	}
	r := newRoad()
	r.snap.Settings.RateOverride = rate(5)
	r.run(5*time.Second, 10)
	r.snap.Settings.RateOverride = rate(5) // the same figure read again
	r.snap.Settings.Message = "soon"
	r.snap.Settings.Revision++
	r.run(time.Second, 10)
	if r.mov.Measured < 5*time.Second {
		t.Errorf("a change that leaves the pace alone started afresh: %+v", r.mov)
	}
}

func TestMovementCountsOnlyTimeInWhichSomebodyWaits(t *testing.T) {
	r := newRoad()
	r.run(5*time.Second, 10)
	r.snap.Waiting = 0
	r.run(10*time.Second, 0)
	r.snap.Waiting = 500
	r.run(5*time.Second, 10)
	if r.mov.PerSecond != 40 || r.mov.Spread != 0 {
		t.Errorf("an idle line looks slow: %+v", r.mov)
	}
}

func TestMovementCountsTheAway(t *testing.T) {
	r := newRoad()
	for range 12 { // 1 s: 10 admitted, 30 gone away; then 10 of those admitted after their return
		r.snap.Admitted += 10
		r.snap.Away += 30
		r.read(500 * time.Millisecond)
	}
	if r.mov.PerSecond != 80 {
		t.Errorf("40 places in half a second, measured %+v", r.mov)
	}
	before := r.snap
	r.snap.Away -= 30 // come back
	if n := moved(before, r.snap); n != 0 {
		t.Errorf("those who come back moved the line by %d", n)
	}
	r.snap.Admitted += 50 // and are let in with 20 others
	if n := moved(before, r.snap); n != 20 {
		t.Errorf("the line moved by %d, want 20", n)
	}
}

func TestMovementIgnoresTheSameReadingTwice(t *testing.T) {
	r := newRoad()
	for range 40 {
		r.run(250*time.Millisecond, 10)
		r.read(0)
	}
	if r.mov.PerSecond != 40 {
		t.Errorf("40 places/s, measured %+v", r.mov)
	}
}

// Of many lines that move at random, about nine in ten let the visitor in within
// the range that was told.
func TestEstimateRangeHoldsForNineInTen(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const lines, position = 400, 2000
	within := 0
	for range lines {
		r := newRoad()
		step := func() int64 { return rnd.Int64N(41) } // 80/s on average, unevenly
		for range 80 {
			r.run(250*time.Millisecond, step())
		}
		e, ok := r.mov.Estimate(position)
		if !ok {
			t.Fatalf("no estimate: %+v", r.mov)
		}
		var waited time.Duration
		for left := int64(position); left > 0; waited += 250 * time.Millisecond {
			left -= step()
		}
		if e.Low <= waited && waited <= e.High {
			within++
		}
	}
	if within < lines*85/100 || within > lines*97/100 {
		t.Errorf("%d of %d waits were within their range, want about 90 %%", within, lines)
	}
}

func TestEstimateIsOrdered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := Movement{
			PerSecond: rapid.Float64Range(1e-6, 1e6).Draw(rt, "pace"),
			Spread:    rapid.Float64Range(0, 1e6).Draw(rt, "spread"),
			Measured:  time.Duration(rapid.Int64Range(int64(movementMin), int64(movementWindow)).Draw(rt, "measured")),
		}
		p := rapid.Int64Range(1, 1<<40).Draw(rt, "position")
		e, ok := m.Estimate(p)
		if !ok || e.Low < 0 || e.Low > e.Expected || e.Expected > e.High {
			rt.Fatalf("position %d: %+v, %v", p, e, ok)
		}
		if next, _ := m.Estimate(p + 1); next.Expected < e.Expected {
			rt.Fatalf("position %d waits %s, the next %s", p, e.Expected, next.Expected)
		}
	})
}
