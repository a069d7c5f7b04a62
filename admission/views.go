package admission

import (
	"cmp"
	"slices"
	"time"

	"sluice/queue"
)

// demandOver is the least time over which a line's use of admissions is counted.
const demandOver = 900 * time.Millisecond

// demand is how a line used its admissions lately.
type demand struct {
	since  queue.Snapshot
	perSec float64
}

// observe takes in a reading of the line. A reading soon after the last says too
// little; the last figure stands.
func (d demand) observe(s queue.Snapshot) demand {
	if s.Epoch != d.since.Epoch || !s.Created.Equal(d.since.Created) || s.Admitted < d.since.Admitted || s.At.Before(d.since.At) {
		return demand{since: s}
	}
	took := s.At.Sub(d.since.At)
	if took < demandOver {
		return d
	}
	return demand{since: s, perSec: float64(s.Admitted-d.since.Admitted) / took.Seconds()}
}

// lines are the lines as their watches last saw them. One that was not seen for
// some time is left out: nobody knows whether anyone could be let in there.
func (c *Controller) lines() map[string]LineState {
	watches := c.cfg.Lines()
	states := make(map[string]LineState, len(watches))
	demands := make(map[string]demand, len(watches))
	for id, watch := range watches {
		view, ok := watch.View()
		if !ok || watch.Age() > viewStands {
			continue
		}
		demands[id] = c.demands[id].observe(view.Snapshot)
		states[id] = lineState(view.Snapshot, demands[id].perSec)
	}
	c.demands = demands
	return states
}

func lineState(s queue.Snapshot, demand float64) LineState {
	set := s.Settings
	return LineState{
		Weight: set.Weight,
		Waits: s.Waiting > 0 && (set.Mode == queue.ModeNormal || set.Mode == queue.ModeBypass) && !set.Paused && !s.Recovering() &&
			s.Phase() == queue.PhaseOpen,
		Override: set.RateOverride,
		Demand:   demand,
		Full:     couldUseMore(s.LimitedBy),
		Cohorts:  s.Cohorts, Lag: s.Lag, At: s.At,
	}
}

// couldUseMore reports whether a higher rate would have let more in with the last
// batch: the shares that a full house or an empty line leaves are for the others.
func couldUseMore(by queue.LimitedBy) bool {
	return by != queue.LimitedByNoOneWaits && by != queue.LimitedByMaxActive
}

// queues counts the processes that answer polls. Whoever asks is one, or has
// asked one.
func queues(reports []Report) int {
	n := 0
	for _, r := range reports {
		if r.Queue {
			n++
		}
	}
	return max(n, 1)
}

func without(reports []Report, process string) []Report {
	return slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Process == process })
}

// with puts a report among the others', in the register's order.
func with(others []Report, own Report) []Report {
	all := append(slices.Clone(others), own)
	slices.SortFunc(all, func(a, b Report) int { return cmp.Compare(a.Process, b.Process) })
	return all
}
