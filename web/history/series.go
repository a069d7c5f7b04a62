package history

import (
	"math"
	"strconv"
)

// Seconds is how many values of each figure are kept, one a second: 15 minutes.
const Seconds = 15 * 60

// Column is one figure, second by second; what is not known is NaN, and null in JSON.
type Column []float32

// MarshalJSON writes at most three decimals.
func (c Column) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 8*len(c)+2), '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, math.Round(f*1000)/1000, 'f', -1, 64)
		}
	}
	return append(b, ']'), nil
}

// unknown is the value of a figure that nobody knows.
var unknown = float32(math.NaN())

// series are the last values of one figure, by second.
type series [Seconds]float32

func newSeries() *series {
	s := &series{}
	s.clear(0, Seconds)
	return s
}

// set notes the value of a second.
func (s *series) set(second int64, v float64) { s[index(second)] = float32(v) }

// clear forgets n seconds from the first on.
func (s *series) clear(first, n int64) {
	for i := range min(n, Seconds) {
		s[index(first+i)] = unknown
	}
}

// column are the values of the seconds from the first to the last, both included.
func (s *series) column(first, last int64) Column {
	c := make(Column, 0, max(0, last-first+1))
	for second := first; second <= last; second++ {
		c = append(c, s[index(second)])
	}
	return c
}

// index is where a second's value is; a clock may stand before 1970.
func index(second int64) int64 { return ((second % Seconds) + Seconds) % Seconds }

// any reports whether a value is kept for which ok holds.
func (s *series) any(ok func(float32) bool) bool {
	for _, v := range s {
		if ok(v) {
			return true
		}
	}
	return false
}

func known(v float32) bool { return v == v }
