package servicetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// The user that the tests make for themselves, with rights on the schemas of
// tests and nothing else. A stock MariaDB lets root in over the socket only,
// while the tests, like the service, are to connect over TCP.
const (
	testUser     = "sluice_test"
	testPassword = "sluice-test-only"
	testAddress  = "127.0.0.1:3306"
)

// MySQL returns the mysql:// URL of a new, empty schema, dropped when the test
// ends. The server is the one of SLUICE_TEST_DATABASE (a mysql:// URL; its
// schema is ignored), or the one on this machine's usual port.
func MySQL(t testing.TB) string {
	t.Helper()
	server, err := server()
	if err != nil {
		missing(t, "MySQL/MariaDB", err)
	}
	schema := "sluice_test_" + rand.Text()[:16]
	if err := exec(server, "CREATE DATABASE "+schema); err != nil {
		missing(t, "MySQL/MariaDB", err)
	}
	t.Cleanup(func() {
		if err := exec(server, "DROP DATABASE IF EXISTS "+schema); err != nil {
			t.Errorf("drop the test's schema: %v", err)
		}
	})
	u := url.URL{Scheme: "mysql", User: url.UserPassword(server.User, server.Passwd), Host: server.Addr, Path: "/" + schema}
	return u.String()
}

// server says how to reach the server, after making the test user if that is
// needed.
func server() (*mysql.Config, error) {
	if given := os.Getenv("SLUICE_TEST_DATABASE"); given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "mysql" || u.Host == "" {
			return nil, errors.New("SLUICE_TEST_DATABASE is not mysql://user:password@host:port")
		}
		password, _ := u.User.Password()
		return tcp(u.User.Username(), password, u.Host), nil
	}
	own := tcp(testUser, testPassword, testAddress)
	if exec(own, "DO 1") == nil {
		return own, nil
	}
	if err := makeUser(); err != nil {
		return nil, err
	}
	return own, nil
}

// makeUser connects as root in the ways that need no password and makes the
// test user. Its rights name schemas by pattern: \_ is the plain underscore.
func makeUser() error {
	var errs []error
	for _, root := range []*mysql.Config{
		socket("/run/mysqld/mysqld.sock"),
		socket("/var/run/mysqld/mysqld.sock"),
		socket("/tmp/mysql.sock"),
		tcp("root", "", testAddress),
	} {
		err := exec(root,
			"CREATE USER IF NOT EXISTS '"+testUser+"'@'127.0.0.1' IDENTIFIED BY '"+testPassword+"'",
			"CREATE USER IF NOT EXISTS '"+testUser+"'@'localhost' IDENTIFIED BY '"+testPassword+"'",
			"GRANT ALL ON `sluice\\_test\\_%`.* TO '"+testUser+"'@'127.0.0.1'",
			"GRANT ALL ON `sluice\\_test\\_%`.* TO '"+testUser+"'@'localhost'",
		)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("as root over %s: %w", root.Addr, err))
	}
	return errors.Join(errs...)
}

func socket(path string) *mysql.Config {
	c := config("root", "")
	c.Net, c.Addr = "unix", path
	return c
}

func tcp(user, password, address string) *mysql.Config {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "3306")
	}
	c := config(user, password)
	c.Net, c.Addr = "tcp", address
	return c
}

func config(user, password string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd = user, password
	c.Timeout, c.ReadTimeout, c.WriteTimeout = patience, patience, patience
	c.Logger = &mysql.NopLogger{}
	return c
}

func exec(c *mysql.Config, statements ...string) error {
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
