package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// calm are settings without anything special.
func calm() settings {
	return settings{
		Visitors: 400, Connections: 20, Targets: 1, Arrival: arriveConstant, Over: 4 * time.Second, Seed: 7, Quantity: 1,
		Habits: habits{Order: 1, Think: time.Second}, RetryOverloaded: true, Grace: time.Second,
	}
}

// lively is everything at once.
func lively() settings {
	s := calm()
	s.Habits = habits{
		Patience: 20 * time.Second, CloseShare: 0.3, ReturnShare: 0.5, ReturnAfter: 3 * time.Second,
		Reenter: 0.3, Order: 0.7, Think: time.Second,
	}
	s.SharedTokens, s.Replays = 5, 9
	return s
}

// drive runs a crowd against a fake and returns what the judge would see.
func drive(t *testing.T, s settings, f *fake) (history, *recorder) {
	t.Helper()
	rec := newRecorder()
	e := newEngine(s, f, rec)
	e.Run(t.Context())
	h := rec.history()
	h.stays, h.tick, h.longest, h.wantedTricks = e.stays(), tick, h.longest+s.Grace, s.SharedTokens+s.Replays
	return h, rec
}

func outcomes(h history) map[outcome]int {
	n := map[outcome]int{}
	for _, s := range h.stays {
		n[s.outcome]++
	}
	return n
}

func wantRight(t *testing.T, h history) {
	t.Helper()
	for _, v := range judge(h) {
		if !v.Right {
			t.Errorf("%s: %d wrong of %d: %v %s", v.Rule, v.Wrong, v.Judged, v.Evidence, v.Note)
		}
	}
}

func TestACalmCrowdOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h, rec := drive(t, calm(), f)
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 400 || f.orders != 400 || rec.ordered.Load() != 400 || rec.entered.Load() != 400 {
			t.Errorf("%v, %d orders", n, f.orders)
		}
		if f.early > 0 || f.refused > 0 {
			t.Errorf("%d polls earlier than told, %d orders before the token was usable", f.early, f.refused)
		}
		if f.flown > 20 {
			t.Errorf("%d requests at a time over 20 connections", f.flown)
		}
		if m := rec.moment(1); m.Waiting != 0 || m.Errors != 0 {
			t.Errorf("%+v", m)
		}
		// At 50/s the last of 400 is let in 8 s after the first, and told 2 s later
		// at most; then they order.
		if took := time.Since(f.start); took < 8*time.Second || took > 25*time.Second {
			t.Errorf("took %s", took)
		}
		for _, s := range h.stays {
			if s.fetched < s.admitted || s.fetched > s.admitted+2100 || s.late || s.unheard {
				t.Fatalf("%+v", s)
			}
		}
		if e := estimates(h.stays); e.Judged != 400 || e.Within != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestOneVisitorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calm()
		s.Visitors = 1
		h, _ := drive(t, s, newFake())
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 1 {
			t.Errorf("%v", n)
		}
	})
}

func TestALivelyCrowdIsJudgedRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := lively()
		h, rec := drive(t, s, f)
		wantRight(t, h)
		n := outcomes(h)
		for _, o := range []outcome{ordered, idle, left, gone} {
			if n[o] == 0 {
				t.Errorf("nobody %s: %v", o, n)
			}
		}
		if n[unfinished] > 0 || n[strayed] > 0 || n[refused] > 0 {
			t.Errorf("%v", n)
		}
		if len(h.stays) <= s.Visitors {
			t.Error("nobody entered again")
		}
		if rec.closed.Load() == 0 || len(h.comebacks) == 0 || rec.closed.Load() == int64(len(h.comebacks)) {
			t.Errorf("%d tabs closed, %d came back", rec.closed.Load(), len(h.comebacks))
		}
		kinds := map[string]int{}
		for _, k := range h.tricks {
			kinds[k.Kind]++
		}
		if kinds[trickShared] != 5 || kinds[trickTwice] != 3 || kinds[trickPoll] != 3 || kinds[trickEnter] < 3 {
			t.Errorf("tricks: %v", kinds)
		}
	})
}

func TestBrokenPromisesAreSeen(t *testing.T) {
	for broken, rule := range map[string]int{
		"unfair": ruleOrder, "forgetful": ruleLost, "growing": rulePositions, "double": ruleTricks, "same ticket": ruleTricks,
	} {
		t.Run(broken, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.broken = broken
				s := calm()
				s.SharedTokens, s.Replays = 5, 9
				h, _ := drive(t, s, f)
				if v := judge(h)[ruleTwice]; broken == "double" && (v.Right || v.Wrong < 5) {
					t.Errorf("%+v", v) // five tokens shared; three orders sent twice, maybe of the same visitors
				}
				if v := judge(h)[rule]; v.Right || v.Wrong == 0 || len(v.Evidence) == 0 {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

func TestVisitorsMoveFromAnInstanceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.silent = func(target int, now time.Duration) bool { return target == 1 && now > 3*time.Second }
		s := calm()
		s.Targets = 2
		h, rec := drive(t, s, f)
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 400 {
			t.Errorf("%v", n)
		}
		// Each of the 200 there meets it once, and stays away.
		if met := rec.errors.Load(); met == 0 || met > 200 || f.perTarget[1] == 0 {
			t.Errorf("%d times without an answer", met)
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.busy = func(_ int, now time.Duration) bool { return now > 2*time.Second && now < 4*time.Second }
		h, rec := drive(t, calm(), f)
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 400 {
			t.Errorf("%v", n)
		}
		unheard := 0
		for _, s := range h.stays {
			if s.unheard {
				unheard++
			}
			if s.late {
				t.Fatalf("blamed for what the service refused: %+v", s)
			}
		}
		if unheard == 0 || len(h.comebacks) < unheard {
			t.Errorf("%d were not heard in time, %d came back", unheard, len(h.comebacks))
		}
		// Two seconds of it, three to wait: nobody meets it twice.
		if met := rec.errors.Load(); met == 0 || met > 400 {
			t.Errorf("refused %d times", met)
		}
		if rec.measured[epEnter].codes["503 overloaded"] == 0 {
			t.Errorf("%v", rec.measured[epEnter].codes)
		}
	})
}

func TestWhoeverIsNotToRetryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.busy = func(_ int, now time.Duration) bool { return now > 6*time.Second && now < 10*time.Second }
		s := calm()
		s.RetryOverloaded = false
		h, _ := drive(t, s, f)
		if n := outcomes(h); n[refused] == 0 || n[refused]+n[ordered] != 400 {
			t.Errorf("%v", n)
		}
	})
}

func TestATokenThatCannotBeUsedIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.ttl = 5 * time.Second
		s := calm()
		s.Habits.Think = 0
		f.busy = func(_ int, now time.Duration) bool { return now > 4*time.Second && now < 30*time.Second }
		h, _ := drive(t, s, f)
		if n, v := outcomes(h), judge(h)[ruleLost]; n[unserved] == 0 || v.Right || v.Wrong != n[unserved] {
			t.Errorf("%v %+v", n, v)
		}
	})
}

func TestASlowCrowdDoesNotBlameTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calm()
		s.Connections, s.Grace = 1, 500*time.Millisecond
		f := newFake()
		f.takes = func(now time.Duration) time.Duration {
			if now > 5*time.Second && now < 15*time.Second {
				return 20 * time.Millisecond // 50 requests a second, for 400 visitors
			}
			return time.Millisecond
		}
		h, rec := drive(t, s, f)
		late := 0
		for _, s := range h.stays {
			if s.late {
				late++
			}
		}
		if late < 100 || rec.lateness.latencies.Max() < 500_000 {
			t.Errorf("%d late, at most %d µs", late, rec.lateness.latencies.Max())
		}
		if v := judge(h)[ruleOrder]; !v.Right {
			t.Errorf("%+v", v)
		}
	})
}

func TestEarlyVisitorsComeBeforeTheOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.opens = time.Now().Add(10 * time.Second)
		s := calm()
		s.Arrival, s.Over = arriveEarly, time.Minute // longer than there is time
		h, _ := drive(t, s, f)
		for _, s := range h.stays {
			if !s.early {
				t.Fatalf("visitor %d came late", s.visitor)
			}
			if s.admitted < f.opens.UnixMilli() || s.outcome != ordered {
				t.Fatalf("%+v", s)
			}
		}
		wantRight(t, h)
	})
}

func TestARunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := calm()
		s.Duration = 3 * time.Second
		h, _ := drive(t, s, f)
		if took := time.Since(f.start); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if n := outcomes(h); n[unfinished] == 0 || len(h.stays) >= 400 {
			t.Errorf("%v", n)
		}
		for _, s := range h.stays[:200] {
			if s.admitted == 0 && s.waited < f.start.UnixMilli() {
				t.Fatalf("not known how long it waited: %+v", s)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		newEngine(calm(), f, newRecorder()).Run(ctx)
		if took := time.Since(f.start); took > 1100*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

func TestVisitorsMoveFromAnInstanceThatCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.busy = func(target int, now time.Duration) bool { return target == 1 && now > 3*time.Second }
		s := calm()
		s.Targets, s.Duration = 2, 10*time.Minute
		h, rec := drive(t, s, f)
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 400 {
			t.Errorf("%v", n)
		}
		met := rec.moment(1)
		if sum := met.Queue.Unavailable + met.Orders.Unavailable; sum == 0 || sum > 200 || met.Queue.Unanswered != 0 || met.Errors != sum {
			t.Errorf("%+v", met)
		}
	})
}

func TestSomeRoamOverTheInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.silent = func(target int, now time.Duration) bool { return target == 1 && now > 3*time.Second }
		s := calm()
		s.Targets, s.Roam = 2, 0.5
		h, rec := drive(t, s, f)
		if n := outcomes(h); n[ordered] != 400 {
			t.Errorf("%v", n)
		}
		// Whoever does not roam meets it once; these come by again and again.
		met := rec.moment(1)
		if sum := met.Queue.Unanswered + met.Orders.Unanswered; sum < 300 || met.Orders.Unanswered == 0 || met.Queue.Unavailable != 0 {
			t.Errorf("%+v", met)
		}
	})
}

func TestCouponsAreClaimedAndUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.coupons = 150
		f.silent = func(_ int, now time.Duration) bool { return now > 5*time.Second && now < 6*time.Second }
		s := calm()
		s.Coupon = 1
		h, _ := drive(t, s, f)
		wantRight(t, h)
		codes := map[string]bool{}
		for _, s := range h.stays {
			if s.coupon != "" {
				codes[s.coupon] = true
			}
		}
		if n := outcomes(h); n[ordered] != 400 || len(codes) != 150 || f.coupons != 0 {
			t.Errorf("%v, %d coupons", n, len(codes))
		}
	})
}

// Without a line there is no order to be judged, but before and after there is.
func TestNoLineForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calm()
		s.Visitors, s.Over = 1500, 2*time.Second
		f := newFake()
		f.chaos = func(now time.Duration) bool { return now > 10*time.Second && now < 14*time.Second }
		h, _ := drive(t, s, f)
		wantRight(t, h)
		if n := outcomes(h); n[ordered] != 1500 || len(h.bypasses) != 1 {
			t.Errorf("%v %v", n, h.bypasses)
		}
		h.bypasses = nil
		if v := judge(h)[ruleOrder]; v.Right {
			t.Errorf("nothing to be seen: %+v", v)
		}
	})
}

// Growths before and after are judged.
func TestPositionsThatGrowOnceTheLineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calm()
		s.Visitors, s.Over = 1500, 2*time.Second
		f := newFake()
		f.broken = "growing"
		f.chaos = func(now time.Duration) bool { return now < 6*time.Second }
		h, _ := drive(t, s, f)
		if v := judge(h)[rulePositions]; v.Right || v.Excused != 0 {
			t.Errorf("%+v", v)
		}
		f = newFake()
		f.broken = "lower"
		f.chaos = func(now time.Duration) bool { return now > 6*time.Second && now < 10*time.Second }
		h, _ = drive(t, s, f)
		if v := judge(h)[rulePositions]; !v.Right || v.Excused == 0 {
			t.Errorf("%+v", v)
		}
	})
}

// Somebody let in tells one loss from the next, however soon it follows.
func TestLossesAreToldApart(t *testing.T) {
	r := newRecorder()
	r.letIn(t0 + 9_000)
	r.degraded(t0+10_000, 10*time.Second)
	r.degraded(t0+14_000, 14*time.Second)
	r.letIn(t0 + 15_000)
	r.degraded(t0+15_500, 15500*time.Millisecond) // of the same one, late
	r.letIn(t0 + 19_000)
	r.degraded(t0+20_000, 20*time.Second)
	r.degraded(t0+21_000, 21*time.Second)
	got := r.history().losses
	if len(got) != 2 || got[1] != (loss{20 * time.Second, 21 * time.Second, t0 + 20_000}) {
		t.Errorf("%+v", got)
	}
}

func TestLossIsNoted(t *testing.T) {
	r := newRecorder()
	r.clock(t0+5_000, 5100*time.Millisecond) // took 100 ms
	r.clock(t0+6_000, 6001*time.Millisecond)
	r.clock(0, time.Hour)
	r.degraded(t0+10_000, 10*time.Second)
	r.degraded(t0+9_900, 11*time.Second)
	r.degraded(t0+60_000, 60*time.Second)
	r.lost(30 * time.Second)
	got := r.history().losses
	want := []loss{
		{10 * time.Second, 11 * time.Second, t0 + 9_900},
		{30 * time.Second, 30 * time.Second, t0 - 1 + 30_000},
		{60 * time.Second, 60 * time.Second, t0 + 60_000},
	}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%+v", got)
	}
}
