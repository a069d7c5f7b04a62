package admission

import (
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

	underway float64
}

const (
	// assumedLag is the time from admission to order before anybody ordered: the
	// half of the jitter, half a poll interval.
	assumedLag = 1500 * time.Millisecond
	// longestWatch bounds how long a cohort is waited for; half of the cohorts that
	// a line keeps are then complete.
	longestWatch = queue.MaxCohorts / 2 * time.Second
	// The conversion is that of the newest complete cohorts, as many as hold
	// enoughAdmitted and enoughCohorts. trust is how many admissions that did order
	// are taken as seen already: without it a handful of visitors who only look
	// would open the gate.
	enoughAdmitted = 300
	enoughCohorts  = 5
	trust          = 10
)

// outlookOf reads a line's record.
//
// A cohort is young until about twice the lag has passed; then who was to come has
// come. The conversion is that of complete cohorts, and only once the record is
// twice as long as a cohort is young: the first to order are the quick ones, the
// lag they show is too short, and what they leave behind is not yet lost.
func outlookOf(l LineState) Outlook {
	o := Outlook{Conversion: 1, Lag: l.Lag}
	if o.Lag <= 0 {
		o.Lag = assumedLag
	}
	young := min(2*o.Lag+2*time.Second, longestWatch)
	age := func(c queue.Cohort) time.Duration { return l.At.Sub(time.Unix(c.Second, 0)) - time.Second/2 }

	if len(l.Cohorts) > 0 && l.Lag > 0 && age(l.Cohorts[0]) >= 2*young {
		o.Conversion = conversion(l.Cohorts, func(c queue.Cohort) bool { return age(c) >= young })
	}
	// Who came has come: more of the young than were expected is known sooner.
	var recent, came int64
	for _, c := range l.Cohorts {
		if a := age(c); a >= o.Lag && a < young {
			recent, came = recent+c.Admitted, came+c.Arrived
		}
	}
	o.Conversion = max(o.Conversion, min(1, (float64(came)+trust*o.Conversion)/float64(recent+trust)))
	bySecond := map[int64]queue.Cohort{}
	for _, c := range l.Cohorts {
		if age(c) < young {
			o.Pending += o.Conversion*float64(c.Admitted) - float64(c.Arrived)
			bySecond[c.Second] = c
		}
	}
	for second := l.At.Unix(); ; second-- {
		a := l.At.Sub(time.Unix(second, 0)) - time.Second/2
		if a >= young {
			break
		}
		c := bySecond[second]
		prior := min(1, max(0, a.Seconds()/(2*o.Lag.Seconds())))
		came := (float64(c.Arrived)/o.Conversion + trust*prior) / float64(c.Admitted+trust)
		part := min(1, l.At.Sub(time.Unix(second, 0)).Seconds())
		o.underway += part * (1 - came)
	}
	o.underway = max(0, o.underway)
	o.Pending = max(0, o.Pending)
	return o
}

// conversion is the share of the admitted that came, above 0 and at most 1.
func conversion(cohorts []queue.Cohort, complete func(queue.Cohort) bool) float64 {
	var admitted, arrived, counted int64
	for i := len(cohorts) - 1; i >= 0; i-- {
		if !complete(cohorts[i]) {
			continue
		}
		admitted += max(0, cohorts[i].Admitted)
		arrived += min(max(0, cohorts[i].Arrived), max(0, cohorts[i].Admitted))
		counted++
		if admitted >= enoughAdmitted && counted >= enoughCohorts {
			break
		}
	}
	return float64(arrived+trust) / float64(admitted+trust)
}
