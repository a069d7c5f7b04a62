package admission

import (
	"math"
	"time"

	"sluice/queue"
)

// Outlook is what a line's record says about those who were let in.
type Outlook struct {
	// Conversion is the share of the admitted that comes to order, above 0 and at
	// most 1.
	Conversion float64
	// Pending is how many of those already let in are still expected to come.
	Pending float64
	// Lag is how long they take, from admission to order.
	Lag time.Duration

	// underway is how many seconds' worth of a steady flow is under way, seen in the
	// way that Pending is: by Little's law (1961) nearly the lag.
	underway float64
}

const (
	// assumedLag is the time from admission to order before anybody ordered: the
	// half of the jitter, half a poll interval.
	assumedLag = 1500 * time.Millisecond
	// longestWatch bounds how long a cohort is waited for; more than half of those
	// that a line keeps are then complete.
	longestWatch = 60 * time.Second
	// The conversion is that of the newest complete cohorts, as many as hold
	// enoughAdmitted and enoughCohorts. trust is how many admissions that did order
	// are taken as seen already: without it a handful of visitors who only look
	// would open the gate.
	enoughAdmitted = 300
	enoughCohorts  = 5
	trust          = 10
	// leastConversion bounds how many are let in for one order.
	leastConversion = 0.02
)

// outlookOf reads a line's record.
//
// A cohort is young until about twice the lag has passed; then who was to come soon
// has come. The conversion is that of cohorts half as old again, so that the slow are
// in it, and only once the record is twice as long as a cohort is young: the first to
// order are the quick ones, the lag they show is too short, and what they leave
// behind is not yet lost.
//
// A cohort from the future was let in before a fail-over to a slower clock. Its age
// is not known; it is left out, or whoever of it never comes would be waited for
// until that clock has caught up.
func outlookOf(l LineState) Outlook {
	for n := len(l.Cohorts); n > 0 && l.Cohorts[n-1].Second > l.At.Unix(); n-- {
		l.Cohorts = l.Cohorts[:n-1]
	}
	o := Outlook{Conversion: 1, Lag: l.Lag}
	young := longestWatch
	if o.Lag > 0 {
		young = min(2*o.Lag+2*time.Second, longestWatch)
	}
	if len(l.Cohorts) > 0 && age(l.At, l.Cohorts[0].Second) >= 2*young {
		o.Conversion = conversion(l.Cohorts, l.At.Add(-3*young/2))
	}
	if o.Lag <= 0 {
		o.Lag = assumedLag
		young = 2*o.Lag + 2*time.Second
	}
	// Who came has come: if the young do better than those before, it shows sooner.
	half := tally(l, o.Lag, young)
	o.Conversion = max(o.Conversion, min(1, (half.Arrived+trust*o.Conversion)/(half.Admitted+trust)))
	all := tally(l, math.MinInt64, young)
	o.Pending = max(0, o.Conversion*all.Admitted-all.Arrived)
	o.underway = underway(l, o, young, all)
	return o
}

// underway adds up, over the ages of young cohorts, the share of those who will
// order that has not yet come at that age. A fixed lag would do in theory; but the
// moving mean of it jumps about when visitors are slow, and every second it is wrong
// by is a second's worth of orders too much. Read off the cohorts in which the
// pending are counted, it errs as they do, and the two cancel.
func underway(l LineState, o Outlook, young time.Duration, all totals) float64 {
	lag := o.Lag.Seconds()
	if all.Admitted > 0 { // a single visitor who comes after minutes moves the mean by seconds
		seen := young.Seconds() * max(0, 1-all.Arrived/all.Admitted/o.Conversion)
		lag = min(lag, 1.5*seen+1)
	}
	bySecond := make(map[int64]queue.Cohort, len(l.Cohorts))
	for _, c := range l.Cohorts {
		bySecond[c.Second] = c
	}
	sum := 0.0
	for second := l.At.Unix(); age(l.At, second) < young; second-- {
		c := bySecond[second]
		admitted := float64(max(0, c.Admitted))
		guess := min(1, max(0, age(l.At, second).Seconds()/(2*lag)))
		came := (float64(c.Arrived)/o.Conversion + trust*guess) / (admitted + trust)
		length := min(1, l.At.Sub(time.Unix(second, 0)).Seconds()) // the present second is not over
		sum += length * (1 - came)
	}
	return max(0, sum)
}

// age is that of the middle of a second.
func age(at time.Time, second int64) time.Duration {
	return at.Sub(time.Unix(second, 0)) - time.Second/2
}

type totals struct{ Admitted, Arrived float64 }

// tally adds up the cohorts of an age from and below to.
func tally(l LineState, from, to time.Duration) (sum totals) {
	for _, c := range l.Cohorts {
		if a := age(l.At, c.Second); a >= from && a < to {
			sum.Admitted += float64(max(0, c.Admitted))
			sum.Arrived += float64(min(max(0, c.Arrived), max(0, c.Admitted)))
		}
	}
	return sum
}

// conversion is the share that came of those admitted until a time, the latest of
// them, above 0 and at most 1.
func conversion(cohorts []queue.Cohort, until time.Time) float64 {
	var admitted, arrived, counted int64
	for i := len(cohorts) - 1; i >= 0; i-- {
		if age(until, cohorts[i].Second) < 0 {
			continue
		}
		admitted += max(0, cohorts[i].Admitted)
		arrived += min(max(0, cohorts[i].Arrived), max(0, cohorts[i].Admitted))
		counted++
		if admitted >= enoughAdmitted && counted >= enoughCohorts {
			break
		}
	}
	return max(leastConversion, float64(arrived+trust)/float64(admitted+trust))
}
