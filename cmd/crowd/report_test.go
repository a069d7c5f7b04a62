package main

import "testing"

// Of the first estimates the report says how far they were off, and to which side.
func TestEstimatesAreJudged(t *testing.T) {
	stays := []stay{
		{late: true, estimatedAt: 1, estimate: 1000, admitted: 500_001}, // closed the tab meanwhile
		{admitted: 500_001}, // told none
		{estimatedAt: 1, estimate: 9000, low: 8000, high: 10_000}, // not let in
	}
	stayed := func(told, waited int64) {
		stays = append(stays, stay{
			estimatedAt: 1000, estimate: int32(told), low: int32(told), high: int32(told), admitted: 1000 + waited,
		})
	}
	stayed(100_000, 90_000) // 10 s too much
	stayed(60_000, 58_000)
	stayed(4000, 8000) // within 5 s
	stayed(100_000, 60_000)
	stayed(30_000, 60_000)
	want := estimateReport{Judged: 5, Within: 0.6, Range: 0.6, P50: 10_000, P90: 40_000, Signed: 2000}
	if got := estimates(stays); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := estimates(stays[:3]); got != (estimateReport{}) {
		t.Errorf("nothing to judge, and yet %+v", got)
	}
}
