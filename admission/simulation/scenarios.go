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
			Name: "step-20-1300-50", Title: "A service time of 20 ms, 1.3 s, 50 ms; 10 workers", Seconds: 480, Log: true,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.02, 60, 1.3, 420, 0.05)}}, Lines: everybody,
			Phases: []Phase{{Name: "start at 20 ms", From: 0, To: 60, Closed: 500}, {Name: "to 1.3 s", From: 60, To: 420, Closed: 10 / 1.3}, {Name: "to 50 ms", From: 420, To: 480, Closed: 200}},
		},
		{
			Name: "step-100-1298-50", Title: "A service time of 100 ms, 1,298 ms, 50 ms; 10 workers", Seconds: 240,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.1, 60, 1.298, 190, 0.05)}}, Lines: everybody,
			Phases: []Phase{{Name: "start at 100 ms", From: 0, To: 60, Closed: 100}, {Name: "to 1,298 ms", From: 60, To: 190, Closed: 10 / 1.298}, {Name: "to 50 ms", From: 190, To: 240, Closed: 200}},
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
			Phases: []Phase{{Name: "half order", From: 0, To: 70, Closed: 200, Allow: 20}, {Name: "a fifth orders", From: 70, To: 130, Closed: 200, Allow: 20}, {Name: "nearly all order", From: 130, To: 180, Closed: 200}},
		},
		{
			Name: "join-die", Title: "A second process takes orders too, and dies", Seconds: 160,
			Pools: []Pool{
				{Workers: 10, Time: steps(0, 0.05)},
				{Workers: 10, Time: steps(0, 0.05), Joins: 50, Dies: 110},
			}, Lines: everybody, Instances: 2,
			Phases: []Phase{{Name: "one", From: 0, To: 50, Closed: 200}, {Name: "it joins", From: 50, To: 110, Closed: 400}, {Name: "it dies", From: 110, To: 160, Closed: 200}},
		},
		{
			Name: "stall", Title: "The database stalls for 20 s", Seconds: 140,
			Pools: []Pool{{Workers: 10, Time: func(_ *rand.Rand, at float64, _ int) float64 {
				if at >= 50 && at < 70 {
					return 70 - at + 0.05
				}
				return 0.05
			}}}, Lines: everybody,
			Phases: []Phase{{Name: "it works again", From: 70, To: 140, Closed: 200}},
		},
		{
			Name: "bursty", Title: "Service times of 10 ms to seconds (log-normal, spells of slowness)", Seconds: 150,
			Pools: []Pool{{Workers: 20, Time: bursty}}, Lines: everybody,
			Phases: []Phase{{Name: "all of it", From: 0, To: 150, Closed: closedLoop(Pool{Workers: 20, Time: bursty}, 150)}},
		},
		{
			Name: "group-commit", Title: "Group commit: 20 ms and 1 ms per order, groups of up to 50", Seconds: 100, Log: true,
			Pools: []Pool{{Workers: 4, Time: grouped, GroupCap: 50}}, Lines: everybody,
			Phases: []Phase{{Name: "all of it", From: 0, To: 100, Closed: closedLoop(Pool{Workers: 4, Time: grouped, GroupCap: 50}, 100), Allow: 60}},
		},
		{
			Name: "hot-product", Title: "One product, one group at a time: 5 ms and 0.2 ms per order, up to 500; a backlog of 10,000", Seconds: 100, Log: true,
			Pools: []Pool{{Workers: 10, Time: hot, GroupCap: 500, Hot: true, Backlog: 10_000}}, Lines: everybody,
			Phases: []Phase{{Name: "all of it", From: 0, To: 100, Closed: closedLoop(Pool{Workers: 1, Time: hot, GroupCap: 500}, 100), Allow: 60}},
		},
		{
			Name: "three-lines", Title: "Three lines at weights 1 : 2 : 7; the heaviest is idle for a minute", Seconds: 180,
			Pools: []Pool{{Workers: 10, Time: steps(0, 0.05)}},
			Lines: []Line{{Name: "one", Weight: 1}, {Name: "two", Weight: 2}, {Name: "seven", Weight: 7, Crowd: func(at float64) float64 {
				if at >= 55 && at < 120 {
					return 0 // those who wait are let in until about 60
				}
				return 145
			}}},
			Instances: 2,
			Phases:    []Phase{{Name: "all three", From: 0, To: 60, Closed: 200}, {Name: "seven is idle", From: 60, To: 120, Closed: 200}, {Name: "all again", From: 120, To: 180, Closed: 200}},
		},
		{
			Name: "slow-humans", Title: "Visitors who take 30 s to order, some a minute", Seconds: 300,
			Pools:  []Pool{{Workers: 10, Time: steps(0, 0.05)}},
			Lines:  []Line{{Name: "default", Weight: 1, Think: func(r *rand.Rand) float64 { return 28 * math.Exp(0.4*r.NormFloat64()) }}},
			Phases: []Phase{{Name: "from nothing", From: 0, To: 150, Closed: 200, Allow: 70}, {Name: "later", From: 150, To: 300, Closed: 200}},
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

func hot(_ *rand.Rand, _ float64, n int) float64 { return 0.005 + 0.0002*float64(n) }

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
