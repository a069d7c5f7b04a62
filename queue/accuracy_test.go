package queue

import (
	"math"
	"testing"
	"time"
)

// stretch is a line that is read four times a second: a place a microsecond, all of whom
// wait at the start.
type stretch struct {
	t    *testing.T
	m    meter
	told forecasts
	snap Snapshot
	acc  Accuracy
}

func newStretch(t *testing.T, waiting int64) *stretch {
	r := &stretch{t: t, snap: Snapshot{
		Line: "l", Waiting: waiting, Head: 1000, Last: 1000 + waiting, At: time.UnixMilli(1_700_000_000_000),
		Settings: Settings{Mode: ModeNormal, Weight: 1},
	}}
	r.read(0)
	return r
}

func (r *stretch) read(after time.Duration) {
	r.snap.At = r.snap.At.Add(after)
	v := View{Snapshot: r.snap, Movement: r.m.observe(r.snap)}
	r.acc = r.told.observe(v)
	if len(r.told.open) > forecastsOpen {
		r.t.Fatalf("%d are awaited", len(r.told.open))
	}
}

// run lets in as many and has as many come, per second.
func (r *stretch) run(d time.Duration, in, come int64) {
	r.t.Helper()
	const every = 250 * time.Millisecond
	for i := range int64(d / every) {
		quarter := func(perSecond int64) int64 { return perSecond*(i+1)/4 - perSecond*i/4 }
		came, let := quarter(come), min(quarter(in), r.snap.Waiting)
		r.snap.Waiting += came - let
		r.snap.Last += came
		r.snap.Admitted += let
		r.snap.Head += let
		r.read(every)
	}
}

func (r *stretch) settled() int64 { return r.acc.Early + r.acc.Kept + r.acc.Late }

// A line that goes on as it did keeps its word.
func TestAccuracyOfAnEvenLine(t *testing.T) {
	r := newStretch(t, 1000)
	r.run(3*time.Minute, 20, 20)
	if r.settled() < 10 || r.acc.Early+r.acc.Late > 0 || r.acc.Recent == 0 || math.Abs(r.acc.Error) > .03 {
		t.Errorf("%+v", r.acc)
	}
	r.run(20*time.Second, 0, 0)
	if r.acc.Recent != 0 {
		t.Errorf("nothing has ended for 20 s: %+v", r.acc)
	}
}

// A line that became half as fast made those wait twice as long as they were told; one
// that became faster told too much.
func TestAccuracyOfALineThatChanges(t *testing.T) {
	r := newStretch(t, 1000)
	r.run(45*time.Second, 20, 20)
	r.run(55*time.Second, 10, 10)
	// Told at 45 s: 50 s. The head passes 500 more in 50 s, 500 in the next.
	r.run(40*time.Second, 10, 10)
	if r.acc.Late < 3 || r.acc.Early > 0 || r.acc.Recent == 0 || r.acc.Error < .5 || r.acc.Error > 1.1 {
		t.Errorf("slower: %+v", r.acc)
	}
	fast := newStretch(t, 1000)
	fast.run(45*time.Second, 10, 10)
	fast.run(25*time.Second, 40, 10)
	if fast.acc.Early < 3 || fast.acc.Late > 0 || fast.acc.Error > -.3 {
		t.Errorf("faster: %+v", fast.acc)
	}
}

// What an operator does, a loss, a gap, and a line that runs empty are no lies.
func TestAccuracyOfWhatIsVoid(t *testing.T) {
	for name, between := range map[string]func(r *stretch){
		"a pause": func(r *stretch) {
			r.snap.Settings.Paused = true
			r.run(30*time.Second, 0, 0)
			r.snap.Settings.Paused = false
		},
		"a rate of the operator's": func(r *stretch) { r.snap.Settings.RateOverride = new(5.0) },
		"another epoch":            func(r *stretch) { r.snap.Epoch++ },
		"a loss":                   func(r *stretch) { r.snap.Created = r.snap.At },
		"a store that is away":     func(r *stretch) { r.snap.At = r.snap.At.Add(20 * time.Second) },
		"an empty line": func(r *stretch) {
			r.snap.Waiting, r.snap.Left = 0, r.snap.Left+r.snap.Waiting // all have left
			r.run(30*time.Second, 0, 0)
			r.snap.Waiting, r.snap.Last = 1, r.snap.Last+1
			r.run(250*time.Millisecond, 4, 0) // and the next is let in at once
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStretch(t, 2000)
			r.run(40*time.Second, 20, 20)
			if len(r.told.open) < 3 || r.settled() > 0 {
				t.Fatalf("%d are awaited, %d settled", len(r.told.open), r.settled())
			}
			between(r)
			r.read(250 * time.Millisecond)
			r.snap.Head = r.snap.Last - 1
			r.read(250 * time.Millisecond)
			if r.settled() != 0 {
				t.Errorf("%+v", r.acc)
			}
		})
	}
}

// However long the line, and however long it stands still, what is awaited is bounded.
func TestAccuracyIsBounded(t *testing.T) {
	r := newStretch(t, 1_000_000)
	r.run(20*time.Minute, 10, 500)
	if n := len(r.told.open); n == 0 || n > 20 {
		t.Errorf("of waits of a day %d are awaited", n)
	}
}

// Nobody is told anything of a wait too short to be measured, or in a line that has
// not found its pace.
func TestAccuracyOfNothing(t *testing.T) {
	r := newStretch(t, 40)
	r.run(time.Minute, 20, 20)
	if r.settled() > 0 || r.told.open != nil {
		t.Errorf("%+v", r.acc)
	}
	r = newStretch(t, 1000)
	r.run(15*time.Second, 20, 20)
	if r.told.open != nil {
		t.Errorf("%+v", r.told.open)
	}
}
