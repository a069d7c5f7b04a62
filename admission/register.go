package admission

import (
	"context"
	"errors"
	"time"
)

// ErrRegister means that the register of processes did not answer. Nothing is
// known about what it did; every method is safe to call again.
var ErrRegister = errors.New("admission: the register of processes is unavailable")

// Report is what a process tells the others about itself once a second.
type Report struct {
	// Process names it: host, process id, and random characters of this start.
	Process string `json:"process"`
	// At is when the report was put in, on the register's clock; set by it.
	At time.Time `json:"at"`
	// Queue is true if the process answers polls.
	Queue bool `json:"queue"`
	// Orders is nil if the process takes no orders.
	Orders *OrdersReport `json:"orders,omitempty"`
}

// OrdersReport is the order side of a process.
type OrdersReport struct {
	// Capacity is what the law found, in orders per second, and Reason what it
	// rests on.
	Capacity float64   `json:"capacity"`
	Reason   LawReason `json:"reason"`
	// WaitTarget is how long an order may wait for a worker there, in ns.
	WaitTarget time.Duration `json:"wait_target"`
	// Throughput is in orders per second, Utilisation between 0 and 1.
	Throughput  float64 `json:"throughput"`
	Utilisation float64 `json:"utilisation"`

	Workers int `json:"workers"`
	Busy    int `json:"busy"`
	Backlog int `json:"backlog"`
	// BacklogLimit is the most that may wait; 0 is no limit.
	BacklogLimit int   `json:"backlog_limit"`
	Completed    int64 `json:"completed"`
	Refused      int64 `json:"refused"`
	// Returning is how many were refused so lately that they are on their way back.
	Returning int `json:"returning"`
	// Coupons is the way in which the process gives coupons out, which must be the same
	// in all.
	Coupons string `json:"coupons,omitempty"`
	// Database is [DatabaseUp] or [DatabaseDown]; empty in the report of a version that
	// does not say.
	Database string `json:"database,omitempty"`
	// Work is how long orders took lately, Wait how long they waited for a worker.
	Work Percentiles `json:"work"`
	Wait Percentiles `json:"wait"`
}

// What a process can say of its database.
const (
	DatabaseUp   = "up"
	DatabaseDown = "down"
)

// Percentiles are of durations, in ns.
type Percentiles struct {
	P50 time.Duration `json:"p50"`
	P95 time.Duration `json:"p95"`
	P99 time.Duration `json:"p99"`
}

// StaleAfter is the age from which a report counts as that of a dead process.
const StaleAfter = 3 * time.Second

// Register is where processes find each other's reports. Methods are safe for
// concurrent use by any number of processes; one that gets no answer before the
// context ends returns an error that wraps [ErrRegister].
type Register interface {
	// Publish puts the report in, in place of the process's last one, and returns
	// the live ones, its own included, sorted by process.
	Publish(ctx context.Context, r Report) ([]Report, error)
	// Withdraw takes the process out at once.
	Withdraw(ctx context.Context, process string) error
}
