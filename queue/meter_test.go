package queue

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
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

func TestMovementEndsWhenTheLineStandsStill(t *testing.T) {
	r := newRoad()
	r.run(10*time.Second, 10)
	r.run(2*time.Second, 0)
	if !r.ok() {
		t.Error("two seconds are a hiccup")
	}
	r.run(3*time.Second, 0)
	if r.ok() {
		t.Errorf("nothing moved for 5 s, yet: %+v", r.mov)
	}
	r.run(40*time.Second, 0)
	if r.ok() {
		t.Errorf("nothing moved for 45 s, yet: %+v", r.mov)
	}
}

// Two a minute are a slow pace, not a standstill now and then.
func TestMovementOfASlowLine(t *testing.T) {
	r := newRoad()
	for i := range 120 {
		r.run(time.Second, 0)
		if i%10 == 0 {
			r.snap.Admitted++
		}
		if e, ok := r.mov.Estimate(10); i > 30 && (!ok || (e.Expected-100*time.Second).Abs() > 15*time.Second) {
			t.Fatalf("after %d s: ten places at one in ten seconds take %+v, %v; measured %+v", i, e, ok, r.mov)
		}
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
		"closed":                 func(s *Snapshot) { s.Settings.ClosesAt = ptr(s.At) },
		"a hold":                 func(s *Snapshot) { s.HoldUntil = s.At.Add(time.Hour) },
		"another incarnation":    func(s *Snapshot) { s.Created = s.At },
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
	for range 12 { // in 0.5 s: 10 admitted, 30 found gone
		r.snap.Admitted += 10
		r.snap.Away += 30
		r.read(500 * time.Millisecond)
	}
	if r.mov.PerSecond != 80 || r.mov.AdmittedPerSecond != 20 {
		t.Errorf("40 places in half a second, 10 of them let in, measured %+v", r.mov)
	}
	// Each returns for each who goes: what moves the line is who is let in.
	r = newRoad()
	for i := range int64(20) {
		r.snap.Admitted += 10
		r.snap.Away += 10 * (1 - 2*(i%2))
		r.read(500 * time.Millisecond)
	}
	if r.mov.PerSecond != 20 {
		t.Errorf("10 places in half a second, measured %+v", r.mov)
	}
}

// In a line so young that nobody at its head can have been found gone yet, nothing is
// known of how many will be: the count begins with the first.
func TestMovementCountsTheAwaySinceTheFirst(t *testing.T) {
	r := newRoad()
	r.run(12*time.Second, 5)
	if r.mov.PerSecond != 20 {
		t.Errorf("20 places a second, measured %+v", r.mov)
	}
	second := func(gone int64) {
		r.snap.Away += gone
		r.run(time.Second, 5)
	}
	second(1)
	if r.mov.PerSecond != 20 {
		t.Errorf("one who is found tells no share yet, measured %+v", r.mov)
	}
	for range 6 {
		second(5)
	}
	if r.mov.PerSecond != 25 {
		t.Errorf("20 a second let in and 5 found, measured %+v", r.mov)
	}
}

// Counting from the first is no bias: whenever people are found, at random and in
// lumps, on average as many are told as there are.
func TestMovementCountsTheAwayRightOnAverage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, often := range []float64{0.05, 0.3, 1} {
		const lines, most = 4000, 9
		sum := 0.0
		for range lines {
			window := make([]bucket, 30)
			for i := range window {
				window[i] = bucket{span: time.Second, admitted: 20}
				if rnd.Float64() < often {
					window[i].gone = rnd.Int64N(most + 1)
				}
			}
			sum += gonePerAdmission(window) / lines
		}
		if want := often * most / 2 / 20; math.Abs(sum-want) > 0.02*want+0.003 {
			t.Errorf("%.4f for each who is let in, want %.4f", sum, want)
		}
	}
}

// Who is given up was found gone long before, and moves nobody again.
func TestMovementIgnoresTheGivenUp(t *testing.T) {
	r := newRoad()
	r.snap.Away = 1000
	r.m = meter{}
	r.read(0)
	for range 20 {
		r.snap.Admitted += 10
		r.snap.Away -= 20
		r.snap.GivenUp += 20
		r.read(500 * time.Millisecond)
	}
	if r.mov.PerSecond != 20 {
		t.Errorf("10 places in half a second, measured %+v", r.mov)
	}
}

// Those let in without the line are told when its store is back, all at once.
func TestMovementIgnoresWhoPassedTheLine(t *testing.T) {
	r := newRoad()
	r.run(25*time.Second, 5)
	r.snap.Admitted, r.snap.Bypassed = r.snap.Admitted+1000, 1000
	r.run(2*time.Second, 5)
	if math.Abs(r.mov.PerSecond-20) > 0.1 || r.mov.Measured < 20*time.Second {
		t.Errorf("%+v, want 20 a second as before", r.mov)
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
