package main

import (
	"time"

	"sluice/admission"
	"sluice/orders"
)

// orderPool is the order side as the admission measures it. first is the capacity
// to begin with, in orders per second, and waitTarget how long an order may wait
// for a worker.
func orderPool(service *orders.Service, first float64, waitTarget time.Duration, coupons string) *admission.Pool {
	return &admission.Pool{
		Measure: func() admission.Measurement { return measurement(service.PoolStats()) },
		Describe: func(r *admission.OrdersReport) {
			describe(r, service.PoolStats())
			r.Coupons = coupons
			r.Database = admission.DatabaseDown
			if service.DatabaseUp() {
				r.Database = admission.DatabaseUp
			}
		},
		Law: admission.LawSettings{First: first, WaitTarget: waitTarget},
	}
}

// measurement is in visitors served, who may bring several units of work each, and counts
// the workers as busy that may not take what waits.
func measurement(s orders.PoolStats) admission.Measurement {
	return admission.Measurement{
		At: s.At, Workers: s.Workers, Busy: s.Busy, Running: s.Running, Backlog: s.Backlog, BacklogLimit: s.BacklogLimit,
		Completed: s.Completed - s.Repeated, Refused: s.Refused, BusyTime: s.UsedTime, RepeatTime: s.RepeatTime,
	}
}

// describe adds what the law does not look at.
func describe(r *admission.OrdersReport, s orders.PoolStats) {
	r.Refused = s.Refused
	r.Work, r.Wait = percentiles(s.Work), percentiles(s.Wait)
}

func percentiles(l orders.Latency) admission.Percentiles {
	return admission.Percentiles{P50: l.P50, P95: l.P95, P99: l.P99}
}
