package queue

import (
	"slices"
	"time"
)

const (
	// forecastEvery is how often it is noted what the last in the line is told, or
	// forecastPart of what they are told where that is longer: of a wait of hours one
	// estimate every few minutes says enough.
	forecastEvery = 5 * time.Second
	forecastPart  = 50
	// forecastLeast is the shortest wait that is noted: of a shorter one the readings of
	// the line are too far apart to tell an error.
	forecastLeast = 5 * time.Second
	// forecastsOpen bounds how many are awaited, far above what a line that keeps its
	// word has.
	forecastsOpen = 4 * forecastPart
	// forecastGap is how far apart two readings may be. Nobody knows when, in a longer
	// gap, a place was passed.
	forecastGap = 3 * time.Second
	// accuracyWindow is how long an outcome counts as a recent one: a few times
	// forecastEvery, so that a line with somebody in it always has some.
	accuracyWindow = 15 * time.Second
)

// Accuracy is how the waits that a line told came out: every few seconds what the last
// in the line is told, against when the head of the line passed their place. A
// pause, another mode, fixed rate or limit of people inside meanwhile, a loss, or an end
// of the line before that place makes a forecast void: it was not the estimate that was
// wrong.
type Accuracy struct {
	// Early, Kept and Late count the waits that ended before, in and after the range
	// that was told, since the process began.
	Early, Kept, Late int64
	// Error is the mean of (actual wait − told) ÷ told of the waits that ended in the
	// last 15 s: 0.5 is half as long again as told, −0.2 a fifth shorter. Recent is how
	// many those are; of none, Error says nothing.
	Error  float64
	Recent int
}

// forecasts compares what was told with what came.
type forecasts struct {
	last  *View
	open  []forecast // in the order of their places
	next  time.Time  // when to note the next
	ended []outcome  // recent, oldest first
	sum   Accuracy
}

type forecast struct {
	at    time.Time
	place int64
	told  Estimate
}

type outcome struct {
	at    time.Time
	error float64
}

// observe takes the next view in; its own Accuracy is not looked at.
func (f *forecasts) observe(v View) Accuracy {
	last := f.last
	f.last = &v
	if last == nil || !continues(last.Snapshot, v.Snapshot) || v.At.Sub(last.At) > forecastGap {
		f.open, f.next = nil, time.Time{} // the store's clock may be another one
	}
	f.settle(last, v)
	if v.Waiting == 0 { // whoever was last has gone, or they would have been let in
		f.open = nil
	}
	f.note(v)
	return f.accuracy(v.At)
}

// settle ends the waits for the places that the head has passed since the last view: in
// the middle between the two, as far as anybody knows.
func (f *forecasts) settle(last *View, v View) {
	for len(f.open) > 0 && f.open[0].place <= v.Head {
		was := f.open[0]
		f.open = f.open[1:]
		took := v.At.Sub(was.at) - v.At.Sub(last.At)/2
		switch {
		case took < was.told.Low:
			f.sum.Early++
		case took > was.told.High:
			f.sum.Late++
		default:
			f.sum.Kept++
		}
		f.ended = append(f.ended, outcome{v.At, (took - was.told.Expected).Seconds() / was.told.Expected.Seconds()})
	}
}

// note remembers what the last in the line is told now.
func (f *forecasts) note(v View) {
	if v.At.Before(f.next) || v.Waiting == 0 || v.Last <= v.Head || len(f.open) >= forecastsOpen {
		return
	}
	told, ok := v.Estimate(v.Waiting)
	if !ok || told.Expected < forecastLeast {
		return
	}
	f.open = append(f.open, forecast{v.At, v.Last, told})
	f.next = v.At.Add(max(forecastEvery, told.Expected/forecastPart))
}

func (f *forecasts) accuracy(now time.Time) Accuracy {
	f.ended = slices.DeleteFunc(f.ended, func(o outcome) bool { return now.Sub(o.at).Abs() >= accuracyWindow })
	a := f.sum
	for _, o := range f.ended {
		a.Error += o.error / float64(len(f.ended))
	}
	a.Recent = len(f.ended)
	return a
}
