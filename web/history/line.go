package history

import (
	"time"

	"sluice/queue"
)

// line is the history of one line.
type line struct {
	waiting, arrivals, admitted, rate, estimateError *series

	last queue.View // the one that the last sample was taken of; zero before
}

func newLine() *line {
	return &line{
		waiting: newSeries(), arrivals: newSeries(), admitted: newSeries(), rate: newSeries(), estimateError: newSeries(),
	}
}

func (l *line) all() []*series {
	return []*series{l.waiting, l.arrivals, l.admitted, l.rate, l.estimateError}
}

func (l *line) sample(second int64, from Line) {
	v, ok := from.View()
	if !ok || from.Age() >= stale {
		return
	}
	l.waiting.set(second, float64(v.Waiting))
	if v.LimitedBy != "" { // else there was no batch yet
		l.rate.set(second, v.Rate)
	}
	if v.Accuracy.Recent > 0 {
		l.estimateError.set(second, v.Accuracy.Error)
	}
	if follows(l.last, v) {
		took := v.At.Sub(l.last.At).Seconds()
		l.arrivals.set(second, float64(entered(v)-entered(l.last))/took)
		l.admitted.set(second, float64(v.Admitted-l.last.Admitted)/took)
	}
	l.last = v
}

// entered is how many have come in this epoch. Whoever did waits, is away, was let in,
// or gave the place up, or it was given up for them.
func entered(v queue.View) int64 {
	return v.Waiting + v.Away + v.Admitted + v.Left + v.GivenUp
}

// follows reports whether what the counters grew by from a to b is what happened in
// that time. It is not where they began anew; while those whom the store forgot come
// back; and where those who were let in without the store are told to it afterwards.
func follows(a, b queue.View) bool {
	took := b.At.Sub(a.At)
	late := a.Bypassed != b.Bypassed && b.Settings.Mode != queue.ModeBypass
	return a.Line != "" && took > 0 && took < stale+time.Second && a.Epoch == b.Epoch && a.Created.Equal(b.Created) &&
		!a.Recovering() && !b.Recovering() && !late && b.Admitted >= a.Admitted && entered(b) >= entered(a)
}

type lineColumns struct {
	Waiting           Column `json:"waiting"`
	ArrivalsPerSecond Column `json:"arrivals_per_second"`
	AdmittedPerSecond Column `json:"admitted_per_second"`
	Rate              Column `json:"rate"`
	EstimateError     Column `json:"estimate_error"`
}

func (l *line) columns(first, last int64) lineColumns {
	return lineColumns{
		l.waiting.column(first, last), l.arrivals.column(first, last), l.admitted.column(first, last),
		l.rate.column(first, last), l.estimateError.column(first, last),
	}
}
