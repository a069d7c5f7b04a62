package admission

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/queue"
)

var lawSettings = LawSettings{First: 35, WaitTarget: 500 * time.Millisecond}

// meter makes measurements of a pool of ten workers, a second apart unless told
// otherwise.
type meter struct {
	m    Measurement
	s    LawState
	step time.Duration
}

func newMeter() *meter {
	return &meter{m: Measurement{At: time.Unix(1e9, 0), Workers: 10, BacklogLimit: 1000}, step: time.Second}
}

// next is a step in which so many orders were finished, the workers were busy for
// that share of their time, and at whose end so many wait.
func (p *meter) next(finished int64, busy float64, backlog int) LawState {
	p.m.At = p.m.At.Add(p.step)
	p.m.Completed += finished
	p.m.BusyTime += time.Duration(busy * 10 * float64(p.step))
	p.m.Busy = int(math.Round(10 * busy))
	p.m.Backlog = backlog
	p.s = Next(p.s, p.m, lawSettings)
	return p.s
}

func (p *meter) times(n int, finished int64, busy float64, backlog int) LawState {
	for range n {
		p.next(finished, busy, backlog)
	}
	return p.s
}

func near(t *testing.T, what string, s LawState, want, by float64, reason LawReason) {
	t.Helper()
	if math.Abs(s.Capacity-want) > by || s.Reason != reason {
		t.Errorf("%s: %.2f/s, %s; want %.2f/s ± %.2f, %s", what, s.Capacity, s.Reason, want, by, reason)
	}
}

func TestNextFromGuessToMeasured(t *testing.T) {
	p := newMeter()
	near(t, "at first", p.next(0, 0, 0), 35, 0, ReasonFirst)
	near(t, "nothing finished yet", p.times(5, 0, 0, 0), 35, 0, ReasonFirst)
	near(t, "one that took 20 ms", p.next(1, 0.002, 0), 35, 0, ReasonGrowing)
	for i, want := range []float64{70, 140, 280, 500} { // 10 workers at 20 ms
		near(t, "free workers", p.next(35<<i, float64(int(35)<<i)/500, 0), want, 1, ReasonGrowing)
	}
	near(t, "busy, somebody waits", p.next(500, 1, 200), 500, 20, ReasonMeasured)
	near(t, "nobody comes", p.times(20, 0, 0, 0), 500, 20, ReasonIdle)
}

// A busy pool in which nobody waits may be one that commits in groups.
func TestNextLooksForMoreOfABusyPool(t *testing.T) {
	p := newMeter()
	p.times(12, 200, 1, 100)
	near(t, "measured", p.s, 200, 1, ReasonMeasured)
	near(t, "nobody waits", p.next(200, 1, 0), 220, 1, ReasonGrowing)
	near(t, "still", p.times(5, 200, 1, 0), 240, 1, ReasonGrowing)
	near(t, "it was all", p.next(200, 1, 60), 200, 1, ReasonMeasured)
}

func TestNextFollowsAChange(t *testing.T) {
	p := newMeter()
	p.times(12, 500, 1, 200)
	near(t, "slower", p.next(8, 1, 400), 13, 6, ReasonMeasured)
	near(t, "a few seconds later", p.times(4, 8, 1, 400), 8, 2, ReasonMeasured)
	near(t, "faster", p.next(500, 1, 300), 500, 20, ReasonMeasured)
}

// Ten workers at 1.3 s each that began together finish ten at a time.
func TestNextIsNotFooledByLumps(t *testing.T) {
	p := newMeter()
	finished := int64(0)
	for second := range 60 {
		by := 10 * int64(float64(second)/1.3)
		p.next(by-finished, 1, 50)
		finished = by
		if second >= 20 && math.Abs(p.s.Capacity-10/1.3) > 1.2 {
			t.Errorf("in second %d %.2f/s, want %.2f/s", second, p.s.Capacity, 10/1.3)
		}
	}
}

func TestNextOfAStalledPool(t *testing.T) {
	p := newMeter()
	p.times(12, 500, 1, 200)
	near(t, "a second", p.next(0, 1, 700), 10, 0.1, ReasonMeasured)
	near(t, "five seconds", p.times(4, 0, 1, 700), 2, 0.1, ReasonMeasured)
	s := p.times(60, 0, 1, 700)
	near(t, "a minute", s, 0.2, 0, ReasonMeasured)
	near(t, "a minute, and all gave up", p.times(5, 0, 1, 0), 0.2, 0.1, ReasonGrowing)
	near(t, "it works again", p.next(500, 1, 700), 490, 10, ReasonMeasured)
}

// What a crowd taught is forgotten when the few who order now take longer.
func TestNextOfATrickle(t *testing.T) {
	p := newMeter()
	p.times(12, 500, 1, 200)
	near(t, "a minute of 2/s at 1.3 s each", p.times(60, 2, 0.26, 0), 10/1.3, 0.1, ReasonGrowing)
	p = newMeter()
	p.next(0, 0, 0)
	near(t, "nobody uses it", p.times(60, 2, 0.004, 0), 35, 0, ReasonGrowing) // it could do 500/s
}

func TestNextAfterARestartOfItsPool(t *testing.T) {
	p := newMeter()
	p.times(12, 500, 1, 200)
	p.m.Completed = 0
	near(t, "counters from 0", p.next(0, 0, 0), 35, 0, ReasonFirst)
}

func TestNextCountsTheRefused(t *testing.T) {
	p := newMeter()
	p.times(3, 100, 1, 50)
	p.m.Refused = 70
	if s := p.next(100, 1, 0); s.Returning != 70 {
		t.Errorf("%d return, want 70", s.Returning)
	}
	if s := p.times(2, 100, 1, 0); s.Returning != 0 {
		t.Errorf("%d return after three seconds", s.Returning)
	}
}

// Whatever is measured, the capacity is a rate, and the interval hardly matters.
func TestNextAlwaysFindsARate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newMeter()
		p.m.Workers = rapid.IntRange(0, 100).Draw(t, "workers")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p.step = time.Duration(rapid.Int64Range(-1e9, 3e10).Draw(t, "step"))
			s := p.next(rapid.Int64Range(-100, 1e6).Draw(t, "finished"), rapid.Float64Range(0, 2).Draw(t, "busy"), rapid.IntRange(-1, 2000).Draw(t, "backlog"))
			if queue.ValidRate(s.Capacity) != nil || queue.ValidRate(s.Throughput) != nil || !(s.Utilisation >= 0 && s.Utilisation <= 1) {
				t.Fatalf("%v/s, throughput %v, utilisation %v", s.Capacity, s.Throughput, s.Utilisation)
			}
		}
	})
}

func TestStock(t *testing.T) {
	for _, c := range []struct {
		capacity float64
		workers  int
		target   time.Duration
		limit    int
		want     float64
	}{
		{100, 10, 500 * time.Millisecond, 1000, 25},
		{100, 10, 500 * time.Millisecond, 0, 25},
		{10_000, 10, 500 * time.Millisecond, 1000, 500}, // half of what may wait
		{20, 10, 500 * time.Millisecond, 1000, 5},       // an order takes as long as the target
		{5, 10, 500 * time.Millisecond, 1000, 0.625},    // four times as long
		{0, 10, 500 * time.Millisecond, 1000, 0},
		{100, 10, -time.Second, 1000, 0},
		{100, 0, 0, 1000, 0},
	} {
		if got := stock(c.capacity, c.workers, c.target, c.limit); !(math.Abs(got-c.want) < 1e-9) {
			t.Errorf("%g/s of %d workers, %s, at most %d: %g, want %g", c.capacity, c.workers, c.target, c.limit, got, c.want)
		}
	}
}

func TestNextAtAnyInterval(t *testing.T) {
	for _, step := range []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second} {
		p := newMeter()
		p.step = step
		p.times(int(20*time.Second/step), int64(200*step.Seconds()), 1, 100)
		near(t, step.String(), p.s, 200, 1, ReasonMeasured)
		p.times(int(20*time.Second/step), int64(40*step.Seconds()), 1, 100)
		near(t, step.String(), p.s, 40, 2, ReasonMeasured)
	}
}

func TestFirstGuess(t *testing.T) {
	for _, c := range []struct {
		workers int
		assumed time.Duration
		margin  float64
		want    float64
	}{
		{50, 200 * time.Millisecond, 0.7, 175},
		{10, 200 * time.Millisecond, 0.7, 35},
		{10, 1298 * time.Millisecond, 1, 7.704},
		{1, time.Hour, 1, 1.0 / 3600},
		{0, time.Second, 1, 0},
		{-1, time.Second, 1, 0},
		{10, 0, 1, 0},
		{10, -time.Second, 1, 0},
		{10, time.Second, 0, 0},
		{10, time.Second, -1, 0},
		{10, time.Second, math.NaN(), 0},
	} {
		if got := FirstGuess(c.workers, c.assumed, c.margin); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%d workers, %s each, margin %g: %g/s, want %g/s", c.workers, c.assumed, c.margin, got, c.want)
		}
	}
}

func TestFixed(t *testing.T) {
	var r Rater = Fixed(175)
	if rate, why := r.Rate(); rate != 175 || why != queue.LimitedByCapacity {
		t.Errorf("%g, %q", rate, why)
	}
}

// 45 orders a second at 100 ms each, and one more worker kept busy by a visitor who
// repeats an order: that says nothing of what visitors cost.
func TestNextLeavesRepetitionsOut(t *testing.T) {
	p := newMeter()
	for range 20 {
		p.m.RepeatTime += time.Second
		p.next(45, 0.55, 0)
	}
	near(t, "half of the workers busy, a tenth for nothing", p.s, 100, 1, ReasonGrowing)
}
