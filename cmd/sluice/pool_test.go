package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"sluice/admission"
	"sluice/orders"
	"sluice/orders/sqlstore"
)

func TestPoolFiguresReachTheAdmission(t *testing.T) {
	at := time.Now()
	s := orders.PoolStats{
		At: at, Workers: 1, Busy: 2, Running: 20, Backlog: 3, BacklogPeak: 4, BacklogLimit: 5, Completed: 60, Repeated: 54, Refused: 7, BusyTime: 1, UsedTime: 8, RepeatTime: 3,
		Work: orders.Latency{Count: 9, P50: 10, P95: 11, P99: 12, Max: 13},
		Wait: orders.Latency{Count: 14, P50: 15, P95: 16, P99: 17, Max: 18},
	}
	if got, want := measurement(s), (admission.Measurement{
		At: at, Workers: 1, Busy: 2, Running: 20, Backlog: 3, BacklogLimit: 5, Completed: 6, Refused: 7, BusyTime: 8, RepeatTime: 3,
	}); got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
	got := admission.OrdersReport{Capacity: 100}
	describe(&got, s)
	if want := (admission.OrdersReport{
		Capacity: 100, Refused: 7,
		Work: admission.Percentiles{P50: 10, P95: 11, P99: 12}, Wait: admission.Percentiles{P50: 15, P95: 16, P99: 17},
	}); got != want {
		t.Errorf("described as %+v, want %+v", got, want)
	}
}

// Two orders of a slow database: the pool that the admission sees is the service's.
func TestPoolOfAServiceIsMeasured(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(t.TempDir(), "orders.db"), Workers: 2, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	opts := orders.DefaultOptions()
	opts.Workers, opts.TestDelay = 2, 20*time.Millisecond
	service, err := orders.NewService(store, opts, log)
	if err != nil {
		t.Fatal(err)
	}
	id, err := service.AddProduct(t.Context(), orders.Product{Name: "lamp", Price: 1, Stock: 10})
	if err != nil {
		t.Fatal(err)
	}
	pool := orderPool(service, 35, time.Second, "database")
	before := pool.Measure()
	for _, token := range []string{"one", "two"} {
		b := orders.Buyer{TokenID: token, Visitor: token, Line: "default"}
		if _, _, err := service.Place(context.Background(), orders.Request{Buyer: b, Cart: []orders.CartItem{{ProductID: id, Quantity: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	after := pool.Measure()
	if n := after.Completed - before.Completed; n != 2 || after.Workers != 2 || after.Busy != 0 || after.Backlog != 0 {
		t.Errorf("%+v, before %+v", after, before)
	}
	if busy, took := after.BusyTime-before.BusyTime, after.At.Sub(before.At); busy < 2*opts.TestDelay || busy > took {
		t.Errorf("one worker was busy for %s of %s", busy, took)
	}
	var report admission.OrdersReport
	if pool.Describe(&report); report.Work.P50 < opts.TestDelay {
		t.Errorf("%+v", report)
	}
	if pool.Law != (admission.LawSettings{First: 35, WaitTarget: time.Second}) {
		t.Errorf("%+v", pool.Law)
	}
}
