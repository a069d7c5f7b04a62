package admission

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/queue/queuetest"
)

// What a line could let in stays known as the register told it last, however long it is
// away; also when the line itself is not seen.
func TestTheSteadyRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		register := &moody{Register: NewLocalRegister()}
		a := start(t, "a", register, new(idlePool).pool(60), crowded(t, "sale", 10))
		b := start(t, "b", register, new(idlePool).pool(40), crowded(t, "sale", 10))
		defer a.stop()
		defer b.stop()
		time.Sleep(3 * time.Second)
		check := func(when string) {
			t.Helper()
			for p, index := range map[*process]int{a: 0, b: 1} {
				s := p.Steady("sale")
				if math.Abs(s.Rate-100) > 1e-6 || s.Queues != 2 || s.Index != index {
					t.Errorf("%s: %+v of process %d", when, s, index)
				}
			}
		}
		check("with a register")
		register.mood(refuses)
		time.Sleep(time.Minute)
		check("after a minute without")
		if got := a.Overview().Rates.Capacity; got != 60 {
			t.Errorf("the momentary capacity is %g: nothing was tested", got)
		}
		register.mood(nil)
		time.Sleep(3 * time.Second)
		check("with the register again")
		if s := a.Steady("nowhere"); s != (Steady{}) {
			t.Errorf("a line that is not there: %+v", s)
		}
	})
}

// In front of a store that is there a standby is the line, with all its rules.
func TestStandbyKeepsTheContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, queuetest.Implementation{
		Open: func(t testing.TB, opts queue.Options) func() queue.Line {
			line, err := memqueue.New("test", opts)
			if err != nil {
				t.Fatal(err)
			}
			return func() queue.Line {
				return NewStandby(StandbyConfig{
					Line: line, Watch: queue.NewWatch(line, time.Second, noLog), Options: opts, OnFailure: queue.ModeBypass,
					Steady: func() Steady { return Steady{} }, Log: noLog,
				})
			}
		},
		In: func(t *testing.T, test func(t *testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
				test(t)
			})
		},
	})
}
