package admission

import (
	"time"

	"sluice/queue"
)

// LineState is what the rates need to know of one line.
type LineState struct {
	Weight int64
	// Waits is true if somebody waits there who could be let in: the line is
	// open, not paused and not recovering.
	Waits bool
	// Override is the operator's rate, or nil.
	Override *float64
	// Demand is how many admissions per second the line used lately; a line that
	// could have used more, because it was not empty, has Full set.
	Demand float64
	Full   bool
	// Cohorts and Lag are the line's own record of who came to order.
	Cohorts []queue.Cohort
	Lag     time.Duration
	At      time.Time // the store's time of these figures
}

// Outlook is what a line's record says about those who were let in.
type Outlook struct {
	// Conversion is the share of the admitted that comes to order, above 0 and at
	// most 1.
	Conversion float64
	// Pending is how many of those already let in are still expected to come.
	Pending float64
	// Lag is how long they take, from admission to order.
	Lag time.Duration
}

// LineRate is how fast one line may let visitors in.
type LineRate struct {
	Rate  float64 // admissions per second
	Why   queue.LimitedBy
	Share float64 // of the capacity, 0 to 1
	Outlook
}

// Rates is how the capacity is given out, with every figure that led to it.
type Rates struct {
	// Capacity is the sum of the live processes', in orders per second.
	Capacity float64
	// InPipe is how many orders wait for a worker or are expected of those let
	// in; Target is how many there should be.
	InPipe, Target float64
	// Budget is how many orders per second are called for: the capacity and what
	// brings InPipe to the Target.
	Budget float64
	Lines  map[string]LineRate
}

// ShareOut gives the capacity of the live processes to the lines: a pure function
// of what all processes see alike, so that no two of them disagree.
func ShareOut(reports []Report, lines map[string]LineState) Rates {
	return Rates{Lines: map[string]LineRate{}} // STUB
}
