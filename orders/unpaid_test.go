package orders

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestSweeperCancelsAllThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const payWithin = 7 * time.Minute
		f := &fakeStore{unpaid: 3*sweepLimit + 1}
		_, stop := running(t, f, func(o *Options) { o.PayWithin = payWithin })
		time.Sleep(sweepEvery + time.Second)
		f.do(func() {
			if f.unpaid != 0 {
				t.Errorf("%d are left", f.unpaid)
			}
			f.away, f.unpaid = true, 1
		})
		time.Sleep(time.Minute)
		f.do(func() { f.away, f.unpaid = false, 1 })
		time.Sleep(sweepEvery)
		f.do(func() {
			if f.unpaid != 0 {
				t.Error("it did not go on when the database was back")
			}
			if ages := slices.Compact(f.ages); !slices.Equal(ages, []time.Duration{payWithin}) {
				t.Errorf("cancelled those older than %v, not %v", ages, payWithin)
			}
		})
		stop()
	})
}
