package benchmarks

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// value is something of a path's round, beside the constant answer's of the same round:
// the machine is not the same from one to the next.
type value func(m, constant measured) float64

func perSecond(m, _ measured) float64  { return m.perSecond }
func ofConstant(m, c measured) float64 { return 100 * m.perSecond / c.perSecond }
func p50(m, _ measured) float64        { return 1000 * m.took.p50.Seconds() }
func p99(m, _ measured) float64        { return 1000 * m.took.p99.Seconds() }
func p50Times(m, c measured) float64   { return m.took.p50.Seconds() / c.took.p50.Seconds() }
func p99Times(m, c measured) float64   { return m.took.p99.Seconds() / c.took.p99.Seconds() }
func processors(m, _ measured) float64 { return m.total() / 1000 }
func redisTime(m, _ measured) float64  { return micros(m.redis) }
func commands(m, _ measured) float64   { return m.commands }
func scripts(m, _ measured) float64    { return m.scripts }
func copied(m, _ measured) float64     { return m.copied }
func allocs(m, _ measured) float64     { return m.allocs }
func bytesOf(m, _ measured) float64    { return m.bytes }
func wrong(m, _ measured) float64      { return float64(m.wrong) }

// median is that of a path's rounds.
func (s staged) median(path int, of value) float64 {
	values := make([]float64, len(s.rounds[path]))
	for round, m := range s.rounds[path] {
		values[round] = of(m, s.rounds[0][round])
	}
	return medianOf(values)
}

func pathTable(s staged) string {
	var b strings.Builder
	b.WriteString("| path | requests/s | of the constant | p50 | of the constant's | p99 | of the constant's | processors | of them Redis | commands | from the copy | allocations | errors |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, p := range s.paths {
		of := func(v value) float64 { return s.median(i, v) }
		asked := fmt.Sprintf("%.2f", of(commands))
		if n := of(scripts); n > 0.5 {
			asked = fmt.Sprintf("%.2f of %.0f", n, of(commands)-n)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f %% | %.2f ms | %.2f× | %.2f ms | %.2f× | %.1f µs | %.1f µs | %s | %s | %.1f, %.0f B | %.0f |\n", p.name,
			of(perSecond), of(ofConstant), of(p50), of(p50Times), of(p99), of(p99Times), of(processors), of(redisTime), asked, fromCopy(p, of(copied)), of(allocs), of(bytesOf), of(wrong))
	}
	return b.String()
}

func fromCopy(p path, share float64) string {
	if !strings.HasPrefix(p.key, "position") {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// lengthTable shows what a poll costs in lines of different lengths, and how many times
// what it costs in the shortest.
func lengthTable(all []staged) string {
	var b strings.Builder
	b.WriteString("| waiting | path | requests/s | of the constant | p99 | of the constant's | processors | of the shortest line's | of them Redis | allocations |\n" +
		"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	shortest := 0.0
	for _, s := range all {
		for i, p := range s.paths {
			if !strings.HasPrefix(p.key, "position") {
				continue
			}
			of := func(v value) float64 { return s.median(i, v) }
			if shortest == 0 {
				shortest = of(processors)
			}
			fmt.Fprintf(&b, "| %d | %s | %.0f | %.0f %% | %.2f ms | %.2f× | %.1f µs | %.2f× | %.1f µs | %.1f |\n", s.waiting, p.name,
				of(perSecond), of(ofConstant), of(p99), of(p99Times), of(processors), of(processors)/shortest, of(redisTime), of(allocs))
		}
	}
	return b.String()
}

// benchmarkLines is all of it as Go's benchmarks are written, a line for each round, for
// benchstat.
func benchmarkLines(all []staged) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: sluice/benchmarks\n", runtime.GOOS, runtime.GOARCH)
	for _, s := range all {
		for i, p := range s.paths {
			for _, m := range s.rounds[i] {
				fmt.Fprintf(&b, "BenchmarkHTTP/waiting=%d/path=%s-%d\t%d\t%d ns/op\t%.0f req/s\t%d p50-ns\t%d p99-ns\t%.0f cpu-ns/op\t%d redis-ns/op\t%.3f commands/op\t%.3f packets/op\t%.4f copied/op\t%.0f B/op\t%.1f allocs/op\n",
					s.waiting, p.key, runtime.GOMAXPROCS(0), m.requests, m.lasted.Nanoseconds()/int64(max(1, m.requests)), m.perSecond,
					m.took.p50.Nanoseconds(), m.took.p99.Nanoseconds(), m.total(), m.redis.Nanoseconds(), m.commands, m.packets, m.copied, m.bytes, m.allocs)
			}
		}
	}
	return []byte(b.String())
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
