package queue

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEstimateNeedsTwoSecondsOfMovement(t *testing.T) {
	r := newRoad()
	r.run(1750*time.Millisecond, 10)
	if r.ok() {
		t.Errorf("an estimate from less than two seconds: %+v", r.mov)
	}
	r.run(250*time.Millisecond, 10)
	e, ok := r.mov.Estimate(400)
	if !ok || e.Expected != 10*time.Second || e.Low < 9*time.Second || e.High > 11*time.Second {
		t.Errorf("40 places/s without spread: position 400 waits %+v, %v; want 10s and little around it", e, ok)
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
	// T = 1000/100 = 10 s; σ = 20/100 × √(10 + 100/25) = 0.2 × √14 = 0.748 s, and with
	// 0.02 × 10 s + 0.2 s = 0.4 s of drift and grain 0.8485 s; × 1.645 = 1.396 s.
	m := Movement{PerSecond: 100, Spread: 20, Measured: 25 * time.Second}
	e, ok := m.Estimate(1000)
	want := Estimate{Expected: 10 * time.Second, Low: 8604 * time.Millisecond, High: 11396 * time.Millisecond}
	near := func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond }
	if !ok || !near(e.Expected, want.Expected) || !near(e.Low, want.Low) || !near(e.High, want.High) {
		t.Errorf("got %+v, want %+v", e, want)
	}
}

// What was measured says nothing of a line that lets nobody in.
func TestViewGivesNoEstimateWhileNobodyCanBeLetIn(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	soon, ago := now.Add(time.Second), now.Add(-time.Second)
	for _, c := range []struct {
		name   string
		change func(*View)
		want   bool
	}{
		{"open", func(*View) {}, true},
		{"a schedule under way", func(v *View) { v.Settings.OpensAt, v.Settings.ClosesAt = &ago, &soon }, true},
		{"an override", func(v *View) { v.Settings.RateOverride = ptr(1.0) }, true},
		{"a hold that is over", func(v *View) { v.HoldUntil = now }, true},
		{"paused", func(v *View) { v.Settings.Paused = true }, false},
		{"scheduled", func(v *View) { v.Settings.OpensAt = &soon }, false},
		{"closed", func(v *View) { v.Settings.ClosesAt = &ago }, false},
		{"recovering", func(v *View) { v.HoldUntil = soon }, false},
		{"an override of nothing", func(v *View) { v.Settings.RateOverride = ptr(0.0) }, false},
		{"not settled", func(v *View) { v.Movement.Observed = movementSettled - 1 }, false},
		{"not measured", func(v *View) { v.Movement = Movement{} }, false},
	} {
		v := View{Snapshot: Snapshot{At: now}, Movement: Movement{PerSecond: 10, Measured: 10 * time.Second, Observed: movementSettled}}
		c.change(&v)
		e, ok := v.Estimate(100)
		if ok != c.want || ok && e.Expected != 10*time.Second || !ok && e != (Estimate{}) {
			t.Errorf("%s: %+v, %v", c.name, e, ok)
		}
	}
	if e, ok := (&View{}).Estimate(1); ok {
		t.Errorf("before the first reading: %+v", e)
	}
}

// Orders take sixteen times as long from one moment to the next; the estimate
// says so before anybody has planned the evening by it.
func TestEstimateFollowsAChangeOfPace(t *testing.T) {
	for _, c := range []struct{ from, to float64 }{{100, 8}, {8, 100}, {100, 60}, {60, 80}, {1000, 700}, {20, 40}} {
		r := newRoad()
		var due float64
		second := func(rate float64) {
			for range 4 {
				due += rate / 4
				whole := math.Floor(due)
				due -= whole
				r.snap.Admitted += int64(whole)
				r.read(250 * time.Millisecond)
			}
		}
		for range 40 {
			second(c.from)
		}
		after := 0
		for ; math.Abs(r.mov.PerSecond/c.to-1) > 0.2; after++ {
			second(c.to)
		}
		t.Logf("%g/s to %g/s: within 20 %% after %d s", c.from, c.to, after)
		if after > 6 {
			t.Errorf("%g/s to %g/s: told after %d s", c.from, c.to, after)
		}
	}
}

// Those who give up stand anywhere: the fewer are in front, the fewer of them.
func TestEstimateCountsThoseWhoGiveUp(t *testing.T) {
	r := newRoad()
	r.snap.Waiting = 4000
	r.read(0)
	for range 40 { // 2 % of those who wait give up each second; as many come
		r.snap.Admitted += 10
		r.snap.Left += 20
		r.read(250 * time.Millisecond)
	}
	if r.mov.PerSecond != 40 || math.Abs(r.mov.Leaving-0.02) > 1e-9 {
		t.Errorf("40 places/s and 80 of 4,000 leaving, measured %+v", r.mov)
	}
	want := simulateLeaving(4000, 40, 0.02)
	if e, ok := r.mov.Estimate(4000); !ok || math.Abs(e.Expected.Seconds()-want) > 0.2 {
		t.Errorf("position 4000 waits %s, want %.1f s (%d s without them)", e.Expected, want, 4000/40)
	}
}

// simulateLeaving is the wait at a position of which a share leaves per second,
// step by step.
func simulateLeaving(position, pace, share float64) (wait float64) {
	const step = 0.001
	for ; position > 0; wait += step {
		position -= (pace + share*position) * step
	}
	return wait
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

// Whoever might be let in soon must ask soon: also before anything was measured,
// and when the rate has just risen.
func TestSoonestGoesByTheFasterOfPaceAndRate(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		want time.Duration
	}{
		"nothing known":      {View{}, 0},
		"only a rate":        {View{Snapshot: Snapshot{Rate: 50}}, 2 * time.Second},
		"only a pace":        {View{Movement: Movement{PerSecond: 20}}, 5 * time.Second},
		"the rate has risen": {View{Snapshot: Snapshot{Rate: 50}, Movement: Movement{PerSecond: 20}}, 2 * time.Second},
		"paused":             {View{Snapshot: Snapshot{Rate: 50, Settings: Settings{Paused: true}}}, 0},
		"passed by":          {View{Snapshot: Snapshot{Rate: 50, Settings: Settings{Mode: ModeBypass}}}, 0},
		"blocked":            {View{Snapshot: Snapshot{Rate: 50, Settings: Settings{Mode: ModeBlock}}}, 0},
		"the rate is nought": {View{Movement: Movement{PerSecond: 10}}, 10 * time.Second},
	} {
		if got := c.view.Soonest(100); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := (&View{Snapshot: Snapshot{Rate: 50}}).Soonest(0); got != 0 {
		t.Errorf("position 0 is reached in %s", got)
	}
}

// A line that has just begun to move looks for its pace, unless an operator set it.
func TestViewGivesNoEstimateUntilTheLineHasSettled(t *testing.T) {
	r := newRoad()
	estimate := func(override *float64) (Estimate, bool) {
		r.snap.Settings.RateOverride = override
		return (&View{Snapshot: r.snap, Movement: r.mov}).Estimate(300)
	}
	// A first guess that was too high, the backlog it left, and then the true pace.
	for _, n := range []int64{17, 26, 5, 0, 0, 1, 7, 4} {
		r.run(time.Second, n)
		if e, ok := estimate(nil); ok {
			t.Fatalf("after %s at another pace every second: %+v", r.mov.Observed, e)
		}
	}
	r.run(13*time.Second, 5)
	if e, ok := estimate(nil); !ok || (e.Expected-15*time.Second).Abs() > 3*time.Second {
		t.Errorf("once it has settled: %+v, %v", e, ok)
	}
	r = newRoad()
	r.run(3*time.Second, 5)
	if e, ok := estimate(new(20.0)); !ok || e.Expected != 15*time.Second {
		t.Errorf("at a pace of the operator's: %+v, %v", e, ok)
	}
}
