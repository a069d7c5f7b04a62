package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

const mysqlMigrationWait = 50 // seconds, within openTimeout

var mysqlDialect = dialect{
	name:       "mysql",
	nowMS:      "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
	forUpdate:  " FOR UPDATE",
	skipLocked: " FOR UPDATE SKIP LOCKED",
	several:    true,
	duplicate:  func(err error) bool { return mysqlNumber(err) == mysqlDuplicate },
	conflict:   mysqlConflict,
	away:       mysqlAway,
	demoted:    mysqlDemoted,
	refused:    mysqlRefused,
}

var schemaName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// mysqlConfig reads the URL. Its errors never quote it: it has the password.
func mysqlConfig(raw string) (*mysql.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" {
		return nil, errors.New("the database URL is not mysql://user:password@host:port/name")
	}
	schema := strings.TrimPrefix(u.Path, "/")
	if !schemaName.MatchString(schema) {
		return nil, errors.New("the database URL needs a schema name of letters, digits, _ and - after the host")
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, schema
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	for key, values := range u.Query() {
		switch key {
		case "tls":
			c.TLSConfig = values[0]
		default:
			return nil, fmt.Errorf("the database URL has the unknown parameter %q", key)
		}
	}
	c.Loc, c.ParseTime = time.UTC, true
	c.InterpolateParams = true // one round trip per statement, not two
	c.MaxAllowedPacket = 0     // asked of the server: it hangs up on what is longer, which looks like an outage
	c.Timeout, c.ReadTimeout, c.WriteTimeout = 5*time.Second, 2*lockWait, 2*lockWait
	c.Logger = &mysql.NopLogger{} // what it would say is in the errors
	c.Params = map[string]string{
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		"innodb_lock_wait_timeout": strconv.Itoa(int(lockWait.Seconds())),
	}
	return c, nil
}

// readCommitted sets each new connection's isolation level. Set per
// transaction it would cost a round trip each, and there is no variable for it
// whose name MySQL and MariaDB share.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	const set = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, set, nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func openMySQL(c *mysql.Config) (*sql.DB, error) {
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(readCommitted{connector}), nil
}

// prepareMySQL creates the schema if it is missing and migrates it.
func prepareMySQL(ctx context.Context, rawURL string) (backend, error) {
	c, err := mysqlConfig(rawURL)
	if err != nil {
		return backend{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	// Migrations have statements that take long on a full table.
	patient := c.Clone()
	patient.ReadTimeout = openTimeout
	db, err := openMySQL(patient)
	if err != nil {
		return backend{}, fmt.Errorf("%w: %w", ErrUnusable, err) // of the URL's tls
	}
	defer func() { _ = db.Close() }()
	if err := createSchema(ctx, db, patient); err != nil {
		return backend{}, err
	}
	if err := migrateMySQL(ctx, db); err != nil {
		return backend{}, err
	}
	lifetime, err := connectionLifetime(ctx, db)
	if err != nil {
		return backend{}, err
	}
	return backend{
		dialect: mysqlDialect,
		open: func(several bool) (*sql.DB, error) {
			of := c.Clone()
			of.MultiStatements = several
			return openMySQL(of)
		},
		lifetime: lifetime,
		dialector: func(db *sql.DB) gorm.Dialector {
			return gormmysql.New(gormmysql.Config{Conn: db, SkipInitializeWithVersion: true})
		},
	}, nil
}

// createSchema asks for the right to create only if the schema is not there:
// many users have just the one schema. A server that takes connections and is
// silent is given up soon: another may be there in its place by then.
func createSchema(ctx context.Context, db *sql.DB, c *mysql.Config) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := db.PingContext(ctx)
	if n := mysqlNumber(err); n != mysqlNoSchema && n != mysqlNoAccess {
		return wrapf(err, "connect to %s", c.Addr)
	}
	without := c.Clone()
	without.DBName = ""
	server, err := openMySQL(without)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	_, err = server.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `"+c.DBName+"` CHARACTER SET utf8mb4")
	if err != nil {
		return fmt.Errorf("create the schema %s: %w", c.DBName, err)
	}
	return wrapf(db.PingContext(ctx), "connect to %s", c.Addr)
}

// migrateMySQL holds a named lock of the server meanwhile, which the server takes
// back with the connection: when db is closed, or the process dies.
func migrateMySQL(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for the migrations: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	const name = "CONCAT('sluice migrations ', MD5(DATABASE()))"
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", ?)", mysqlMigrationWait).Scan(&got); err != nil {
		return fmt.Errorf("wait for other migrations: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("another process has been migrating the database for too long")
	}
	return migrateUp(ctx, goose.DialectMySQL, mysqlDialect.name, db)
}

// connectionLifetime stays below the time after which the server hangs up on
// an idle connection.
func connectionLifetime(ctx context.Context, db *sql.DB) (time.Duration, error) {
	var seconds int64
	if err := db.QueryRowContext(ctx, "SELECT @@SESSION.wait_timeout").Scan(&seconds); err != nil {
		return 0, fmt.Errorf("read wait_timeout: %w", err)
	}
	return min(5*time.Minute, time.Duration(seconds)*time.Second*3/4), nil
}

func wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
