package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPlansFollowTheHabits(t *testing.T) {
	h := habits{
		Patience: time.Minute, CloseShare: 0.3, ReturnShare: 0.25, ReturnAfter: 20 * time.Second,
		Reenter: 0.1, Order: 0.6, Think: 2 * time.Second,
	}
	const n = 20_000
	var closes, returns, reenters, orders int
	var patience, returnAfter, think time.Duration
	for i := range n {
		p := planOf(1, i, h)
		if p != planOf(1, i, h) {
			t.Fatal("the same visitor has two plans")
		}
		if p.closeAt > 0 {
			closes++
		}
		if p.returnAfter > 0 {
			returns++
			returnAfter += p.returnAfter
		}
		if p.reenters {
			reenters++
		}
		if p.orders {
			orders++
		}
		patience += p.patience
		think += p.think
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.06*want {
			t.Errorf("%s: %.3f, want %.3f", what, got, want)
		}
	}
	near("close", float64(closes)/n, 0.3)
	near("return", float64(returns)/float64(closes), 0.25)
	near("reenter", float64(reenters)/n, 0.1)
	near("order", float64(orders)/n, 0.6)
	near("patience", patience.Seconds()/n, 60)
	near("think", think.Seconds()/n, 2)
	near("return after", returnAfter.Seconds()/float64(returns), 20)

	if planOf(1, 3, h) == planOf(2, 3, h) || planOf(1, 3, h) == planOf(1, 4, h) {
		t.Error("neither the seed nor the visitor matters")
	}
	for i := range 100 {
		if p := planOf(1, i, habits{Order: 1}); p != (plan{orders: true}) {
			t.Fatalf("%+v of no habits", p)
		}
	}
}

func TestArrivals(t *testing.T) {
	const n, over = 1000, 10 * time.Second
	for a, half := range map[arrival]time.Duration{
		arriveSpike: 0, arriveConstant: 5 * time.Second, arriveEarly: 5 * time.Second, arriveRamp: 7071 * time.Millisecond,
	} {
		last := time.Duration(0)
		for i := range n {
			at := a.at(i, n, over)
			if at < last || at > over {
				t.Fatalf("%s: visitor %d at %s", a, i, at)
			}
			last = at
		}
		if got := a.at(n/2, n, over); (got - half).Abs() > time.Millisecond {
			t.Errorf("%s: half are there after %s", a, got)
		}
	}
}

func TestTimersComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h timers
	if _, any := h.first(); any {
		t.Error("the first of none")
	}
	var want, got []time.Duration
	for range 2000 {
		d := time.Duration(r.IntN(500))
		want = append(want, d)
		h.push(timer{due: d})
		if r.IntN(3) == 0 { // mixed
			first, _ := h.first()
			if slices.Min(want) != first.due || h.pop() != first {
				t.Fatal("not the first")
			}
			i := slices.Index(want, first.due)
			want = slices.Delete(want, i, i+1)
		}
	}
	for len(h) > 0 {
		got = append(got, h.pop().due)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("out of order")
	}
}
