// Package registertest holds what every [admission.Register] must do.
package registertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
)

// patience bounds every exchange; a store that answers needs far less.
const patience = 5 * time.Second

// Run tests a register. open gives an empty one, as two processes see it; in runs
// a test, directly or in a bubble of virtual time.
func Run(t *testing.T, in func(*testing.T, func(*testing.T)), open func(t *testing.T) (a, b admission.Register)) {
	for name, test := range map[string]func(t *testing.T, a, b admission.Register){
		"processes find each other":        findEachOther,
		"a report is as it was given":      asGiven,
		"the last report counts":           lastCounts,
		"whoever withdraws is gone":        withdraw,
		"silent processes count as dead":   stale,
		"many publish at once":             many,
		"an ended context is not answered": ended,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				a, b := open(t)
				test(t, a, b)
			})
		})
	}
}

func publish(t *testing.T, r admission.Register, report admission.Report) []admission.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports, err := r.Publish(ctx, report)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func names(reports []admission.Report) []string {
	var all []string
	for _, r := range reports {
		all = append(all, r.Process)
	}
	return all
}

func expect(t *testing.T, reports []admission.Report, processes ...string) {
	t.Helper()
	if got := names(reports); !slices.Equal(got, processes) {
		t.Errorf("live are %q, want %q", got, processes)
	}
}

func findEachOther(t *testing.T, a, b admission.Register) {
	expect(t, publish(t, a, admission.Report{Process: "m"}), "m")
	expect(t, publish(t, b, admission.Report{Process: "z"}), "m", "z")
	expect(t, publish(t, b, admission.Report{Process: "a"}), "a", "m", "z")
	expect(t, publish(t, a, admission.Report{Process: "m"}), "a", "m", "z")
}

func asGiven(t *testing.T, a, b admission.Register) {
	given := admission.Report{Process: "host:1 \"quoted\" ümlaut", Queue: true, Orders: &admission.OrdersReport{
		Capacity: 1234.56789, Reason: admission.ReasonMeasured, WaitTarget: 500 * time.Millisecond,
		Throughput: 1e-9, Utilisation: 0.5, Workers: 10, Busy: 9, Backlog: 1000, BacklogLimit: 2000, Returning: 7, Completed: 1 << 60, Refused: 3,
		Work: admission.Percentiles{P50: 1, P95: 2, P99: 3}, Wait: admission.Percentiles{P50: time.Hour},
	}}
	first := publish(t, a, given)[0]
	if first.At.IsZero() {
		t.Error("the register gave it no time")
	}
	// Not a time of the caller's, and another with every report.
	given.At = time.Unix(1, 0)
	time.Sleep(20 * time.Millisecond)
	second := publish(t, a, given)[0]
	if took := second.At.Sub(first.At); took < 10*time.Millisecond || took > patience {
		t.Errorf("20 ms later by another clock: %s", took)
	}
	seen := publish(t, b, admission.Report{Process: "other"})
	expect(t, seen, given.Process, "other")
	given.At = second.At
	if got := seen[0]; !got.At.Equal(given.At) {
		t.Errorf("at %s, want %s", got.At, given.At)
	} else if got.At = given.At; !reflect.DeepEqual(got, given) {
		t.Errorf("%+v %+v, want %+v %+v", got, got.Orders, given, given.Orders)
	}
	if seen[1].Orders != nil || seen[1].Queue {
		t.Errorf("%+v", seen[1])
	}
}

func lastCounts(t *testing.T, a, b admission.Register) {
	publish(t, a, admission.Report{Process: "a", Queue: true, Orders: &admission.OrdersReport{Capacity: 1}})
	publish(t, a, admission.Report{Process: "a", Orders: &admission.OrdersReport{Capacity: 2}})
	seen := publish(t, b, admission.Report{Process: "b"})
	if expect(t, seen, "a", "b"); seen[0].Queue || seen[0].Orders.Capacity != 2 {
		t.Errorf("%+v", seen[0])
	}
}

func withdraw(t *testing.T, a, b admission.Register) {
	publish(t, a, admission.Report{Process: "a"})
	publish(t, b, admission.Report{Process: "b"})
	for range 2 { // the second changes nothing
		if err := a.Withdraw(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, publish(t, b, admission.Report{Process: "b"}), "b")
	expect(t, publish(t, a, admission.Report{Process: "a"}), "a", "b") // it is back
}

func stale(t *testing.T, a, b admission.Register) {
	publish(t, a, admission.Report{Process: "dead"})
	begun := time.Now()
	publish(t, b, admission.Report{Process: "live"})
	time.Sleep(admission.StaleAfter - 300*time.Millisecond)
	seen := publish(t, b, admission.Report{Process: "live"})
	if time.Since(begun) < admission.StaleAfter { // else this machine was busy
		expect(t, seen, "dead", "live")
	}
	time.Sleep(310 * time.Millisecond)
	expect(t, publish(t, b, admission.Report{Process: "live"}), "live")
	expect(t, publish(t, a, admission.Report{Process: "dead"}), "dead", "live") // it only hung
}

func many(t *testing.T, a, b admission.Register) {
	var g errgroup.Group
	const processes = 40
	for i := range processes {
		r := []admission.Register{a, b}[i%2]
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for n := range 10 {
				name := fmt.Sprintf("process %02d", i)
				seen, err := r.Publish(ctx, admission.Report{Process: name, Orders: &admission.OrdersReport{Completed: int64(n)}})
				if err != nil {
					return err
				}
				at, ok := slices.BinarySearch(names(seen), name)
				if !ok || seen[at].Orders.Completed != int64(n) {
					return fmt.Errorf("%s does not find its own report among %q", name, names(seen))
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(publish(t, a, admission.Report{Process: "process 00"})); n != processes {
		t.Errorf("%d live, want %d", n, processes)
	}
}

func ended(t *testing.T, a, _ admission.Register) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Publish(ctx, admission.Report{Process: "a"}); !errors.Is(err, admission.ErrRegister) || !errors.Is(err, context.Canceled) {
		t.Errorf("publishing: %v", err)
	}
	if err := a.Withdraw(ctx, "a"); !errors.Is(err, admission.ErrRegister) || !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawing: %v", err)
	}
}
