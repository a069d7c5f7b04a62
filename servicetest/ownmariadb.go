package servicetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MariaDB is a server of a test's own, which may be stopped and started again.
type MariaDB struct {
	// URL of an empty schema on it: mysql://…
	URL string

	t       testing.TB
	dir     string
	config  *mysql.Config
	process *osexec.Cmd
	wait    func() error
}

// OwnMariaDB starts one, for what a shared server must not suffer. It ends with the
// test.
func OwnMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	install, err := osexec.LookPath("mariadb-install-db")
	if err != nil {
		missing(t, "mariadb-install-db (a MariaDB of the test's own)", err)
	}
	dir, err := os.MkdirTemp("", "sluice-db-") //nolint:usetesting // the path of a socket has 107 bytes at most, and a test's name may be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &MariaDB{t: t, dir: dir, config: tcp(testUser, testPassword, freeAddress(t))}
	setUp := osexec.CommandContext(t.Context(), install, "--no-defaults", "--datadir="+m.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--user="+m.user())
	setUp.Env = m.environ()
	out, err := setUp.CombinedOutput()
	if err != nil {
		t.Fatalf("a MariaDB of the test's own: %v\n%s", err, out)
	}
	m.Start()
	t.Cleanup(m.Stop)
	for _, statement := range []string{
		"CREATE USER '" + testUser + "'@'127.0.0.1' IDENTIFIED BY '" + testPassword + "'",
		"GRANT ALL ON `sluice\\_test\\_%`.* TO '" + testUser + "'@'127.0.0.1'",
		"CREATE DATABASE sluice_test_own",
	} {
		if err := exec(socket(m.socket()), statement); err != nil {
			t.Fatalf("prepare the test's own MariaDB: %v", err)
		}
	}
	m.URL = (&url.URL{Scheme: "mysql", User: url.UserPassword(testUser, testPassword), Host: m.config.Addr, Path: "/sluice_test_own"}).String()
	return m
}

func (m *MariaDB) data() string   { return filepath.Join(m.dir, "data") }
func (m *MariaDB) socket() string { return filepath.Join(m.dir, "s") }

// environ gives the server a folder of its own for what is temporary: each one that
// starts removes what it takes for the remains of a former one.
func (m *MariaDB) environ() []string { return append(os.Environ(), "TMPDIR="+m.dir) }

// user is who the server runs as: it refuses to be root unless told.
func (m *MariaDB) user() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return ""
}

// Start starts the server and waits until it answers.
func (m *MariaDB) Start() {
	m.t.Helper()
	host, port, _ := net.SplitHostPort(m.config.Addr)
	m.process = osexec.CommandContext(context.WithoutCancel(m.t.Context()), "mariadbd", "--no-defaults", "--datadir="+m.data(), "--socket="+m.socket(),
		"--bind-address="+host, "--port="+port, "--user="+m.user(), "--innodb-flush-log-at-trx-commit=1")
	m.process.Env = m.environ()
	var err error
	if m.wait, err = Bound(m.process); err != nil {
		missing(m.t, "mariadbd (a MariaDB of the test's own)", err)
	}
	var last error
	for deadline := time.Now().Add(6 * patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = exec(socket(m.socket()), "DO 1"); last == nil {
			return
		}
	}
	m.t.Fatalf("the test's own MariaDB does not answer: %v", last)
}

// PID is the server's process.
func (m *MariaDB) PID() int { return m.process.Process.Pid }

// Exec runs statements as an administrator, for whom the server keeps one connection
// when it has no other. Whoever is being refused in that moment holds it, so another
// try is made then: being let in comes before the first statement.
func (m *MariaDB) Exec(statements ...string) {
	m.t.Helper()
	const tooManyConnections = 1040
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err = exec(socket(m.socket()), statements...)
		var refused *mysql.MySQLError
		if !errors.As(err, &refused) || refused.Number != tooManyConnections || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		m.t.Fatalf("administer the test's own MariaDB: %v", err)
	}
}

// Connect is for connections of the test's own to the schema, as the user whom the
// service is; closed with the test.
func (m *MariaDB) Connect() *sql.DB {
	m.t.Helper()
	c := m.config.Clone()
	c.DBName = "sluice_test_own"
	connector, err := mysql.NewConnector(c)
	if err != nil {
		m.t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	m.t.Cleanup(func() { _ = db.Close() })
	return db
}

// Freeze stops the server without anybody noticing but by its silence; Thaw lets it go
// on.
func (m *MariaDB) Freeze() { m.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (m *MariaDB) Thaw() { m.signal(syscall.SIGCONT) }

func (m *MariaDB) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.process.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// Stop kills the server, as a power cut does, unless it has stopped.
func (m *MariaDB) Stop() {
	m.t.Helper()
	if m.process == nil {
		return
	}
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Error(fmt.Errorf("stop the test's own MariaDB: %w", err))
	}
	_ = m.wait() // it was killed: that is its error
	m.process = nil
}
