package benchmarks

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// turns is what threads have had of the processors, and how long they have waited for one
// while they were ready to run.
type turns struct{ had, waited time.Duration }

func (t turns) plus(o turns) turns { return turns{t.had + o.had, t.waited + o.waited} }

// share is how much of the time in which they were ready they ran.
func (t turns) share() float64 {
	if t.had+t.waited == 0 {
		return 1
	}
	return t.had.Seconds() / (t.had + t.waited).Seconds()
}

// turnsOf is that of each thread of a process, by its id. It is asked for before and
// after: a thread that ends takes its figures with it.
func turnsOf(t testing.TB, pid int) map[int]turns {
	t.Helper()
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]turns{}
	for _, thread := range threads {
		if s, err := thread.Schedstat(); err == nil { // else it has just ended
			all[thread.PID] = turns{time.Duration(s.RunningNanoseconds), time.Duration(s.WaitingNanoseconds)}
		}
	}
	return all
}

// between is what all threads together had from one time to another.
func between(before, after map[int]turns) (sum turns) {
	for thread, now := range after {
		was := before[thread]
		sum = sum.plus(turns{now.had - was.had, now.waited - was.waited})
	}
	return sum
}
