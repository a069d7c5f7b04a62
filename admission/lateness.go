package admission

import (
	"time"

	"sluice/queue"
)

// LatenessBounds are the upper bounds by which the lateness of ticks is counted.
var LatenessBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond,
	7 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Lateness counts ticks by how much later than their time on the store's clock their
// batch was given.
type Lateness struct {
	// Counts are the ticks no later than each of LatenessBounds, and later than the
	// bound before.
	Counts [len(LatenessBounds)]uint64
	// Ticks is all of them, also those later than the last bound.
	Ticks uint64
	// Sum is of all of them together.
	Sum time.Duration
}

// mostMissed is how many ticks without a batch are counted: a longer gap is an outage,
// which shows elsewhere, or a night.
const mostMissed = 100

// note counts the tick that a batch was given in, and those since the batch before that
// had none: each is as late as that batch, whichever process was to give it. Ticks
// begin at the multiples of tick since 1970, as in the store.
func (l *Lateness) note(b queue.Batch, tick time.Duration) {
	width := tick.Microseconds()
	at := b.At.UnixMicro()
	first := at / width
	if before := b.Since.UnixMicro() / width; !b.Since.IsZero() && before < first && first-before <= mostMissed {
		first = before + 1
	}
	for n := first; n <= at/width; n++ {
		l.add(time.Duration(at-n*width) * time.Microsecond)
	}
}

func (l *Lateness) add(late time.Duration) {
	l.Ticks++
	l.Sum += late
	for i, bound := range LatenessBounds {
		if late <= bound {
			l.Counts[i]++
			return
		}
	}
}
