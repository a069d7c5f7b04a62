package simulation

import (
	"math"
	"math/rand/v2"
)

// steps is a service time that changes: pairs of a time and what holds from then on.
func steps(pairs ...float64) func(*rand.Rand, float64, int) float64 {
	return func(_ *rand.Rand, at float64, _ int) float64 {
		now := pairs[1]
		for i := 0; i+1 < len(pairs) && pairs[i] <= at; i += 2 {
			now = pairs[i+1]
		}
		return now
	}
}

var everybody = []Line{{Name: "default", Weight: 1}}

// Scenarios are the stories of docs/control.md.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "step-20-1300-50", Title: "A service time of 20 ms, 1.3 s, 50 ms; 10 workers", Seconds: 480,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.02, 60, 1.3, 420, 0.05)}}, Lines: everybody,
			Phases: []Phase{{"start at 20 ms", 0, 60, 500}, {"to 1.3 s", 60, 420, 10 / 1.3}, {"to 50 ms", 420, 480, 200}},
		},
		{
			Name: "step-100-1298-50", Title: "A service time of 100 ms, 1,298 ms, 50 ms; 10 workers", Seconds: 240,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.1, 60, 1.298, 190, 0.05)}}, Lines: everybody,
			Phases: []Phase{{"start at 100 ms", 0, 60, 100}, {"to 1,298 ms", 60, 190, 10 / 1.298}, {"to 50 ms", 190, 240, 200}},
		},
		{
			Name: "conversion", Title: "Half of those let in never order, later a fifth does", Seconds: 180,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.05)}},
			Lines: []Line{{Name: "default", Weight: 1, Conversion: func(at float64) float64 {
				switch {
				case at < 70:
					return 0.5
				case at < 130:
					return 0.2
				}
				return 0.9
			}}},
			Phases: []Phase{{"half order", 0, 70, 200}, {"a fifth orders", 70, 130, 200}, {"nearly all order", 130, 180, 200}},
		},
		{
			Name: "join-die", Title: "A second process takes orders too, and dies", Seconds: 160,
			Pools: []Pool{
				{Workers: 10, Time: steps(0, 0.05)},
				{Workers: 10, Time: steps(0, 0.05), Joins: 50, Dies: 110},
			}, Lines: everybody, Instances: 2,
			Phases: []Phase{{"one", 0, 50, 200}, {"it joins", 50, 110, 400}, {"it dies", 110, 160, 200}},
		},
		{
			Name: "stall", Title: "The database stalls for 20 s", Seconds: 140,
			Pools: []Pool{{Workers: 10, Time: func(_ *rand.Rand, at float64, _ int) float64 {
				if at >= 50 && at < 70 {
					return 70 - at + 0.05
				}
				return 0.05
			}}}, Lines: everybody,
			Phases: []Phase{{"it works again", 70, 140, 200}},
		},
		{
			Name: "bursty", Title: "Service times of 10 ms to seconds (log-normal, spells of slowness)", Seconds: 150,
			Pools: []Pool{{Workers: 20, Time: bursty}}, Lines: everybody,
			Phases: []Phase{{"bursty", 0, 150, closedLoop(Pool{Workers: 20, Time: bursty}, 150)}},
		},
		{
			Name: "group-commit", Title: "Group commit: 20 ms and 1 ms per order, groups of up to 50", Seconds: 100,
			Pools: []Pool{{Workers: 4, Time: grouped, GroupCap: 50}}, Lines: everybody,
			Phases: []Phase{{"groups", 0, 100, closedLoop(Pool{Workers: 4, Time: grouped, GroupCap: 50}, 100)}},
		},
		{
			Name: "three-lines", Title: "Three lines at weights 1 : 2 : 7; the heaviest is idle for a minute", Seconds: 180,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.05)}},
			Lines: []Line{{Name: "one", Weight: 1}, {Name: "two", Weight: 2}, {Name: "seven", Weight: 7, Crowd: func(at float64) float64 {
				if at >= 60 && at < 120 {
					return 0
				}
				return 170
			}}},
			Instances: 2,
			Phases:    []Phase{{"all three", 0, 60, 200}, {"seven is idle", 60, 120, 200}, {"all again", 120, 180, 200}},
		},
		{
			Name: "slow-humans", Title: "Visitors who take 30 s to order, some a minute", Seconds: 300,
			Pools:  []Pool{{Workers: 10, Time: steps(0, 0.05)}},
			Lines:  []Line{{Name: "default", Weight: 1, Think: func(r *rand.Rand) float64 { return 28 * math.Exp(0.4*r.NormFloat64()) }}},
			Phases: []Phase{{"from nothing", 0, 150, 200}, {"later", 150, 300, 200}},
		},
	}
}

// bursty is log-normal around 30 ms, and every 20 s slow for 3 s.
func bursty(r *rand.Rand, at float64, _ int) float64 {
	t := 0.03 * math.Exp(r.NormFloat64())
	if math.Mod(at, 20) >= 17 {
		t *= 5
	}
	return t
}

func grouped(_ *rand.Rand, _ float64, n int) float64 { return 0.02 + 0.001*float64(n) }

// closedLoop is what a pool finishes per second when orders never run out.
func closedLoop(spec Pool, seconds float64) float64 {
	r := rand.New(rand.NewPCG(1, 1))
	group := max(1, spec.GroupCap)
	done := 0
	for range spec.Workers {
		for at := 0.0; at < seconds; done += group {
			at += spec.Time(r, at, group)
		}
	}
	return float64(done) / seconds
}
