// Package sqlstore keeps products and orders in MySQL (8.0.16 or later) or
// MariaDB (10.6 or later), or in one SQLite file, through gorm.
//
// # Connections
//
// A [Store] has three handles. The workers' one has as many connections as
// there are workers, and only orders and claims use it. Who reads or pays an order,
// adds up all or adds a product uses another, so that no reader waits for a slow
// order and no order for a crowd of readers; a payment has no connection while the
// provider is asked. What the process does for itself, at its own pace, has the
// smallest: a crowd of readers on a table that is stuck must not let the catalogue
// grow old.
//
// # Durability
//
// An order is acknowledged after its commit has returned. On MySQL the default
// innodb_flush_log_at_trx_commit=1 makes that durable. On SQLite the store
// sets WAL with synchronous=FULL: NORMAL would also survive a killed process,
// since the kernel has the pages by then, but not a power cut, because it does
// not flush the log at each commit.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"sluice/orders"
)

// Options say which database and how many connections. Exactly one of URL and
// Path is set.
type Options struct {
	// URL of a MySQL or MariaDB schema: mysql://user:password@host:port/name.
	// The schema is created when missing, where the user may do that. The one
	// parameter is tls: true, skip-verify or preferred; none without it.
	URL string
	// Path of an SQLite file, created when missing.
	Path string
	// Workers is how many orders are placed at the same time: the number of
	// connections kept open for them.
	Workers int
	// Log hears of repeated transactions.
	Log *slog.Logger
}

const (
	// sideConnections are as many as payments need, which commit on them and wait
	// for the disk: on MariaDB 16 settled three times as many as 4. SQLite does not
	// care.
	sideConnections = 16
	// upkeepConnections are one each for the sweeper and for the reconciler of the
	// payments, which may wait for locks, and one for the catalogue and the pings,
	// which do not.
	upkeepConnections = 3
	// placeTimeout bounds one Place with its repetitions, not counting the
	// test delay. It is longer than a lock wait, so that the server's own
	// verdict comes first.
	placeTimeout = 20 * time.Second
	lockWait     = 5 * time.Second
	openTimeout  = 60 * time.Second // creating, migrating, and waiting for another process that does it
	// reachTimeout bounds the first word of a server that is just being looked for.
	reachTimeout = 10 * time.Second
)

// ErrUnusable means that the database is there and does not serve as it is, whoever
// waits: the password or the rights are wrong, or the schema is of a later version.
// It is for an operator to change.
var ErrUnusable = errors.New("sqlstore: the database cannot be used as it is")

// Store is an [orders.Store]. Its methods hold the contracts of the interface.
type Store struct {
	opts    Options
	trace   logger.Interface
	dialect dialect
	workers *gorm.DB // Place and Claim
	side    *gorm.DB // whatever else people ask for
	upkeep  *gorm.DB // the catalogue, the sweeper, the reconciler, and pings
	log     *slog.Logger
	delay   atomic.Int64 // ns
	// writing lets one goroutine at a time write, or begin a transaction, where
	// the database has one writer: waiting here is first come first served,
	// in the database it is polling. nil where it has many.
	writing chan struct{}
}

var _ orders.Store = (*Store)(nil)

// dialect is what differs between the databases.
type dialect struct {
	name       string // of the migrations' folder
	nowMS      string // the database's clock in Unix ms
	forUpdate  string // makes a SELECT lock what it reads
	skipLocked string // likewise, passing over what others hold
	oneWriter  bool
	several    bool             // the workers' connections take several statements at a time
	duplicate  func(error) bool // a unique index refused the row
	conflict   func(error) bool // it rolled back for the sake of others: the same again may succeed
	away       func(error) bool // it was not reached, or serves nobody right now
	demoted    func(error) bool // of these, it is there and takes no writes
	refused    func(error) bool // it is the fault of what was to be written, not of the database
}

// Open is [New] and [Store.Prepare]. Close it after use.
func Open(ctx context.Context, opts Options) (*Store, error) {
	return open(ctx, opts, logger.Discard)
}

// open has the statements traced: tests count them.
func open(ctx context.Context, opts Options, trace logger.Interface) (*Store, error) {
	s, err := New(opts)
	if err != nil {
		return nil, err
	}
	s.trace = trace
	if err := s.Prepare(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// New checks the options and reaches for nothing yet: that is for Prepare, which must
// have succeeded before any other method is called but SetTestDelay and Close.
func New(opts Options) (*Store, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("order store options: %w", err)
	}
	return &Store{opts: opts, log: opts.Log, trace: logger.Discard}, nil
}

// Prepare connects, creates and migrates what is missing, and is safe when several
// processes do so at once. It may be called until it succeeds, and takes a minute at
// most. Errors: [ErrUnusable]; [orders.ErrDatabase] for what may pass by itself.
func (s *Store) Prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	b, err := prepare(ctx, s.opts)
	if err == nil {
		err = s.connect(ctx, b)
	}
	if err == nil || errors.Is(err, ErrUnusable) {
		return err
	}
	return fmt.Errorf("%w: %w", orders.ErrDatabase, err)
}

func prepare(ctx context.Context, opts Options) (b backend, err error) {
	passes := sqlitePasses
	if opts.URL != "" {
		passes = mysqlPasses
		b, err = prepareMySQL(ctx, opts.URL)
	} else {
		b, err = prepareSQLite(ctx, opts.Path)
	}
	if err == nil || errors.Is(err, ErrUnusable) || ctx.Err() != nil || passes(err) {
		return b, err
	}
	return b, fmt.Errorf("%w: %w", ErrUnusable, err)
}

// connect opens the handles.
func (s *Store) connect(ctx context.Context, b backend) (err error) {
	s.dialect = b.dialect
	if b.dialect.oneWriter {
		s.writing = make(chan struct{}, 1)
	}
	if s.workers, err = b.handle(s.opts.Workers, true, s.trace); err == nil {
		s.side, err = b.handle(sideConnections, false, s.trace)
	}
	if err == nil {
		s.upkeep, err = b.handle(upkeepConnections, false, s.trace)
	}
	if err == nil {
		err = s.Ping(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

func (o Options) validate() error {
	var errs []error
	if (o.URL == "") == (o.Path == "") {
		errs = append(errs, errors.New("either a URL or a path is needed"))
	}
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("workers must be at least 1, not %d", o.Workers))
	}
	if o.Log == nil {
		errs = append(errs, errors.New("a logger is needed"))
	}
	return errors.Join(errs...)
}

// backend is a database that is there and migrated.
type backend struct {
	dialect dialect
	// open opens a handle; with several, it takes several statements at a time if the
	// database does at all.
	open      func(several bool) (*sql.DB, error)
	dialector func(*sql.DB) gorm.Dialector
	lifetime  time.Duration // of a connection; 0: as long as the handle
}

// handle opens a pool of n connections. All of them stay open while idle:
// the default keeps two and would reconnect all the time under load.
//
// gorm's PrepareStmt was measured and left out: no gain on SQLite, and on MySQL
// half as much CPU time again in this process, since interpolated statements
// take one round trip already.
func (b backend) handle(n int, several bool, trace logger.Interface) (*gorm.DB, error) {
	db, err := b.open(several)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	db.SetConnMaxLifetime(b.lifetime)
	g, err := gorm.Open(b.dialector(db), &gorm.Config{
		SkipDefaultTransaction: true, // single statements need none around them
		DisableAutomaticPing:   true, // Ping is called with a context
		Logger:                 trace,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return g, nil
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	db, err := s.upkeep.DB()
	if err == nil {
		err = db.PingContext(ctx)
	}
	return s.outward("ping", err)
}

// SetTestDelay makes every Place sleep before it takes a lock.
func (s *Store) SetTestDelay(d time.Duration) { s.delay.Store(int64(d)) }

// Close gives the connections back, after the statements under way. That a server has
// taken some of them before is no error, whatever the driver calls it.
func (s *Store) Close() error {
	var errs []error
	for _, g := range []*gorm.DB{s.workers, s.side, s.upkeep} {
		if g == nil {
			continue
		}
		db, err := g.DB()
		if err == nil {
			err = db.Close()
		}
		if err != nil && s.opts.Path != "" {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
