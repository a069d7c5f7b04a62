package sqlstore

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/servicetest"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(child(task))
	}
	goleak.VerifyTestMain(m)
}

var discard = slog.New(slog.DiscardHandler)

// databases are what every test here runs on.
var databases = map[string]func(testing.TB) Options{
	"mysql": func(t testing.TB) Options {
		return Options{URL: servicetest.MySQL(t)}
	},
	"sqlite": func(t testing.TB) Options {
		return Options{Path: filepath.Join(t.TempDir(), "orders and more?.db")}
	},
}

func onEach(t *testing.T, run func(*testing.T, Options)) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := fresh(t)
			opts.Workers = 10
			opts.Log = discard
			run(t, opts)
		})
	}
}

func openStore(t testing.TB, opts Options, trace logger.Interface) *Store {
	t.Helper()
	s, err := open(t.Context(), opts, trace)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orderstest.Run(t, counted(fresh))
		})
	}
}

// counted makes databases of which the suites see what they do.
func counted(fresh func(testing.TB) Options) func(testing.TB) orderstest.Database {
	return func(t testing.TB) orderstest.Database {
		opts := fresh(t)
		counter := &counter{Interface: logger.Discard}
		repeats := &repeats{Handler: slog.DiscardHandler}
		opts.Log = slog.New(repeats)
		return orderstest.Database{
			Open: func(t testing.TB, workers int) orders.Store {
				opts := opts
				opts.Workers = workers
				return openStore(t, opts, counter)
			},
			Statements: counter.n.Load,
			Repeated:   repeats.n.Load,
			Elapse: func(t testing.TB, d time.Duration) {
				opts := opts
				opts.Workers = 1
				elapse(t, openStore(t, opts, logger.Discard), d)
			},
		}
	}
}

// counter counts the statements that gorm runs.
type counter struct {
	logger.Interface
	n atomic.Int64
}

func (c *counter) Trace(context.Context, time.Time, func() (string, int64), error) { c.n.Add(1) }
func (c *counter) LogMode(logger.LogLevel) logger.Interface                        { return c }

// repeats counts the transactions that a store says it repeated.
type repeats struct {
	slog.Handler
	n atomic.Int64
}

func (r *repeats) Enabled(context.Context, slog.Level) bool { return true }

func (r *repeats) Handle(_ context.Context, record slog.Record) error {
	if record.Message == repeatedMessage {
		r.n.Add(1)
	}
	return nil
}
