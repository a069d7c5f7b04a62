package simulation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/admission"
)

// none lets nobody order.
func none(float64) float64 { return 0 }

// What is not drawn, but must not break the law either.
func TestExtremes(t *testing.T) {
	one := func(n int, s float64) []Pool { return []Pool{{Workers: n, Time: steps(0, s)}} }
	cases := []struct {
		Scenario
		closed     float64
		throughput float64 // at least
		wait       float64 // the 95th percentile at most
	}{
		{Scenario{Name: "one worker", Pools: one(1, 0.5), Lines: everybody}, 2, 0.75, 2},
		{Scenario{Name: "one fast worker", Pools: one(1, 0.005), Lines: everybody}, 200, 0.95, waitTarget},
		{Scenario{Name: "ten thousand a second", Seconds: 60, Pools: one(100, 0.01), Lines: everybody}, 10000, 0.95, waitTarget},
		{Scenario{Name: "views late by up to a second", Pools: one(10, 0.05), Lines: everybody, Instances: 3, Late: 1}, 200, 0.95, waitTarget},
		{Scenario{Name: "four processes", Pools: append(one(5, 0.05), append(one(10, 0.1), append(one(20, 0.2), one(2, 0.02)...)...)...), Lines: everybody, Instances: 4}, 400, 0.95, 2 * waitTarget},
		{Scenario{Name: "one in thirty orders", Pools: one(10, 0.2), Lines: []Line{{Name: "default", Weight: 1, Conversion: func(float64) float64 { return 1.0 / 30 }}}}, 50, 0.85, 2 * waitTarget},
		{Scenario{Name: "one in fifty takes minutes", Pools: one(10, 1), Lines: []Line{{Name: "default", Weight: 1, Think: func(r *rand.Rand) float64 {
			if r.Float64() < 0.02 {
				return 60 + 400*r.Float64()
			}
			return 0
		}}}}, 10, 0.9, 4 * waitTarget},
		{Scenario{Name: "a minute's pause", Pools: one(10, 0.05), Lines: []Line{{Name: "default", Weight: 1, Paused: func(at float64) bool { return at >= 20 && at < 110 }}}}, 200, 0.95, waitTarget},
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.Seed = 1
			if c.Seconds == 0 {
				c.Seconds = 360
			}
			r := Play(c.Scenario)
			from, to := int(c.Seconds)/3, int(c.Seconds)
			throughput, p95 := mean(r.Completed, from, to)/c.closed, r.Wait(0.95, from, to)
			t.Logf("%.3f of the closed loop, 95 %% wait at most %.3f s", throughput, p95)
			if throughput < c.throughput || p95 > c.wait {
				t.Errorf("want at least %.3f and at most %.3f s", c.throughput, c.wait)
			}
		})
	}
}

// Everybody wants one product, so nine workers of ten stand idle, and going together
// saves nothing. The workers that may not take what waits promise nothing: taken for
// free ones they had ten times too many let in, and the backlog ran over.
func TestIdleWorkersPromiseNothing(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2} {
		each := func(_ *rand.Rand, _ float64, n int) float64 { return 0.005 * float64(n) }
		r := Play(Scenario{Seconds: 90, Seed: seed, Pools: []Pool{{Workers: 10, Time: each, GroupCap: 500, Hot: true}}, Lines: everybody})
		most, refused, throughput := slices.Max(r.Backlog), mean(r.Refused, 0, 90), mean(r.Completed, 30, 90)/200
		t.Logf("seed %d: at most %.0f waited, %.3f of the closed loop", seed, most, throughput)
		if most > 600 || refused > 0 || throughput < 0.95 {
			t.Errorf("seed %d: %.0f waited, %.1f were refused a second, %.3f of the closed loop", seed, most, refused, throughput)
		}
	}
}

// Visitors who never order may be let in ever faster, but not without bound.
func TestNobodyOrders(t *testing.T) {
	r := Play(Scenario{Seconds: 200, Pools: []Pool{{Workers: 10, Time: steps(0, 0.05)}}, Lines: []Line{{Name: "default", Weight: 1, Conversion: none}}})
	first := admission.FirstGuess(10, 200*time.Millisecond, 0.7) // nothing was measured
	for i, n := range r.Admitted[0] {
		if n > 2*50*first || math.IsNaN(n) {
			t.Fatalf("%g let in in second %d", n, i)
		}
	}
	t.Log(r.Admitted[0][190:])
}
