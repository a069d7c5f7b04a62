package simulation

import "testing"

func TestScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		r := Play(s)
		t.Log(s.Name)
		for _, ph := range s.Phases {
			v := r.Judge(ph)
			t.Logf("  %-18s closed %.1f gone %.0f settled %.0f peak %.0f worst %.2f | thr %.3f util %.3f p50 %.3f p95 %.3f | least %.1f most %.1f before %.1f", v.Name, v.Closed, v.Gone, v.Settled, v.Peak, v.Worst, v.Throughput, v.Utilisation, v.P50, v.P95, v.Least, v.Most, v.Before)
		}
	}
}
