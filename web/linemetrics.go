package web

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/admission"
	"sluice/queue"
)

// Counters of a line begin again when it is restarted, as those of a process do.
var lineFigures = []figure[queue.View]{
	lineGauge("waiting", "Visitors who wait.", func(v queue.View) float64 { return float64(v.Waiting) }),
	lineGauge("away", "Visitors who stopped polling and may return.", func(v queue.View) float64 { return float64(v.Away) }),
	lineGauge("inside", "Live admissions.", func(v queue.View) float64 { return float64(v.Inside) }),
	lineCounter("admitted_total", "Visitors admitted in this epoch.", func(v queue.View) float64 { return float64(v.Admitted) }),
	lineCounter("arrived_total", "Admitted visitors of this epoch who came to order.", func(v queue.View) float64 { return float64(v.Arrived) }),
	lineCounter("spent_total", "Admissions used for an order in this epoch.", func(v queue.View) float64 { return float64(v.Spent) }),
	lineCounter("expired_total", "Admissions that ran out in this epoch.", func(v queue.View) float64 { return float64(v.Expired) }),
	lineCounter("left_total", "Visitors who gave up or lost a place while waiting in this epoch.", func(v queue.View) float64 { return float64(v.Left) }),
	lineCounter("given_up_total", "Places of this epoch that nobody came back for.", func(v queue.View) float64 { return float64(v.GivenUp) }),
	lineCounter("dropped_permits_total", "Permits that stalls swallowed in this epoch.", func(v queue.View) float64 { return v.Dropped }),
	lineGauge("rate", "Admissions per second of the last batch.", func(v queue.View) float64 { return v.Rate }),
	lineGauge("admitted_per_second", "Visitors let in per second lately.", func(v queue.View) float64 { return v.Movement.AdmittedPerSecond }),
	lineGauge("moved_per_second", "Places the head moved per second lately: those let in, and those found gone.", func(v queue.View) float64 { return v.Movement.PerSecond }),
	lineGauge("lag_seconds", "Time from an admission until its visitor comes to order.", func(v queue.View) float64 { return v.Lag.Seconds() }),
	lineGauge("weight", "The line's share of the capacity beside other lines.", func(v queue.View) float64 { return float64(v.Settings.Weight) }),
	lineGauge("paused", "1 while an operator paused the line.", func(v queue.View) float64 { return oneIf(v.Settings.Paused) }),
	lineGauge("open", "1 while the line's schedule lets people in.", func(v queue.View) float64 { return oneIf(v.Phase() == queue.PhaseOpen) }),
	lineGauge("hold_seconds", "How long nobody is admitted yet after a loss.", func(v queue.View) float64 { return max(0, v.HoldUntil.Sub(v.At).Seconds()) }),
}

// outlookFigures are what the admission makes of a line.
var outlookFigures = []figure[admission.LineRate]{
	outlookGauge("rate_limit", "Admissions per second that the line may make of its share.", func(r admission.LineRate) float64 { return r.Rate }),
	outlookGauge("share_ratio", "The line's part of the capacity.", func(r admission.LineRate) float64 { return r.Share }),
	outlookGauge("conversion_ratio", "The part of the admitted who come to order.", func(r admission.LineRate) float64 { return r.Conversion }),
	outlookGauge("pending", "Admitted visitors who are still expected to come.", func(r admission.LineRate) float64 { return r.Pending }),
}

func lineGauge(name, help string, read func(queue.View) float64) figure[queue.View] {
	return figure[queue.View]{describe("line_"+name, help, "line"), prometheus.GaugeValue, read}
}

func lineCounter(name, help string, read func(queue.View) float64) figure[queue.View] {
	return figure[queue.View]{describe("line_"+name, help, "line"), prometheus.CounterValue, read}
}

func outlookGauge(name, help string, read func(admission.LineRate) float64) figure[admission.LineRate] {
	return figure[admission.LineRate]{describe("line_"+name, help, "line"), prometheus.GaugeValue, read}
}

func oneIf(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// standbyFigures are of what this process did without the line.
var standbyFigures = []figure[admission.StandbyStats]{
	standbyFigure(prometheus.CounterValue, "bypassed_total", "Visitors let in by this process without the line.", func(s admission.StandbyStats) int64 { return s.Bypassed }),
	standbyFigure(prometheus.GaugeValue, "bypass_unrecorded", "Those of them that the line does not know yet.", func(s admission.StandbyStats) int64 { return s.Unrecorded }),
	standbyFigure(prometheus.CounterValue, "bypass_forgotten_total", "Those of them that the line will not know: more than are remembered.", func(s admission.StandbyStats) int64 { return s.Forgotten }),
}

func standbyFigure(kind prometheus.ValueType, name, help string, read func(admission.StandbyStats) int64) figure[admission.StandbyStats] {
	return figure[admission.StandbyStats]{describe("line_"+name, help, "line"), kind, func(s admission.StandbyStats) float64 { return float64(read(s)) }}
}

// readFigures are of how this process answered polls of a line in Redis.
var readFigures = []figure[queue.Reads]{
	readFigure(prometheus.CounterValue, "polls_copied_total", "Polls that this process answered from its copy of the places.", func(r queue.Reads) int64 { return r.Copied }),
	readFigure(prometheus.CounterValue, "polls_asked_total", "Polls that this process asked Redis for.", func(r queue.Reads) int64 { return r.Asked }),
	readFigure(prometheus.GaugeValue, "copied_places", "Places in this process's copy; 0 while the line is short.", func(r queue.Reads) int64 { return r.Places }),
	readFigure(prometheus.CounterValue, "copies_renewed_total", "Copies that had missed something and were begun anew.", func(r queue.Reads) int64 { return r.Renewed }),
}

func readFigure(kind prometheus.ValueType, name, help string, read func(queue.Reads) int64) figure[queue.Reads] {
	return figure[queue.Reads]{describe("line_"+name, help, "line"), kind, func(r queue.Reads) float64 { return float64(read(r)) }}
}

var (
	lineAgeDesc    = describe("line_view_age_seconds", "Time since the line was last read.", "line")
	pollBudgetDesc = describe("line_poll_budget", "Polls per second that the line may take from all instances; 0 is no bound.", "line")
	modeDesc       = describe("line_mode", "1 for the mode in force: an operator's, or what is in its place while the line's store is away.", "line", "mode")
	storeAwayDesc  = describe("line_store_away", "1 while the line's store is away.", "line")
	estimatesDesc  = describe("line_estimates_total", "Waits told to the last in the line that have ended: before, in (kept) or after the range told.", "line", "outcome")
	errorDesc      = describe("line_estimate_error_ratio", "(actual wait - told) / told, of the waits that ended in the last 15 s; absent without any.", "line")
	tickLateDesc   = describe("line_tick_late_seconds", "How much later than the tick's time on the store's clock a batch was given, of the batches that this process gave; each tick that had none counts with the next.", "line")
	limitedByDesc  = describe("line_limited_by", "1 for what kept the last batch from being larger.", "line", "reason")
)

var limitReasons = []queue.LimitedBy{
	queue.LimitedByCapacity, queue.LimitedByBacklog, queue.LimitedByMaxActive, queue.LimitedByOverride, queue.LimitedByPaused,
	queue.LimitedByRecovering, queue.LimitedByNoOneWaits, queue.LimitedByPassthrough, queue.LimitedBySchedule,
	queue.LimitedByBlock, queue.LimitedByBypass,
}

var modes = []queue.Mode{queue.ModeNormal, queue.ModePassthrough, queue.ModeBlock, queue.ModeBypass}

// lineCollector asks for the lines each time: there may be more than at the start.
type lineCollector struct{ server *Server }

func (lineCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- lineAgeDesc
	ch <- pollBudgetDesc
	ch <- limitedByDesc
	ch <- estimatesDesc
	ch <- errorDesc
	ch <- modeDesc
	ch <- storeAwayDesc
	ch <- tickLateDesc
	describeAll(ch, lineFigures)
	describeAll(ch, standbyFigures)
	describeAll(ch, readFigures)
	describeAll(ch, outlookFigures)
}

func (c lineCollector) Collect(ch chan<- prometheus.Metric) {
	o, _ := c.server.overview()
	for _, l := range c.server.lines.all() {
		gauge(ch, lineAgeDesc, l.watch.Age().Seconds(), l.id)
		gauge(ch, pollBudgetDesc, c.server.cfg.PollBudget(l.id), l.id)
		if l.standby != nil {
			collect(ch, standbyFigures, l.standby.Stats(), l.id)
		}
		if l.reads != nil {
			collect(ch, readFigures, l.reads(), l.id)
		}
		if l.ticks != nil {
			ch <- lateness(l.ticks().Late, l.id)
		}
		if v, ok := l.watch.View(); ok {
			collect(ch, lineFigures, v, l.id)
			gauge(ch, storeAwayDesc, oneIf(l.away()), l.id)
			for _, mode := range modes {
				gauge(ch, modeDesc, oneIf(l.mode(&v) == mode), l.id, string(mode))
			}
			for outcome, n := range map[string]int64{"early": v.Accuracy.Early, "kept": v.Accuracy.Kept, "late": v.Accuracy.Late} {
				ch <- prometheus.MustNewConstMetric(estimatesDesc, prometheus.CounterValue, float64(n), l.id, outcome)
			}
			if v.Accuracy.Recent > 0 {
				gauge(ch, errorDesc, v.Accuracy.Error, l.id)
			}
			for _, by := range limitReasons {
				gauge(ch, limitedByDesc, oneIf(l.limitedBy(v) == string(by)), l.id, string(by))
			}
		}
		if rate, ok := o.Rates.Lines[l.id]; ok {
			collect(ch, outlookFigures, rate, l.id)
		}
	}
}

// lateness is a histogram of ticks.
func lateness(l admission.Lateness, line string) prometheus.Metric {
	buckets, sum := make(map[float64]uint64, len(l.Counts)), uint64(0)
	for i, n := range l.Counts {
		sum += n
		buckets[admission.LatenessBounds[i].Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(tickLateDesc, l.Ticks, l.Sum.Seconds(), buckets, line)
}

// admissionFigures are of all lines and processes together.
var admissionFigures = []figure[admission.Overview]{
	admissionGauge("admission_capacity", "Orders per second that the live processes can do.", func(o admission.Overview) float64 { return o.Rates.Capacity }),
	admissionGauge("admission_budget", "Orders per second that are called for.", func(o admission.Overview) float64 { return o.Rates.Budget }),
	admissionGauge("admission_in_pipe", "Orders that wait for a worker or are expected of those let in.", func(o admission.Overview) float64 { return o.Rates.InPipe }),
	admissionGauge("admission_target", "How many of those there should be.", func(o admission.Overview) float64 { return o.Rates.Target }),
	admissionGauge("queue_instances", "Live processes that answer polls.", func(o admission.Overview) float64 { return float64(o.Queues) }),
	admissionGauge("register_age_seconds", "Time since the register of processes last answered.", func(o admission.Overview) float64 { return o.Age.Seconds() }),
}

// processFigures are of each live process that takes orders, as it reported.
var processFigures = []figure[*admission.OrdersReport]{
	processGauge("capacity", "Orders per second that the process can do.", func(r *admission.OrdersReport) float64 { return r.Capacity }),
	processGauge("throughput", "Orders per second that it did lately.", func(r *admission.OrdersReport) float64 { return r.Throughput }),
	processGauge("utilisation_ratio", "The part of its workers' time that was used.", func(r *admission.OrdersReport) float64 { return r.Utilisation }),
	processGauge("workers", "Its order workers.", func(r *admission.OrdersReport) float64 { return float64(r.Workers) }),
	processGauge("backlog", "Requests that wait for one of its workers.", func(r *admission.OrdersReport) float64 { return float64(r.Backlog) }),
	processGauge("backlog_limit", "How many may wait; 0 is no limit.", func(r *admission.OrdersReport) float64 { return float64(r.BacklogLimit) }),
	processGauge("returning", "Requests that were refused so lately that they are on their way back.", func(r *admission.OrdersReport) float64 { return float64(r.Returning) }),
	processGauge("wait_target_seconds", "How long a request may wait there for a worker.", func(r *admission.OrdersReport) float64 { return r.WaitTarget.Seconds() }),
}

func admissionGauge(name, help string, read func(admission.Overview) float64) figure[admission.Overview] {
	return figure[admission.Overview]{describe(name, help), prometheus.GaugeValue, read}
}

func processGauge(name, help string, read func(*admission.OrdersReport) float64) figure[*admission.OrdersReport] {
	return figure[*admission.OrdersReport]{describe("process_"+name, help, "process"), prometheus.GaugeValue, read}
}

type admissionCollector struct{ overview func() admission.Overview }

func (admissionCollector) Describe(ch chan<- *prometheus.Desc) {
	describeAll(ch, admissionFigures)
	describeAll(ch, processFigures)
}

func (c admissionCollector) Collect(ch chan<- prometheus.Metric) {
	o := c.overview()
	collect(ch, admissionFigures, o)
	for _, r := range o.Reports {
		if r.Orders != nil {
			collect(ch, processFigures, r.Orders, r.Process)
		}
	}
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func describeAll[T any](ch chan<- *prometheus.Desc, figures []figure[T]) {
	for _, f := range figures {
		ch <- f.desc
	}
}
