package load

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/ anew; then look at it in a browser")

// fixedReport has one step that passed and one that failed before it said anything.
func fixedReport() *report {
	r := &report{
		Began: time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC), Took: 17*time.Minute + 4*time.Second, Command: "make load ONLY=spike,coupon_rush,order_payment SCALE=0.5", Scale: 0.5,
		Machine: machine{Processor: "Some <Processor>", Cores: 2, Memory: 8 << 30, System: "linux/amd64, Linux 6.1", Versions: []string{"sluice 1.0", "go1.26", "Redis 7.0.15"}},
	}
	spike := &result{
		Name: "spike", Title: "Sudden burst", Purpose: "1,000 come within one second.", Alone: "make load ONLY=spike",
		Driver: "USERS=1000 HOLD=10s k6 run k6/spike.js", Took: 13 * time.Second, Requests: 4952,
		Times:   []timing{{"enter", 1000, 1.2, 3.31, 7.04, 21.5, 1.5}, {"position", 3951, 0.9, 4.6, 12.3, 140.2, 1.4}},
		Figures: []figure{{"checks", "30,629"}},
		Rows:    []row{{In: inQueue, Bar: 4.6, Cells: []string{"1,000 users within a second", "0", "1.50", "3.31", "1.40", "4.60", "–"}}},
	}
	for i := range 13 {
		at := float64(i)
		spike.Seen.add(sample{
			At: time.Duration(i+1) * time.Second, Cores: cores{Service: 0.1 * at, Redis: 0.05 * at, Database: 0.01, Driver: 0.9},
			AcceptQueue: 40 / (i + 1), Established: 1000, TimeWait: 10 * i, RSS: uint64(40+i) << 20, RedisMemory: uint64(2+i) << 20,
		})
	}
	spike.Seen.Cores = cores{0.6, 0.3, 0.01, 0.9}
	payments := &result{
		Name: "order_payment", Title: "Order and payment, 700 users", Alone: "make load ONLY=order_payment", Service: []string{"SLUICE_LINE_JITTER=0s"},
		Driver: "USERS=700 k6 run k6/order_payment.js", Took: time.Minute, Requests: 41234, Failed: 2, Wrong: []string{"http_req_failed: rate==0"},
		Rows: []row{{In: inOrders, Bar: 98.2, Cells: []string{"700", "458.4 of 466.7", "98.2 %", "49.0"}}},
	}
	rush := &result{
		Name: "coupon_rush", Title: "Rush for coupons", Alone: "make load ONLY=coupon_rush", Driver: "USERS=10000 k6 run k6/coupon_rush.js",
		Wrong: []string{"it did not come to its end"},
	}
	r.Results = []*result{spike, payments, rush}
	return r
}

func TestReport(t *testing.T) {
	page, err := fixedReport().html()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.html", page)
	golden(t, "report.md", fixedReport().markdown())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	is, was := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(is), len(was)) {
		if is[i] != was[i] {
			t.Fatalf("%s, line %d (go test ./benchmarks/load -update, if it is meant to change):\nis:  %s\nwas: %s", path, i+1, is[i], was[i])
		}
	}
	t.Fatalf("%s: %d lines, and there were %d", path, len(is), len(was))
}

// A step that failed is said to have failed wherever somebody may look, and a page that
// is sent to somebody shows the same there.
func TestReportHidesNothing(t *testing.T) {
	r := fixedReport()
	page, err := r.html()
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.markdown())
	for _, want := range []string{"2 of 3 steps FAILED", "At 0.5 of the full size", "it did not come to its end", "http_req_failed: rate==0", "make load ONLY=coupon_rush"} {
		if !bytes.Contains(page, []byte(want)) || !strings.Contains(text, want) {
			t.Errorf("%q is not in both", want)
		}
	}
	if outside := regexp.MustCompile(`(?i)(src|href)\s*=\s*"[^#]|url\(|@import|<script|<link`).Find(page); outside != nil {
		t.Errorf("the page needs something else: %s", outside)
	}
	if bytes.Contains(page, []byte("<Processor>")) {
		t.Error("what is not ours is not escaped")
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := whole(n); got != want {
			t.Errorf("whole(%d) is %q, not %q", n, got, want)
		}
	}
	for v, want := range map[float64]float64{0: 1, 0.13: 0.2, 1: 1, 3: 5, 51: 100, 1000: 1000, 1001: 2000} {
		if got := roundUp(v); got != want {
			t.Errorf("roundUp(%v) is %v, not %v", v, got, want)
		}
	}
}
