package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/queue"
)

// Each tick is counted once, with its batch's lateness, also one that a stall has left
// without a batch.
func TestLatenessOfTicks(t *testing.T) {
	const tick = 100 * time.Millisecond
	grid := time.Unix(1_767_323_045, 0)
	at := func(ms int) time.Time { return grid.Add(time.Duration(ms) * time.Millisecond) }
	var l Lateness
	l.note(queue.Batch{At: at(4)}, tick) // the first ever
	l.note(queue.Batch{At: at(102), Since: at(4)}, tick)
	l.note(queue.Batch{At: at(450), Since: at(102)}, tick) // those of 200 and 300 had none
	l.note(queue.Batch{At: at(3_600_500), Since: at(450)}, tick)
	if l.Ticks != 2+3+1 {
		t.Errorf("%d ticks", l.Ticks)
	}
	within := uint64(0)
	for i, bound := range LatenessBounds {
		if within += l.Counts[i]; bound == 20*time.Millisecond && within != 3 { // 4, 2 and the last hour's 0
			t.Errorf("%d within %s", within, bound)
		}
	}
	if want := (4 + 2 + 250 + 150 + 50) * time.Millisecond; l.Sum != want {
		t.Errorf("%s together, want %s", l.Sum, want)
	}
}

// A ticker goes by the ticks of the store's clock, whenever it began and however its
// own clock stands.
func TestTickerKeepsTheStoresTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := func() time.Time { return time.Now().Add(1234567 * time.Microsecond) }
		l := &fakeLine{id: "sale"}
		var since time.Time
		l.admits(func(context.Context, float64) (queue.Batch, error) {
			b := queue.Batch{At: clock(), Since: since}
			since = b.At
			return b, nil
		})
		tk := NewTicker(l, Fixed(1), 100*time.Millisecond, noLog).On(clock)
		time.Sleep(37 * time.Millisecond)
		stop := running(t, tk.Run)
		time.Sleep(10 * time.Second)
		stop()
		late := tk.Stats().Late
		if late.Ticks < 100 || late.Sum > 72*time.Millisecond+time.Duration(late.Ticks)*2*aim {
			t.Errorf("%d ticks, late by %s together", late.Ticks, late.Sum)
		}
	})
}
