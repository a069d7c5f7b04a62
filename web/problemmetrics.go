package web

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// problemCodes are those that there can be, each once, sorted.
var problemCodes = codesOf(append(slices.Clone(problems), internal))

func codesOf(problems []problem) []string {
	codes := make([]string, len(problems))
	for i, p := range problems {
		codes[i] = p.code
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// problemCounts counts the problems that a listener answered, by code.
type problemCounts struct{ byCode []atomic.Uint64 } // in the order of problemCodes

func newProblemCounts() *problemCounts {
	return &problemCounts{make([]atomic.Uint64, len(problemCodes))}
}

func (p *problemCounts) count(code string) {
	if i, ok := slices.BinarySearch(problemCodes, code); ok {
		p.byCode[i].Add(1)
	}
}

// read are the counts in the order of problemCodes.
func (p *problemCounts) read() []uint64 {
	counts := make([]uint64, len(p.byCode))
	for i := range p.byCode {
		counts[i] = p.byCode[i].Load()
	}
	return counts
}

var problemsDesc = describe("http_problems_total", "Problems answered, by their code.", "listener", "code")

type problemCollector struct{ m *metrics }

func (problemCollector) Describe(ch chan<- *prometheus.Desc) { ch <- problemsDesc }

func (c problemCollector) Collect(ch chan<- prometheus.Metric) {
	for _, listener := range []string{"public", "admin"} {
		for i, n := range c.m.problems(listener).read() {
			if n > 0 {
				ch <- prometheus.MustNewConstMetric(problemsDesc, prometheus.CounterValue, float64(n), listener, problemCodes[i])
			}
		}
	}
}
