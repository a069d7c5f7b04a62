package benchmarks

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

var (
	full   = flag.Bool("full", false, "at full size, and not only to see that it works")
	docs   = flag.String("docs", "", "write the tables and pictures into this folder")
	rounds = flag.Int("rounds", 3, "with -full, how often everything is measured; the median is shown")
)

func TestMain(m *testing.M) {
	if playPart() {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) { remove(); os.Exit(status) }),
		// fasthttp's clock, and a look every 10 s whether its workers were stopped.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// remove is called when all tests have ended.
var remove = func() {}

// connections is how many everybody has to the database: the default number of our
// workers, and of the pools of those that we stand beside.
const connections = 10

// openDatabase connects to the schema of a mysql:// URL, as a program would that has
// no more to do with it than its statements.
func openDatabase(t testing.TB, rawURL string) *sql.DB {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal("the URL of the database cannot be read") // the error would quote its password
	}
	c := mysql.NewConfig()
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, u.Path[1:]
	c.InterpolateParams = true // one round trip for each statement, as ours
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// durability says how the database commits. Orders that are not on the disk when they
// are acknowledged would be compared with orders that are.
func durability(t testing.TB, db *sql.DB) string {
	t.Helper()
	var flush int
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT @@innodb_flush_log_at_trx_commit, VERSION()").Scan(&flush, &version); err != nil {
		t.Fatal(err)
	}
	if flush != 1 {
		t.Fatalf("innodb_flush_log_at_trx_commit is %d: what is acknowledged is not on the disk", flush)
	}
	return fmt.Sprintf("%s, innodb_flush_log_at_trx_commit=%d", version, flush)
}

// times sums up how long each of many took.
type times struct{ p50, p95, p99 time.Duration }

func timesOf(took []time.Duration) times {
	if len(took) == 0 {
		return times{}
	}
	sorted := slices.Sorted(slices.Values(took))
	at := func(share float64) time.Duration { return sorted[int(share*float64(len(sorted)-1))] }
	return times{at(0.50), at(0.95), at(0.99)}
}

// ms shows a duration in ms with the digits that mean something.
func ms(d time.Duration) string {
	v := float64(d.Microseconds()) / 1000
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// median is the run whose value is in the middle.
func median[T any](runs []T, value func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b T) int {
		switch {
		case value(a) < value(b):
			return -1
		case value(a) > value(b):
			return 1
		}
		return 0
	})
	return sorted[len(sorted)/2]
}

// intoDocument puts a table into docs/benchmarks.md, between the lines that name it.
func intoDocument(t testing.TB, name, table string) {
	t.Helper()
	if *docs == "" {
		return
	}
	path := filepath.Join(*docs, "benchmarks.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begins, ends := fmt.Appendf(nil, "<!-- made by `make %s` -->\n", name), fmt.Appendf(nil, "<!-- end of %s -->\n", name)
	before, rest, found := bytes.Cut(text, begins)
	_, after, ended := bytes.Cut(rest, ends)
	if !found || !ended {
		t.Fatalf("no place for the table of %s in %s", name, path)
	}
	text = bytes.Join([][]byte{before, begins, []byte(table), ends, after}, nil)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
