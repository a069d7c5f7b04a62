package web

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/orders"
	"sluice/tracing"
)

// Metrics are read from what is there anyway (views, pool, counters of routes)
// when they are asked for. Labels are lines, routes, statuses and live processes:
// things that there are few of.

// buckets of answer times, in seconds, from a poll to a saturated database.
var buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

type metrics struct {
	registry *prometheus.Registry
	times    *prometheus.HistogramVec
	routes   []*routeMetrics

	public, admin *problemCounts
}

// problems are those answered on a listener.
func (m *metrics) problems(listener string) *problemCounts {
	if listener == "admin" {
		return m.admin
	}
	return m.public
}

// routeMetrics counts the answers of one route.
type routeMetrics struct {
	app, path string
	times     prometheus.Observer
	answers   [600]atomic.Uint64 // by status
}

func (r *routeMetrics) observe(status int, took time.Duration) {
	r.times.Observe(took.Seconds())
	if status >= 0 && status < len(r.answers) {
		r.answers[status].Add(1)
	}
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sluice_http_request_seconds",
			Help:    "Time to answer a request, by route.",
			Buckets: buckets,
		}, []string{"listener", "route"}),
		public: newProblemCounts(), admin: newProblemCounts(),
	}
	m.registry.MustRegister(
		m.times,
		requestCollector{m},
		problemCollector{m},
		lineCollector{s},
		// With the live heap: what is held, whatever garbage lies about.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		connections("public", func() *fiber.App { return s.public }),
		connections("admin", func() *fiber.App { return s.admin }),
	)
	if s.cfg.Tracing != nil {
		m.registry.MustRegister(statsCollector[tracing.Counts]{s.cfg.Tracing.Counts, tracingFigures})
	}
	if s.cfg.AccessLog != nil {
		m.registry.MustRegister(statsCollector[uint64]{s.cfg.AccessLog.Dropped, accessLogFigures})
	}
	if s.cfg.Overview != nil {
		m.registry.MustRegister(admissionCollector{s.cfg.Overview})
	}
	if s.cfg.Orders != nil {
		m.registry.MustRegister(poolCollector{s.cfg.Orders},
			statsCollector[orders.PaymentStats]{s.cfg.Orders.PaymentStats, paymentFigures},
			statsCollector[orders.IssuerStats]{s.cfg.Orders.IssuerStats, issuerFigures})
	}
	return m
}

// route makes the counters of one path, at registration: requests only add.
func (m *metrics) route(app, path string) *routeMetrics {
	for _, r := range m.routes {
		if r.app == app && r.path == path {
			return r // another method of the same path
		}
	}
	r := &routeMetrics{app: app, path: path, times: m.times.WithLabelValues(app, path)}
	m.routes = append(m.routes, r)
	return r
}

func (m *metrics) handler() fiber.Handler {
	return adaptor.HTTPHandler(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}

func connections(listener string, app func() *fiber.App) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "sluice_http_connections",
		Help:        "Open connections.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(app().Server().GetOpenConnectionsCount()) })
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, labels, nil)
}

var requestsDesc = describe("http_requests_total", "Requests answered.", "listener", "route", "status")

type requestCollector struct{ m *metrics }

func (requestCollector) Describe(ch chan<- *prometheus.Desc) { ch <- requestsDesc }

func (c requestCollector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c.m.routes {
		for status := range r.answers {
			if n := r.answers[status].Load(); n > 0 {
				ch <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n),
					r.app, r.path, strconv.Itoa(status))
			}
		}
	}
}

// figure is one metric read from a value of type T.
type figure[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(T) float64
}

func collect[T any](ch chan<- prometheus.Metric, figures []figure[T], from T, labels ...string) {
	for _, f := range figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.read(from), labels...)
	}
}

var poolFigures = []figure[orders.PoolStats]{
	poolFigure("workers", "Order workers.", prometheus.GaugeValue, func(s orders.PoolStats) float64 { return float64(s.Workers) }),
	poolFigure("busy", "Order workers at work.", prometheus.GaugeValue, func(s orders.PoolStats) float64 { return float64(s.Busy) }),
	poolFigure("backlog", "Requests that wait for a worker.", prometheus.GaugeValue, func(s orders.PoolStats) float64 { return float64(s.Backlog) }),
	poolFigure("running", "Orders and claims that the workers have in hand.", prometheus.GaugeValue, func(s orders.PoolStats) float64 { return float64(s.Running) }),
	poolFigure("groups_total", "Groups of units that ran to their end: completed_total by this is how many went together.", prometheus.CounterValue, func(s orders.PoolStats) float64 { return float64(s.Groups) }),
	poolFigure("completed_total", "Units of work that ran to their end.", prometheus.CounterValue, func(s orders.PoolStats) float64 { return float64(s.Completed) }),
	poolFigure("refused_total", "Requests that got no worker in time.", prometheus.CounterValue, func(s orders.PoolStats) float64 { return float64(s.Refused) }),
	poolFigure("busy_seconds_total", "Time that all workers together were at work.", prometheus.CounterValue, func(s orders.PoolStats) float64 { return s.BusyTime.Seconds() }),
	poolFigure("used_seconds_total", "The same, with all workers counted while anything waits: what the capacity goes by.", prometheus.CounterValue, func(s orders.PoolStats) float64 { return s.UsedTime.Seconds() }),
}

func poolFigure(name, help string, kind prometheus.ValueType, read func(orders.PoolStats) float64) figure[orders.PoolStats] {
	return figure[orders.PoolStats]{describe("orders_"+name, help), kind, read}
}

var (
	workDesc = describe("orders_work_seconds", "Time at work lately.", "percentile")
	waitDesc = describe("orders_wait_seconds", "Time waited for a worker lately.", "percentile")
)

type poolCollector struct{ service *orders.Service }

func (poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- workDesc
	ch <- waitDesc
	for _, f := range poolFigures {
		ch <- f.desc
	}
}

func (c poolCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.service.PoolStats()
	collect(ch, poolFigures, stats)
	for desc, l := range map[*prometheus.Desc]orders.Latency{workDesc: stats.Work, waitDesc: stats.Wait} {
		for percentile, d := range map[string]time.Duration{"50": l.P50, "95": l.P95, "99": l.P99} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, d.Seconds(), percentile)
		}
	}
}

// Claims and payments as visitors met them are among the requests, by route and status:
// these say what only the order side knows.
var paymentFigures = []figure[orders.PaymentStats]{
	counted("payments_paid_total", "Payments that the provider took.", func(s orders.PaymentStats) int64 { return s.Paid }),
	counted("payments_declined_total", "Payments that the provider declined.", func(s orders.PaymentStats) int64 { return s.Declined }),
	counted("payments_unknown_total", "Times that the provider gave no answer, or one that could not be stored.", func(s orders.PaymentStats) int64 { return s.Unknown }),
	counted("payments_reconciled_total", "Payments paid or declined when they were asked for again.", func(s orders.PaymentStats) int64 { return s.Reconciled }),
	counted("payments_refused_total", "Payments not begun, since too many were under way.", func(s orders.PaymentStats) int64 { return s.Refused }),
}

var issuerFigures = []figure[orders.IssuerStats]{
	counted("coupons_issued_total", "Coupons that Redis gave out.", func(s orders.IssuerStats) int64 { return s.Issued }),
	counted("coupons_sold_out_total", "Claims that Redis turned away.", func(s orders.IssuerStats) int64 { return s.SoldOut }),
	counted("coupons_bypassed_total", "Claims sent to the database, since Redis was away or did not know.", func(s orders.IssuerStats) int64 { return s.Bypassed }),
	counted("coupons_drained_total", "Coupons left unwritten and written or found in the database later.", func(s orders.IssuerStats) int64 { return s.Drained }),
	counted("coupons_refused_total", "Coupons that Redis gave out and the database refused.", func(s orders.IssuerStats) int64 { return s.Refused }),
}

var tracingFigures = []figure[tracing.Counts]{
	counted("tracing_spans_sent_total", "Spans that the collector took.", func(c tracing.Counts) int64 { return int64(c.Sent) }),
	counted("tracing_spans_dropped_total", "Spans dropped, since too many waited or the collector did not take them.", func(c tracing.Counts) int64 { return int64(c.Dropped) }),
}

var accessLogFigures = []figure[uint64]{
	counted("access_log_dropped_total", "Lines of the log of requests that were dropped, since it was not written out fast enough.", func(n uint64) int64 { return int64(n) }),
}

func counted[T any](name, help string, read func(T) int64) figure[T] {
	return figure[T]{describe(name, help), prometheus.CounterValue, func(from T) float64 { return float64(read(from)) }}
}

// statsCollector reads counters that somebody keeps anyway.
type statsCollector[T any] struct {
	read    func() T
	figures []figure[T]
}

func (c statsCollector[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		ch <- f.desc
	}
}

func (c statsCollector[T]) Collect(ch chan<- prometheus.Metric) { collect(ch, c.figures, c.read()) }
