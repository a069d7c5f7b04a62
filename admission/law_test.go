package admission

import (
	"math"
	"testing"
	"time"

	"sluice/queue"
)

func TestFirstGuess(t *testing.T) {
	for _, c := range []struct {
		workers int
		assumed time.Duration
		margin  float64
		want    float64
	}{
		{50, 200 * time.Millisecond, 0.7, 175},
		{10, 200 * time.Millisecond, 0.7, 35},
		{10, 1298 * time.Millisecond, 1, 7.704},
		{1, time.Hour, 1, 1.0 / 3600},
		{0, time.Second, 1, 0},
		{-1, time.Second, 1, 0},
		{10, 0, 1, 0},
		{10, -time.Second, 1, 0},
		{10, time.Second, 0, 0},
		{10, time.Second, -1, 0},
		{10, time.Second, math.NaN(), 0},
	} {
		if got := FirstGuess(c.workers, c.assumed, c.margin); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%d workers, %s each, margin %g: %g/s, want %g/s", c.workers, c.assumed, c.margin, got, c.want)
		}
	}
}

func TestFixed(t *testing.T) {
	var r Rater = Fixed(175)
	if rate, why := r.Rate(); rate != 175 || why != queue.LimitedByCapacity {
		t.Errorf("%g, %q", rate, why)
	}
}
