package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/journal"
	"sluice/journal/filejournal"
	"sluice/orders"
	"sluice/orders/sqlstore"
	"sluice/queue"
	"sluice/queue/memqueue"
)

func TestMain(m *testing.M) {
	// fasthttp starts a goroutine for the Date header at its first answer; it
	// must not be born inside a bubble of virtual time.
	app := fiber.New()
	if _, err := app.Test(httptest.NewRequest("GET", "/", nil)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(wholeRun{m},
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// A pool of connection workers looks every 10 s whether it was stopped.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

var testSecret = [][]byte{[]byte("a secret for tests, of 32 bytes.")}

const adminHost = "127.0.0.1:9090"

// setup changes what a fixture is made of.
type setup struct {
	config func(*Config)
	queue  func(*queue.Options)
	orders *orders.Options                 // nil: the order side is not there
	line   func(queue.Line) queue.Line     // wraps the default line
	store  func(orders.Store) orders.Store // wraps the store
	limits timeouts                        // the zero value: the default ones
	// standby puts one in front of the default line, with this mode while the store is
	// away, and runs its ticker; empty is none.
	standby queue.Mode
	steady  admission.Steady // that it goes by
}

// fixture is a server on a real in-process line and, where asked for, real
// orders on SQLite.
type fixture struct {
	t       testing.TB
	line    queue.Line
	watch   *queue.Watch
	tickets *queue.Tickets
	tokens  *admission.Tokens
	orders  *orders.Service
	server  *Server
	log     *logBuffer
	told    *queue.Told
}

func withOrders() *orders.Options {
	o := orders.DefaultOptions()
	return &o
}

func newFixture(t testing.TB, s setup) *fixture {
	t.Helper()
	f := &fixture{t: t, log: &logBuffer{}}
	log := slog.New(slog.NewJSONHandler(f.log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	t.Cleanup(func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})

	f.told = &queue.Told{}
	options := queue.DefaultOptions()
	options.Told = f.told
	if s.queue != nil {
		s.queue(&options)
	}
	f.line = must(memqueue.New(DefaultLine, options))(t)
	if s.line != nil {
		f.line = s.line(f.line)
	}
	served := f.line
	var standby *admission.Standby
	f.watch = queue.NewWatch(f.line, 250*time.Millisecond, log)
	if s.standby != "" {
		standby = admission.NewStandby(admission.StandbyConfig{Line: f.line, Watch: f.watch, Options: options, OnFailure: s.standby, Log: log,
			Steady: func() admission.Steady { return s.steady },
		})
		running.Go(func() error { return standby.Run(ctx) })
		served = standby
		ticker := admission.NewTicker(standby, admission.Fixed(0), options.Tick, slog.New(slog.DiscardHandler))
		running.Go(func() error { return ticker.Run(ctx) })
	}
	side := must(memqueue.New("side", options))(t)
	f.tickets = must(queue.NewTickets(testSecret, options.TicketTTL))(t)
	f.tokens = must(admission.NewTokens(testSecret))(t)
	sideWatch := queue.NewWatch(side, 250*time.Millisecond, log)
	running.Go(func() error { return f.watch.Run(ctx) })
	running.Go(func() error { return sideWatch.Run(ctx) })

	cfg := Config{
		Role:    RoleAll,
		Lines:   NewLines(Line{Line: served, Watch: f.watch, Standby: standby, Attendance: queue.NewAttendance(served, f.told, log)}, Line{Line: side, Watch: sideWatch}),
		Create:  f.create(options),
		Journal: journal.NewBook(must(filejournal.Open(filepath.Join(t.TempDir(), "journal.jsonl")))(t), log),
		Tickets: f.tickets, Tokens: f.tokens, FollowupTTL: time.Minute, AdminListen: adminHost, AccessLogEvery: 1, Log: log,
	}
	if s.orders != nil {
		sqlite, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(t.TempDir(), "shop.db"), Workers: s.orders.Workers, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		store := orders.Store(sqlite)
		if s.store != nil {
			store = s.store(store)
		}
		f.orders = must(orders.NewService(store, *s.orders, log))(t)
		cfg.Orders = f.orders
		running.Go(func() error { return errors.Join(f.orders.Run(ctx), sqlite.Close()) })
	} else {
		cfg.Role = RoleQueue
	}
	if s.config != nil {
		s.config(&cfg)
	}
	f.server = must(newServer(cfg, cmp.Or(s.limits, defaultTimeouts())))(t)
	if cfg.Start == nil {
		running.Go(func() error { return f.server.Run(ctx) })
	}
	if err := f.watch.Refresh(ctx); err != nil && s.line == nil {
		t.Fatal(err)
	}
	if err := sideWatch.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	return f
}

// create makes lines while the server runs; nothing reads them but their changes.
func (f *fixture) create(options queue.Options) func(context.Context, string, queue.Patch) (bool, error) {
	return func(ctx context.Context, id string, first queue.Patch) (created bool, err error) {
		l := f.server.lines.get(id)
		if created = l == nil; created {
			made, err := memqueue.New(id, options)
			if err != nil {
				return false, err
			}
			watch := queue.NewWatch(made, 250*time.Millisecond, slog.New(slog.DiscardHandler))
			f.server.lines.Add(Line{Line: made, Watch: watch})
			l = f.server.lines.get(id)
		}
		if _, err := l.line.Configure(ctx, first); err != nil {
			return false, err
		}
		return created, l.watch.Refresh(ctx)
	}
}

// inBubble runs a test with virtual time.
func inBubble(t *testing.T, s setup, test func(*testing.T, *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Virtual time begins in 2000, when there were only places of the draw.
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)))
		test(t, newFixture(t, s))
	})
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// logBuffer collects the log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// headers are the headers of a request, "Name: value" each.
type headers []string

func bearerToken(token string) string { return "Authorization: Bearer " + token }
func ticketHeader(t string) string    { return headerTicket + ": " + t }

const jsonType = "Content-Type: application/json"

// answered is a response, read out.
type answered struct {
	t      testing.TB
	asked  string
	status int
	header http.Header
	body   string
	close  bool // Connection: close
}

func (f *fixture) public(method, target, body string, h ...string) answered {
	f.t.Helper()
	return ask(f.t, f.server.public, method, target, body, h...)
}

func (f *fixture) admin(method, target, body string, h ...string) answered {
	f.t.Helper()
	return ask(f.t, f.server.admin, method, target, body, append([]string{"Host: " + adminHost}, h...)...)
}

func ask(t testing.TB, app *fiber.App, method, target, body string, h ...string) answered {
	t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, line := range h {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Add(name, value)
		}
	}
	res, err := app.Test(req, -1)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	read, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	a := answered{t: t, asked: method + " " + target[:min(len(target), 80)], status: res.StatusCode, header: res.Header, body: string(read), close: res.Close}
	keepsTheDocument(a, req)
	return a
}

func (a answered) want(status int) answered {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d instead of %d: %s", a.asked, a.status, status, a.body)
	}
	return a
}

// problem checks a problem and everything that must come with its kind.
func (a answered) problem(status int, code string) answered {
	a.t.Helper()
	a.want(status)
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
		RetryAfterMS              int64 `json:"retry_after_ms"`
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	check := func(ok bool, what string) {
		a.t.Helper()
		if !ok {
			a.t.Errorf("%s: %s: %s %v", a.asked, what, a.body, a.header)
		}
	}
	check(p.Code == code, "code is not "+code)
	check(p.Status == status && p.Type == "about:blank" && p.Title == http.StatusText(status) && p.Detail != "", "shape")
	check(a.header.Get("Content-Type") == "application/problem+json", "content type")
	check(a.header.Get("Cache-Control") == "no-store", "cacheable")
	check(a.header.Get(headerRequestID) != "", "no request id")
	check((a.header.Get("WWW-Authenticate") != "") == (status == 401), "WWW-Authenticate")
	check((a.header.Get("Allow") != "") == (status == 405), "Allow")
	waits := status == 503 || status == 429 || status == 425
	check((p.RetryAfterMS > 0) == waits && (a.header.Get("Retry-After") != "") == waits, "retry after")
	return a
}

// into decodes the body.
func (a answered) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
}

// standing is what queue answers say.
type standing struct {
	State, Reason, Message, Token, Ticket string
	Position, Waiting                     int64
	EnteredAt                             time.Time `json:"entered_at"`
	UsableInMS                            int64     `json:"usable_in_ms"`
	ExpiresInMS                           int64     `json:"expires_in_ms"`
	PollAfterMS                           int64     `json:"poll_after_ms"`
	Estimate                              *int64    `json:"estimated_wait_ms"`
	Range                                 []int64   `json:"estimated_wait_range_ms"`
}

func (a answered) standing() (s standing) {
	a.t.Helper()
	a.into(&s)
	return s
}

// enter takes a place and returns its ticket.
func (f *fixture) enter() string {
	f.t.Helper()
	return f.public("POST", "/queue/enter", "").want(201).standing().Ticket
}

// admit lets the whole line in; a tick passes.
func (f *fixture) admit() {
	f.t.Helper()
	time.Sleep(queue.DefaultOptions().Tick)
	if _, err := f.line.Admit(context.Background(), 10_000, queue.LimitedByCapacity); err != nil {
		f.t.Fatal(err)
	}
}

// admitted enters, is let in, and waits until the token is usable.
func (f *fixture) admitted() (ticket, token string) {
	f.t.Helper()
	ticket = f.enter()
	f.admit()
	s := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing()
	if s.State != "admitted" {
		f.t.Fatalf("state %q instead of admitted", s.State)
	}
	time.Sleep(time.Duration(s.UsableInMS) * time.Millisecond)
	return ticket, s.Token
}

// product adds one and returns its id.
func (f *fixture) product(stock int64, line string) int64 {
	f.t.Helper()
	id, err := f.orders.AddProduct(context.Background(), orders.Product{
		Name: "Mug", Brand: "Sluice", Price: 1200, Stock: stock, ImageURL: "/assets/products/mug.svg", Line: line,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func cart(product, quantity int64) string {
	return fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":%d}]}`, product, quantity)
}

func newRequestCtx() *fasthttp.RequestCtx { return &fasthttp.RequestCtx{} }
