package admission

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
)

func TestALineWaitsWhereSomebodyCouldBeLetIn(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before, after := at.Add(-time.Second), at.Add(time.Second)
	for name, c := range map[string]struct {
		change func(*queue.Snapshot)
		want   bool
	}{
		"open":         {func(*queue.Snapshot) {}, true},
		"nobody":       {func(s *queue.Snapshot) { s.Waiting = 0 }, false},
		"paused":       {func(s *queue.Snapshot) { s.Settings.Paused = true }, false},
		"passthrough":  {func(s *queue.Snapshot) { s.Settings.Mode = queue.ModePassthrough }, false},
		"recovering":   {func(s *queue.Snapshot) { s.HoldUntil = after }, false},
		"recovered":    {func(s *queue.Snapshot) { s.HoldUntil = before }, true},
		"not open yet": {func(s *queue.Snapshot) { s.Settings.OpensAt = &after }, false},
		"opened":       {func(s *queue.Snapshot) { s.Settings.OpensAt = &before }, true},
		"closed":       {func(s *queue.Snapshot) { s.Settings.ClosesAt = &before }, false},
	} {
		override := 12.5
		s := queue.Snapshot{
			At: at, Waiting: 3, Settings: queue.Settings{Mode: queue.ModeNormal, Weight: 4, RateOverride: &override},
			Cohorts: []queue.Cohort{{Second: 1, Admitted: 2, Arrived: 1}}, Lag: time.Second, LimitedBy: queue.LimitedByOverride,
		}
		c.change(&s)
		want := LineState{
			Weight: 4, Waits: c.want, Override: &override, Demand: 8, Full: true, Cohorts: s.Cohorts, Lag: time.Second, At: at,
		}
		if got := lineState(s, 8); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestALineIsFullUnlessMoreWouldBeInVain(t *testing.T) {
	for by, want := range map[queue.LimitedBy]bool{
		"": true, queue.LimitedByCapacity: true, queue.LimitedByBacklog: true, queue.LimitedByOverride: true,
		queue.LimitedByPaused: true, queue.LimitedBySchedule: true, queue.LimitedByRecovering: true,
		queue.LimitedByNoOneWaits: false, queue.LimitedByMaxActive: false,
	} {
		if got := lineState(queue.Snapshot{LimitedBy: by}, 0).Full; got != want {
			t.Errorf("limited by %q: full %v", by, got)
		}
	}
}

func TestDemandIsWhatWasUsedBetweenRounds(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var d demand
	for i, c := range []struct {
		after    time.Duration
		epoch    int64
		admitted int64
		want     float64
	}{
		{0, 0, 500, 0}, // who comes late knows nothing of before
		{time.Second, 0, 530, 30},
		{1100 * time.Millisecond, 0, 530, 30}, // too soon to say more
		{2 * time.Second, 0, 600, 70},
		{4 * time.Second, 0, 600, 0},
		{5 * time.Second, 0, 700, 100},
		{6 * time.Second, 9, 705, 0}, // a new epoch counts from the beginning
		{7 * time.Second, 9, 715, 10},
		{8 * time.Second, 9, 3, 0}, // a store that lost its memory likewise
		{9 * time.Second, 9, 4, 1},
		{time.Second, 9, 5, 0}, // a store whose clock is behind likewise
		{2 * time.Second, 9, 7, 2},
	} {
		d = d.observe(queue.Snapshot{Epoch: c.epoch, Admitted: c.admitted, At: start.Add(c.after), Created: start})
		if d.perSec != c.want {
			t.Errorf("reading %d: %g/s, want %g", i, d.perSec, c.want)
		}
	}
}

func TestDemandIsKeptFromRoundToRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sale := crowded(t, "sale", 10)
		w := queue.NewWatch(sale, time.Second, noLog)
		c := NewController(ControllerConfig{Register: NewLocalRegister(), Log: noLog,
			Lines: func() map[string]*queue.Watch { return map[string]*queue.Watch{"sale": w} }})
		demand := func() float64 {
			if err := w.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			return c.lines()["sale"].Demand
		}
		if d := demand(); d != 0 {
			t.Errorf("%g/s before anybody was let in", d)
		}
		b, err := sale.Admit(t.Context(), 30, queue.LimitedByCapacity)
		if err != nil || len(b.Admitted) == 0 {
			t.Fatalf("%+v, %v", b, err)
		}
		time.Sleep(2 * time.Second)
		if d := demand(); d != float64(len(b.Admitted))/2 {
			t.Errorf("%g/s, %d in two seconds", d, len(b.Admitted))
		}
	})
}

func TestWhoAsksIsAnInstanceThatAnswersPolls(t *testing.T) {
	for want, reports := range map[int][]Report{1: {{Process: "orders"}}, 2: {{Queue: true}, {}, {Queue: true}}} {
		if got := queues(reports); got != want {
			t.Errorf("%d of %+v, want %d", got, reports, want)
		}
	}
}

// Nobody knows whether anyone could be let in on a line that was not seen lately.
func TestAnOldViewDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := queue.NewWatch(crowded(t, "sale", 10), time.Second, noLog)
		c := NewController(ControllerConfig{Register: NewLocalRegister(), Log: noLog,
			Lines: func() map[string]*queue.Watch { return map[string]*queue.Watch{"sale": w} }})
		if n := len(c.lines()); n != 0 {
			t.Error("a line that was never seen counts")
		}
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(viewStands)
		if n := len(c.lines()); n != 1 {
			t.Error("a line that was seen 3 s ago does not count")
		}
		time.Sleep(time.Millisecond)
		if n := len(c.lines()); n != 0 {
			t.Error("a line that was not seen for more than 3 s counts")
		}
	})
}
