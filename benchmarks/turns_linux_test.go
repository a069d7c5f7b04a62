package benchmarks

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// turns is what threads have had of the processors, and how long they have waited for one
// while they were ready to run.
type turns struct{ had, waited time.Duration }

// turnsOf is that of each thread of some processes, by its id. It is asked for before and
// after: a thread that ends takes its figures with it.
func turnsOf(t testing.TB, pids ...int) map[int]turns {
	t.Helper()
	all := map[int]turns{}
	for _, pid := range pids {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if s, err := thread.Schedstat(); err == nil { // else it has just ended
				all[thread.PID] = turns{time.Duration(s.RunningNanoseconds), time.Duration(s.WaitingNanoseconds)}
			}
		}
	}
	return all
}

// shareGot is how much of the time in which the threads were ready to run they ran.
func shareGot(before, after map[int]turns) float64 {
	var had, waited time.Duration
	for thread, now := range after {
		had += now.had - before[thread].had
		waited += now.waited - before[thread].waited
	}
	if had+waited == 0 {
		return 1
	}
	return had.Seconds() / (had + waited).Seconds()
}
