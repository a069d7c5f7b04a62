package admission

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/queue"
)

var shareAt = time.Unix(1_800_000_000, 0)

func pools(capacities ...float64) []Report {
	var rs []Report
	for i, c := range capacities {
		rs = append(rs, Report{Process: fmt.Sprint(i), Orders: &OrdersReport{Capacity: c, WaitTarget: 500 * time.Millisecond, BacklogLimit: 1000}})
	}
	return rs
}

// steadyLine has let in so many per second for two minutes; a share of them came
// after 2 s.
func steadyLine(rate int64, conversion float64) LineState {
	l := LineState{Weight: 1, Waits: true, Full: true, Lag: 2 * time.Second, At: shareAt, Demand: float64(rate)}
	for age := int64(queue.MaxCohorts); age >= 1; age-- {
		c := queue.Cohort{Second: shareAt.Unix() - age, Admitted: rate}
		if age >= 3 {
			c.Arrived = int64(float64(rate) * conversion)
		}
		l.Cohorts = append(l.Cohorts, c)
	}
	return l
}

func fullLine(weight int64) LineState {
	return LineState{Weight: weight, Waits: true, Full: true, At: shareAt}
}

func isNear(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got-want) <= by) {
		t.Errorf("%s: %g, want %g ± %g", what, got, want, by)
	}
}

func TestShareOutByWeight(t *testing.T) {
	r := ShareOut(pools(60, 40), map[string]LineState{"a": fullLine(1), "b": fullLine(2), "c": fullLine(7)})
	isNear(t, "capacity", r.Capacity, 100, 0)
	for id, share := range map[string]float64{"a": 0.1, "b": 0.2, "c": 0.7} {
		isNear(t, "share of "+id, r.Lines[id].Share, share, 1e-9)
		isNear(t, "rate of "+id, r.Lines[id].Rate, share*r.Budget, 1e-9)
		if r.Lines[id].Why != queue.LimitedByCapacity {
			t.Errorf("%s is limited by %s", id, r.Lines[id].Why)
		}
	}
}

func TestShareOutOfIdleAndTricklingLines(t *testing.T) {
	idle, trickle := LineState{Weight: 7, At: shareAt}, LineState{Weight: 7, Waits: true, Demand: 10, At: shareAt}
	r := ShareOut(pools(100), map[string]LineState{"a": fullLine(1), "b": fullLine(2), "c": idle})
	isNear(t, "idle", r.Lines["c"].Share, 0.014, 1e-9)
	isNear(t, "the others", r.Lines["b"].Share/r.Lines["a"].Share, 2, 1e-9)
	isNear(t, "all", r.Lines["a"].Share+r.Lines["b"].Share+r.Lines["c"].Share, 1, 1e-9)

	r = ShareOut(pools(100), map[string]LineState{"a": fullLine(1), "c": trickle})
	isNear(t, "trickling", r.Lines["c"].Share, 0.12, 1e-9)
	isNear(t, "beside it", r.Lines["a"].Share, 0.88, 1e-9)

	// Who comes to an empty line need not wait.
	r = ShareOut(pools(100), map[string]LineState{"a": {Weight: 1, At: shareAt}, "c": {Weight: 3, At: shareAt}})
	isNear(t, "empty", r.Lines["a"].Share, 0.25, 1e-9)
}

func TestShareOutOverrides(t *testing.T) {
	over := func(rate float64, l LineState) LineState { l.Override = &rate; return l }
	r := ShareOut(pools(100), map[string]LineState{"a": over(30, fullLine(1)), "b": fullLine(1), "c": fullLine(1)})
	if got := r.Lines["a"]; got.Rate != 30 || got.Why != queue.LimitedByOverride {
		t.Errorf("%+v", got)
	}
	isNear(t, "beside it", r.Lines["b"].Rate, (r.Budget-30)/2, 1e-9)

	r = ShareOut(pools(100), map[string]LineState{"a": over(5000, fullLine(1)), "b": fullLine(1)})
	if r.Lines["a"].Rate != 5000 || r.Lines["b"].Rate != 0 {
		t.Errorf("an override of more than there is: %+v", r.Lines)
	}
	r = ShareOut(pools(100), map[string]LineState{"a": over(0, fullLine(1)), "b": fullLine(1)})
	if r.Lines["a"].Rate != 0 || math.Abs(r.Lines["b"].Rate-r.Budget) > 1e-9 {
		t.Errorf("an override of 0: %+v", r.Lines)
	}
}

func TestShareOutWithoutOrderProcesses(t *testing.T) {
	for _, reports := range [][]Report{nil, {{Process: "a", Queue: true}}, pools(0), pools(math.NaN(), -1, math.Inf(1))} {
		r := ShareOut(reports, map[string]LineState{"a": fullLine(1), "b": steadyLine(10, 1)})
		if r.Capacity != 0 || r.Budget != 0 || r.Lines["a"].Rate != 0 || r.Lines["b"].Rate != 0 {
			t.Errorf("%+v", r)
		}
	}
	if r := ShareOut(pools(100), nil); len(r.Lines) != 0 {
		t.Errorf("%+v", r)
	}
}

// In balance the rate is the capacity over the conversion.
func TestShareOutInBalance(t *testing.T) {
	for _, conversion := range []float64{1, 0.5, 0.1} {
		reports := pools(100)
		reports[0].Orders.Backlog = 25
		r := ShareOut(reports, map[string]LineState{"a": steadyLine(int64(100/conversion), conversion)})
		isNear(t, "conversion", r.Lines["a"].Conversion, conversion, 0.02)
		isNear(t, "what is in the pipe", r.InPipe, r.Target, 25)
		isNear(t, "rate", r.Lines["a"].Rate*conversion, 100, 15)
	}
}

func TestShareOutPaysABacklogBack(t *testing.T) {
	lines := map[string]LineState{"a": steadyLine(100, 1)}
	reports := pools(100)
	last := math.Inf(1)
	for _, backlog := range []int{0, 25, 100, 400} {
		reports[0].Orders.Backlog = backlog
		r := ShareOut(reports, lines)
		if r.Lines["a"].Rate >= last {
			t.Errorf("%g/s with a backlog of %d, %g/s with less", r.Lines["a"].Rate, backlog, last)
		}
		last = r.Lines["a"].Rate
		if why := r.Lines["a"].Why; (why == queue.LimitedByBacklog) != (backlog >= 100) {
			t.Errorf("a backlog of %d: limited by %s", backlog, why)
		}
	}
	if last != 0 {
		t.Errorf("%g/s with a backlog of four seconds", last)
	}
	reports[0].Orders.Backlog, reports[0].Orders.Returning = 0, 400
	if rate := ShareOut(reports, lines).Lines["a"].Rate; rate != 0 {
		t.Errorf("%g/s while 400 come again", rate)
	}
}

func TestOutlook(t *testing.T) {
	never := steadyLine(100, 0)
	never.Lag = 0
	for _, c := range []struct {
		name       string
		l          LineState
		conversion float64
		pending    float64
	}{
		{"nobody was let in", LineState{At: shareAt}, 1, 0},
		{"everybody comes", steadyLine(100, 1), 1, 200},
		{"half come", steadyLine(100, 0.5), 0.5, 100},
		{"nobody ever came", never, leastConversion, 10},
	} {
		o := outlookOf(c.l)
		isNear(t, c.name+", conversion", o.Conversion, c.conversion, 0.02)
		isNear(t, c.name+", pending", o.Pending, c.pending, 12)
	}

	// The first to come are quick; the others are not lost.
	young := steadyLine(100, 0.1)
	young.Cohorts = young.Cohorts[len(young.Cohorts)-12:]
	isNear(t, "a young line", outlookOf(young).Conversion, 1, 0)

	// More come than came before: it shows while their cohorts are young.
	more := steadyLine(100, 0.2)
	for i := len(more.Cohorts) - 6; i < len(more.Cohorts)-2; i++ {
		more.Cohorts[i].Arrived = 90
	}
	if c := outlookOf(more).Conversion; c < 0.7 {
		t.Errorf("conversion %g although 90 of 100 came lately", c)
	}

	// A few who only look are no sign.
	few := steadyLine(0, 0)
	few.Cohorts[0].Admitted = 3
	if c := outlookOf(few).Conversion; c < 0.7 {
		t.Errorf("conversion %g after three who did not come", c)
	}
}

// A store that another with a slower clock has taken over from: those who were let
// in before seem to come from the future, and who of them never came is not waited
// for until then.
func TestShareOutAfterAClockThatSteppedBack(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, time.Hour} {
		l := steadyLine(200, 0.5)
		l.At = l.At.Add(-step)
		r := ShareOut(pools(100), map[string]LineState{"a": l})
		if rate := r.Lines["a"].Rate; rate < 100 {
			t.Errorf("%s back: %g/s, %g in the pipe", step, rate, r.InPipe)
		}
	}
}

// A visitor who comes after minutes moves the lag, and not the target.
func TestOutlookOfAStraggler(t *testing.T) {
	l := steadyLine(8, 1)
	before := outlookOf(l).underway
	l.Lag += 500 * time.Second / 32
	isNear(t, "under way", outlookOf(l).underway, before, 2.5)
}

var someLine = rapid.Custom(func(t *rapid.T) LineState {
	l := LineState{
		Weight:   rapid.Int64Range(-1, queue.MaxWeight).Draw(t, "weight"),
		Waits:    rapid.Bool().Draw(t, "waits"),
		Full:     rapid.Bool().Draw(t, "full"),
		Override: rapid.Ptr(rapid.OneOf(rapid.Float64Range(0, queue.MaxRate), rapid.Just(math.NaN()), rapid.Just(-1.0)), true).Draw(t, "override"),
		Demand:   rapid.OneOf(rapid.Float64Range(-1, queue.MaxRate), rapid.Just(math.NaN())).Draw(t, "demand"),
		Lag:      time.Duration(rapid.Int64Range(-1e9, 1e12).Draw(t, "lag")),
		At:       shareAt.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "at"))),
	}
	second := shareAt.Unix() - rapid.Int64Range(0, 200).Draw(t, "since")
	for range rapid.IntRange(0, queue.MaxCohorts).Draw(t, "cohorts") {
		l.Cohorts = append(l.Cohorts, queue.Cohort{Second: second, Admitted: rapid.Int64Range(-1, 10000).Draw(t, "admitted"), Arrived: rapid.Int64Range(-1, 12000).Draw(t, "arrived")})
		second += rapid.Int64Range(1, 3).Draw(t, "gap")
	}
	return l
})

func TestShareOutAlwaysGivesRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), someLine, 0, 6).Draw(t, "lines")
		var reports []Report
		for i := range rapid.IntRange(0, 4).Draw(t, "processes") {
			reports = append(reports, Report{Process: fmt.Sprint(i), Orders: &OrdersReport{
				Capacity:     rapid.Float64Range(0, 1e5).Draw(t, "capacity"),
				WaitTarget:   time.Duration(rapid.Int64Range(-1, 1e11).Draw(t, "wait target")),
				Backlog:      rapid.IntRange(-1, 1e6).Draw(t, "backlog"),
				BacklogLimit: rapid.IntRange(-1, 1e6).Draw(t, "limit"),
				Returning:    rapid.IntRange(-1, 1e4).Draw(t, "returning"),
			}})
		}
		r := ShareOut(reports, lines)
		if len(r.Lines) != len(lines) {
			t.Fatalf("%d of %d lines", len(r.Lines), len(lines))
		}
		shares := 0.0
		for id, l := range r.Lines {
			if queue.ValidRate(l.Rate) != nil || l.Rate > queue.MaxRate || !(l.Share >= 0) || !(l.Conversion > 0 && l.Conversion <= 1) || queue.ValidRate(l.Pending) != nil || l.Why == "" {
				t.Fatalf("%s: %+v", id, l)
			}
			shares += l.Share
		}
		if shares > 1+1e-9 || queue.ValidRate(r.Budget) != nil {
			t.Fatalf("shares of %g, a budget of %g", shares, r.Budget)
		}
		if again := ShareOut(reports, maps.Clone(lines)); !reflect.DeepEqual(r, again) {
			t.Fatalf("another order of the map gives %+v, not %+v", again, r)
		}
		if len(reports) == 0 {
			return
		}
		reports[0].Orders.Capacity *= rapid.Float64Range(1, 10).Draw(t, "more")
		for id, l := range ShareOut(reports, lines).Lines {
			if l.Rate < r.Lines[id].Rate*(1-1e-9) {
				t.Fatalf("more capacity lowers the rate of %s from %g to %g", id, r.Lines[id].Rate, l.Rate)
			}
		}
	})
}
