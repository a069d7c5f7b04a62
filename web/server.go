package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/admission"
	"sluice/identity"
	"sluice/journal"
	"sluice/orders"
	"sluice/queue"
	"sluice/tracing"
	"sluice/web/history"
	"sluice/web/pages"
)

// Roles of a process.
const (
	RoleAll    = "all"    // both halves
	RoleQueue  = "queue"  // queue, pages, the operator's line routes
	RoleOrders = "orders" // orders, coupons, products, and their operator routes
)

// DefaultLine is the line that routes mean when they name none; it always exists.
const DefaultLine = "default"

const (
	maxBody   = 64 << 10 // bytes
	maxHeader = 16 << 10 // bytes; fasthttp reads a header into one buffer of this size

	// concurrency is how many connections one listener serves. Beyond it
	// fasthttp closes them without a useful answer, so it is far above what file
	// descriptors and memory (about 25 KiB each) allow.
	concurrency = 256 << 10
	// queueTimeout bounds a call of the line: whoever waits in front of a
	// screen is better served by a prompt 503 that says when to ask again.
	queueTimeout = 2 * time.Second
	// staleAfter is the age at which a line's view no longer counts as live.
	staleAfter = 3 * time.Second
)

// timeouts bound how long a client may keep a connection busy, or idle.
type timeouts struct {
	// read is for one whole request: time enough for a phone on a bad
	// connection to send 64 KiB, and the end of clients that send a byte a second.
	read time.Duration
	// idle outlasts the longest interval a visitor is told (60 s), so that a
	// poll finds its connection still open.
	idle time.Duration
	// write is for one answer to a client that does not read.
	write time.Duration
	// last is what clients have, once no more connections are taken, to send
	// the rest of a request and to read an answer.
	last time.Duration
}

// slack is by how much a wait may end too early, so that not each request sets deadlines
// anew: a sixteenth of the shortest.
func (t timeouts) slack() time.Duration { return min(t.read, t.idle, t.write) / 16 }

func defaultTimeouts() timeouts {
	return timeouts{read: 15 * time.Second, idle: 75 * time.Second, write: 15 * time.Second, last: 2 * time.Second}
}

// Line is a line and what this process keeps of it.
type Line struct {
	Line  queue.Line
	Watch *queue.Watch
	// Standby is Line, where visitors are answered also while its store is away; nil
	// where they are not.
	Standby *admission.Standby
	// Attendance hears who polls; nil in role orders.
	Attendance *queue.Attendance
	// Reads tells how polls were answered; nil where there is but one way.
	Reads func() queue.Reads
	// Ticks are the figures of what lets people in here; nil in role orders.
	Ticks func() admission.TickerStats
	// Keep, if set, is called with an operator's change in Watch's view, before
	// the change is acknowledged.
	Keep func() error
}

// Lines are the lines of a process, by id. Lines are only ever added, also while
// the server runs. Safe for concurrent use; reading waits for nothing.
type Lines struct {
	mu   sync.Mutex // held while adding
	byID atomic.Pointer[map[string]*line]
}

// NewLines makes a set of lines.
func NewLines(lines ...Line) *Lines {
	ls := &Lines{}
	ls.byID.Store(&map[string]*line{})
	for _, l := range lines {
		ls.Add(l)
	}
	return ls
}

// Add puts a line in, or another in place of one of the same id.
func (ls *Lines) Add(l Line) {
	id := l.Line.ID()
	added := &line{id: id, cookie: cookieName(id), line: l.Line, watch: l.Watch, standby: l.Standby, ticks: l.Ticks, attendance: l.Attendance, reads: l.Reads, keep: l.Keep}
	if l.Keep == nil {
		added.keep = func() error { return nil }
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	next := maps.Clone(*ls.byID.Load())
	next[id] = added
	ls.byID.Store(&next)
}

// get finds a line; nil if there is none.
func (ls *Lines) get(id string) *line { return (*ls.byID.Load())[id] }

// all are the lines in the order of their ids.
func (ls *Lines) all() []*line {
	return slices.SortedFunc(maps.Values(*ls.byID.Load()), func(a, b *line) int { return strings.Compare(a.id, b.id) })
}

// Config is what a [Server] is made of. Nothing in it changes afterwards.
type Config struct {
	// Role is [RoleAll], [RoleQueue] or [RoleOrders]; empty is all.
	Role string
	// Start is what the process still waits for; nil is nothing.
	Start *Start
	// Lines must hold [DefaultLine], once nothing is waited for. In role orders they tell the epoch and the
	// clock that tokens are judged by.
	Lines *Lines
	// Create makes a line with the patch applied to its first settings, or applies
	// it to the line that is there, and adds it to Lines; created tells which.
	Create func(ctx context.Context, id string, first queue.Patch) (created bool, err error)
	// Overview is what the admission knows: the live processes and the rates; nil
	// in role orders.
	Overview func() admission.Overview
	// Tickets signs and verifies tickets; not needed in role orders.
	Tickets *queue.Tickets
	// Tokens mints and verifies admission tokens.
	Tokens *admission.Tokens
	// Orders is the order side; nil in role queue.
	Orders *orders.Service
	// PollBudget is how many polls per second all live instances together should
	// get from those who wait in the line; 0 is no bound. It is asked for each
	// poll, and must answer at once. Nil is no bound for any line.
	PollBudget func(line string) float64
	// FollowupTTL is how long after its expiry a token still reads, repeats and pays
	// the order it made.
	FollowupTTL time.Duration
	// Identity is how a visitor is told from another: [IdentityAnonymous], which empty
	// is too, [IdentityHeader], for which there must be TrustedProxies, or [IdentityJWT].
	Identity string
	// Logins verifies login tokens; needed with IdentityJWT, but for role orders.
	Logins *identity.Logins
	// TrustedProxies are the proxies in front: what they say of a visitor is believed.
	TrustedProxies []netip.Prefix
	// Limits are what one visitor may do.
	Limits Limits
	// Origins are those of other sites whose pages may call the queue, orders,
	// coupons and products, as a browser writes them: https://www.example.com.
	Origins []string
	// AdminListen is the operator listener's configured address: a Host header
	// that names it is trusted.
	AdminListen string
	// Operators are those whose tokens are asked for on the operator listener; without
	// any, none is. Names and tokens differ.
	Operators []Operator
	// AdminHosts are further Host values under which operators reach it, as
	// "name" (any port) or "name:port".
	AdminHosts []string
	// Journal is where the changes of operators are noted.
	Journal *journal.Book
	// Pages is what a shop changes of the pages.
	Pages pages.Options
	// AccessLogEvery logs one request in n, and every answer of 500; 0 logs no
	// requests.
	AccessLogEvery int
	// AccessLog receives them; nil is Log, which requests then wait for.
	AccessLog *AccessLog
	// Tracing traces some requests; nil traces none.
	Tracing *tracing.Tracer
	// TraceProxies has the traceparent of TrustedProxies decide which requests are traced:
	// of proxies that make their own, or visitors would decide.
	TraceProxies bool
	// Uncounted neither counts nor times requests: a server to measure beside one that does.
	Uncounted bool
	// Log receives internal errors and the causes of 503s; nil discards them.
	Log *slog.Logger
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	queueHalf, ordersHalf := c.Role != RoleOrders, c.Role != RoleQueue
	if c.Role != "" && c.Role != RoleAll && c.Role != RoleQueue && c.Role != RoleOrders {
		wrong("role must be %q, %q or %q, not %q", RoleAll, RoleQueue, RoleOrders, c.Role)
	}
	if c.Lines == nil || c.Lines.get(DefaultLine) == nil && len(c.Start.Missing()) == 0 {
		wrong("line %q is missing", DefaultLine)
	}
	if queueHalf && c.Tickets == nil {
		wrong("tickets are missing")
	}
	if c.Tokens == nil {
		wrong("tokens are missing")
	}
	if ordersHalf && c.Orders == nil {
		wrong("the order service is missing")
	}
	switch c.Identity {
	case "", IdentityAnonymous:
	case IdentityHeader:
		if len(c.TrustedProxies) == 0 {
			wrong("trusted proxies are missing: nobody else may name a visitor")
		}
	case IdentityJWT:
		if queueHalf && c.Logins == nil {
			wrong("logins are missing")
		}
	default:
		wrong("identity must be %q, %q or %q, not %q", IdentityAnonymous, IdentityHeader, IdentityJWT, c.Identity)
	}
	if c.Journal == nil {
		wrong("the journal is missing")
	}
	if c.FollowupTTL < 0 || c.AccessLogEvery < 0 {
		wrong("follow-up time and access log sampling must not be negative")
	}
	if err := c.Limits.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Server is the two HTTP applications of one process.
type Server struct {
	cfg      Config
	timeouts timeouts
	log      *slog.Logger
	lines    *Lines

	accessLog *slog.Logger

	public, admin *fiber.App
	metrics       *metrics
	pages         *pages.Pages // nil in role orders
	limits        limits
	hosts         *allowedHosts
	operators     []knownOperator // empty where no token is asked for
	history       *history.Recorder
	causes        causes
	requests      atomic.Uint64
	draining      atomic.Bool
}

// line is one line with what its handlers need prepared.
type line struct {
	id         string
	cookie     string
	line       queue.Line
	watch      *queue.Watch
	standby    *admission.Standby // nil in role orders
	ticks      func() admission.TickerStats
	attendance *queue.Attendance
	reads      func() queue.Reads // nil where there is but one way
	keep       func() error
}

// New builds the applications; it starts nothing.
func New(cfg Config) (*Server, error) { return newServer(cfg, defaultTimeouts()) }

func newServer(cfg Config, limits timeouts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if cfg.Role == "" {
		cfg.Role = RoleAll
	}
	if cfg.Role == RoleQueue {
		cfg.Orders = nil
	}
	if cfg.PollBudget == nil {
		cfg.PollBudget = func(string) float64 { return 0 }
	}
	s := &Server{cfg: cfg, timeouts: limits, log: cfg.Log, lines: cfg.Lines}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.accessLog = s.log; cfg.AccessLog != nil {
		s.accessLog = cfg.AccessLog.log
	}
	if cfg.Role != RoleOrders {
		s.limits = newLimits(cfg.Limits)
		shown, err := pages.New(cfg.Pages)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		for language, texts := range shown.Lacking() {
			s.log.Warn("visitors are shown these texts in English", "language", language, "texts", texts)
		}
		s.pages = shown
	}
	s.hosts = newAllowedHosts(cfg.AdminListen, cfg.AdminHosts)
	s.operators = knownOperators(cfg.Operators)
	s.metrics = newMetrics(s)
	s.history = s.newHistory()
	s.public = s.newApp("public", s.routePublic)
	s.admin = s.newApp("admin", s.routeAdmin)
	return s, nil
}

// unmatchedRoute is the route of requests that have none.
const unmatchedRoute = "unmatched"

// newApp makes one application with its limits. name labels its metrics.
func (s *Server) newApp(name string, routes func(*router)) *fiber.App {
	unmatched := s.metrics.route(name, unmatchedRoute)
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		StrictRouting:                true,
		CaseSensitive:                true,
		BodyLimit:                    maxBody,
		ReadBufferSize:               maxHeader,
		ReadTimeout:                  s.timeouts.read,
		IdleTimeout:                  s.timeouts.idle,
		WriteTimeout:                 s.timeouts.write,
		Concurrency:                  concurrency,
		DisablePreParseMultipartForm: true, // no route takes a form, and parsing one writes files
		// Only requests that no route matched arrive here: every route answers
		// its own errors.
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			return s.answer(c, unmatched, func(c *fiber.Ctx) error {
				if name == "public" && errors.Is(fromFiber(err), errMethod) && s.preflight(c) {
					return nil
				}
				return err
			})
		},
	})
	routes(&router{server: s, app: app, name: name})
	s.takeOver(app, unmatched)
	return app
}
