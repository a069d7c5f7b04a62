package web

import (
	"time"

	"sluice/admission"
	"sluice/orders"
	"sluice/queue"
)

// lineJSON is every live figure of a line, as this instance sees it. Figures of
// the admission are null where this process does not know them.
type lineJSON struct {
	Line      string  `json:"line"`
	Epoch     int64   `json:"epoch"`
	CreatedAt string  `json:"created_at"`
	State     string  `json:"state"`
	Degraded  bool    `json:"degraded"`
	HoldUntil *string `json:"hold_until"`

	standbyJSON

	// What an operator decides.
	Mode         string   `json:"mode"`
	Paused       bool     `json:"paused"`
	Message      string   `json:"message"`
	RateOverride *float64 `json:"rate_override"`
	MaxActive    int64    `json:"max_active"`
	MaxLength    int64    `json:"max_length"`
	SoldOut      bool     `json:"sold_out"`
	Weight       int64    `json:"weight"`
	PollBudget   *float64 `json:"poll_budget"`
	OpensAt      *string  `json:"opens_at"`
	ClosesAt     *string  `json:"closes_at"`
	Revision     int64    `json:"revision"`
	SeedSHA256   *string  `json:"seed_sha256"` // never the seed

	// Visitors.
	Waiting  int64 `json:"waiting"`
	Away     int64 `json:"away"`
	Inside   int64 `json:"inside"`
	Admitted int64 `json:"admitted"`
	Arrived  int64 `json:"arrived"`
	Spent    int64 `json:"spent"`
	Expired  int64 `json:"expired"`
	Left     int64 `json:"left"`
	GivenUp  int64 `json:"given_up"`

	// How it moves, and why not faster.
	DroppedPermits       float64   `json:"dropped_permits"`
	Rate                 float64   `json:"rate"`
	LimitedBy            *string   `json:"limited_by"`
	AdmittedPerSecond    float64   `json:"admitted_per_second"`
	MovedPerSecond       float64   `json:"moved_per_second"`
	EstimatedWaitRangeMS *[2]int64 `json:"estimated_wait_range_ms"` // of a newcomer
	LagMS                int64     `json:"lag_ms"`
	Conversion           *float64  `json:"conversion"`
	Pending              *float64  `json:"pending"`
	Share                *float64  `json:"share"`
	RateLimit            *float64  `json:"rate_limit"`
	EffectivePollBudget  float64   `json:"effective_poll_budget"`

	capacityJSON

	Orders     *poolJSON `json:"orders"` // null where this process takes no orders
	ServerTime string    `json:"server_time"`
}

// capacityJSON is what all lines share: the capacity of the order side.
type capacityJSON struct {
	Capacity       *float64      `json:"capacity"`
	Budget         *float64      `json:"budget"`
	InPipe         *float64      `json:"in_pipe"`
	Target         *float64      `json:"target"`
	QueueInstances *int          `json:"queue_instances"`
	RegisterAgeMS  *int64        `json:"register_age_ms"`
	Processes      []processJSON `json:"processes"`
}

// processJSON is the last report of a live process; what concerns orders is
// absent where it takes none.
type processJSON struct {
	Process string `json:"process"`
	At      string `json:"at"`
	Queue   bool   `json:"queue"`
	// Database is null where the process takes no orders, or does not say.
	Database *string `json:"database"`
	*orderProcessJSON
}

type orderProcessJSON struct {
	Capacity     float64     `json:"capacity"`
	Reason       string      `json:"reason"`
	WaitTargetMS int64       `json:"wait_target_ms"`
	Throughput   float64     `json:"throughput"`
	Utilisation  float64     `json:"utilisation"`
	Workers      int         `json:"workers"`
	Busy         int         `json:"busy"`
	Backlog      int         `json:"backlog"`
	BacklogLimit int         `json:"backlog_limit"`
	Returning    int         `json:"returning"`
	Completed    int64       `json:"completed"`
	Refused      int64       `json:"refused"`
	WorkMS       latencyJSON `json:"work_ms"`
	WaitMS       latencyJSON `json:"wait_ms"`
}

type poolJSON struct {
	Workers     int         `json:"workers"`
	Busy        int         `json:"busy"`
	Backlog     int         `json:"backlog"`
	Completed   int64       `json:"completed"`
	Refused     int64       `json:"refused"`
	WorkMS      latencyJSON `json:"work_ms"`
	WaitMS      latencyJSON `json:"wait_ms"`
	TestDelayMS int64       `json:"test_delay_ms"`
	Database    string      `json:"database"`
}

type latencyJSON struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// overview is what the admission knows; ok is false where nothing of it runs.
func (s *Server) overview() (o admission.Overview, ok bool) {
	if s.cfg.Overview == nil {
		return admission.Overview{}, false
	}
	return s.cfg.Overview(), true
}

func (s *Server) lineFigures(l *line) (lineJSON, error) {
	v, err := l.view()
	if err != nil {
		return lineJSON{}, err
	}
	set := v.Settings
	out := lineJSON{
		Line: l.id, Epoch: v.Epoch, CreatedAt: v.Created.UTC().Format(wireTime), State: l.state(v),
		Degraded: v.Recovering(), standbyJSON: l.standbyFigures(v),

		Mode: string(set.Mode), Paused: set.Paused, Message: set.Message, RateOverride: set.RateOverride,
		MaxActive: set.MaxActive, MaxLength: set.MaxLength, SoldOut: set.SoldOut, Weight: set.Weight,
		PollBudget: set.PollBudget, OpensAt: optionalTime(set.OpensAt), ClosesAt: optionalTime(set.ClosesAt),
		Revision: set.Revision,

		Waiting: v.Waiting, Away: v.Away, Inside: v.Inside, Admitted: v.Admitted, Arrived: v.Arrived, Spent: v.Spent,
		Expired: v.Expired, Left: v.Left, GivenUp: v.GivenUp,

		DroppedPermits: round(v.Dropped), Rate: round(v.Rate), LimitedBy: optional(l.limitedBy(v)),
		AdmittedPerSecond: round(v.Movement.AdmittedPerSecond), MovedPerSecond: round(v.Movement.PerSecond),
		LagMS:               v.Lag.Milliseconds(),
		EffectivePollBudget: round(s.cfg.PollBudget(l.id)),

		capacityJSON: capacityJSON{Processes: []processJSON{}},
		Orders:       s.poolFigures(),
		ServerTime:   l.watch.Now().UTC().Format(wireTime),
	}
	if v.Recovering() {
		out.HoldUntil = optionalTime(&v.HoldUntil)
	}
	if e, ok := l.newcomer(v); ok {
		out.EstimatedWaitRangeMS = &[2]int64{e.Low.Milliseconds(), ceilMS(e.High)}
	}
	if set.Seed != "" {
		out.SeedSHA256 = new(queue.HashSeed(set.Seed))
	}
	if o, ok := s.overview(); ok {
		out.capacityJSON = capacityFigures(o)
		if rate, ok := o.Rates.Lines[l.id]; ok {
			out.Conversion, out.Pending = new(ratio(rate.Conversion)), new(round(rate.Pending))
			out.Share, out.RateLimit = new(ratio(rate.Share)), new(round(rate.Rate))
		}
	}
	return out, nil
}

func capacityFigures(o admission.Overview) capacityJSON {
	out := capacityJSON{
		Capacity: new(round(o.Rates.Capacity)), Budget: new(round(o.Rates.Budget)),
		InPipe: new(round(o.Rates.InPipe)), Target: new(round(o.Rates.Target)),
		QueueInstances: &o.Queues, RegisterAgeMS: new(o.Age.Milliseconds()),
		Processes: make([]processJSON, len(o.Reports)),
	}
	for i, r := range o.Reports {
		out.Processes[i] = processJSON{Process: r.Process, At: r.At.UTC().Format(wireTime), Queue: r.Queue, orderProcessJSON: orderProcess(r.Orders)}
		if r.Orders != nil {
			out.Processes[i].Database = optional(r.Orders.Database)
		}
	}
	return out
}

func orderProcess(r *admission.OrdersReport) *orderProcessJSON {
	if r == nil {
		return nil
	}
	return &orderProcessJSON{
		Capacity: round(r.Capacity), Reason: string(r.Reason), WaitTargetMS: r.WaitTarget.Milliseconds(),
		Throughput: round(r.Throughput), Utilisation: ratio(r.Utilisation),
		Workers: r.Workers, Busy: r.Busy, Backlog: r.Backlog, BacklogLimit: r.BacklogLimit, Returning: r.Returning,
		Completed: r.Completed, Refused: r.Refused,
		WorkMS: latency(r.Work.P50, r.Work.P95, r.Work.P99), WaitMS: latency(r.Wait.P50, r.Wait.P95, r.Wait.P99),
	}
}

func (s *Server) poolFigures() *poolJSON {
	if s.cfg.Orders == nil {
		return nil
	}
	stats := s.cfg.Orders.PoolStats()
	delay, _ := s.cfg.Orders.TestDelay()
	of := func(l orders.Latency) latencyJSON { return latency(l.P50, l.P95, l.P99) }
	return &poolJSON{
		Workers: stats.Workers, Busy: stats.Busy, Backlog: stats.Backlog,
		Completed: stats.Completed, Refused: stats.Refused,
		WorkMS: of(stats.Work), WaitMS: of(stats.Wait),
		TestDelayMS: delay.Milliseconds(),
		Database:    databaseState(s.cfg.Orders.DatabaseUp()),
	}
}

func databaseState(up bool) string {
	if up {
		return admission.DatabaseUp
	}
	return admission.DatabaseDown
}

func latency(p50, p95, p99 time.Duration) latencyJSON {
	ms := func(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }
	return latencyJSON{P50: ms(p50), P95: ms(p95), P99: ms(p99)}
}
