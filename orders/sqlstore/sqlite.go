package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/libtnb/sqlite"
	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
	driver "modernc.org/sqlite"
	result "modernc.org/sqlite/lib"
)

var sqliteDialect = dialect{
	name:      "sqlite",
	nowMS:     "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)",
	oneWriter: true,
	duplicate: func(err error) bool {
		code := sqliteCode(err)
		return code == result.SQLITE_CONSTRAINT_UNIQUE || code == result.SQLITE_CONSTRAINT_PRIMARYKEY
	},
	conflict: func(err error) bool {
		primary := sqliteCode(err) & 0xff
		return primary == result.SQLITE_BUSY || primary == result.SQLITE_LOCKED
	},
	away:    func(error) bool { return false }, // it is a file
	demoted: func(error) bool { return false },
	refused: func(err error) bool {
		switch sqliteCode(err) & 0xff {
		case result.SQLITE_ERROR, result.SQLITE_CONSTRAINT, result.SQLITE_MISMATCH, result.SQLITE_TOOBIG, result.SQLITE_RANGE:
			return true
		}
		return false
	},
}

// sqlitePasses: a file that cannot be used today cannot be tomorrow, unless another
// process holds it.
func sqlitePasses(err error) bool { return sqliteDialect.conflict(err) }

func sqliteCode(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// sqliteDSN names the file and what each connection sets. A transaction takes
// the write lock when it begins: taken later, the lock may be refused to a
// transaction that has read, whatever the busy timeout.
func sqliteDSN(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	q["_pragma"] = append([]string{
		fmt.Sprintf("busy_timeout(%d)", lockWait.Milliseconds()),
		"foreign_keys(1)",
	}, pragmas...)
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}
	return u.String()
}

// prepareSQLite creates the file if it is missing and migrates it.
func prepareSQLite(ctx context.Context, path string) (b backend, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return backend{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return backend{}, err
	}
	unlock, err := lockSQLite(ctx, path+".lock")
	if err != nil {
		return backend{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	db, err := sql.Open(sqlite.DriverName, sqliteDSN(path))
	if err != nil {
		return backend{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// The mode stays with the file. Two connections that change it at the same
	// time are refused at once, busy timeout or not, hence under the lock.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return backend{}, fmt.Errorf("open %s: %w", path, err)
	}
	if err := migrateUp(ctx, goose.DialectSQLite3, sqliteDialect.name, db); err != nil {
		return backend{}, err
	}
	return backend{
		dialect: sqliteDialect,
		open: func(bool) (*sql.DB, error) {
			return sql.Open(sqlite.DriverName, sqliteDSN(path, "journal_mode(WAL)", "synchronous(FULL)"))
		},
		dialector: func(db *sql.DB) gorm.Dialector { return sqlite.New(sqlite.Config{Conn: db}) },
	}, nil
}

// lockSQLite holds an exclusive transaction on an empty database beside the
// real one: a lock between processes that ends with them and needs no system
// calls of one platform.
func lockSQLite(ctx context.Context, path string) (unlock func() error, err error) {
	u := url.URL{
		Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: url.Values{
			"_txlock": {"exclusive"},
			"_pragma": {fmt.Sprintf("busy_timeout(%d)", openTimeout.Milliseconds())},
		}.Encode(),
	}
	db, err := sql.Open(sqlite.DriverName, u.String())
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the lock %s: %w", path, err), db.Close())
	}
	return func() error { return errors.Join(tx.Rollback(), db.Close()) }, nil
}
