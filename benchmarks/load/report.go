package load

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"
)

// report is everything that a run came to.
type report struct {
	Began   time.Time
	Took    time.Duration
	Command string // that made it
	Scale   float64
	Machine machine
	Results []*result
}

// machine is where everything ran: the load generators share its processors.
type machine struct {
	Processor string
	Cores     int
	Memory    uint64 // bytes
	System    string
	Versions  []string // of what ran
}

// result is what one step came to.
type result struct {
	Name, Title, Purpose string

	Alone   string   // the command that repeats this step alone
	Driver  string   // what made the load
	Service []string // settings of the service, beyond its stores

	Wrong    []string // what did not hold, or why there is nothing; empty is right
	Took     time.Duration
	Requests int64
	Failed   int64
	Times    []timing
	Figures  []figure
	Rows     []row // beside published figures
	Seen     watched
}

// Right is whether everything that the step is about held.
func (r *result) Right() bool { return len(r.Wrong) == 0 }

// Verdict is that in a word.
func (r *result) Verdict() string {
	if r.Right() {
		return "passed"
	}
	return "FAILED"
}

// timing is how long the requests of one name took, in ms.
type timing struct {
	Name                    string
	Count                   int64
	P50, P95, P99, Max, Avg float64
}

// time returns that of the requests of a name; all zero if there were none.
func (r *result) time(name string) timing {
	for _, t := range r.Times {
		if t.Name == name {
			return t
		}
	}
	return timing{Name: name}
}

// figure is one more thing that a step found.
type figure struct{ Name, Value string }

// comparison holds ours against what somebody has published.
type comparison struct {
	ID, Title, Note string
	Columns         []string
	Rows            []row
}

// row is a line of a comparison: of ours, by a step, or of theirs, without one.
type row struct {
	In    string // the comparison
	Step  string
	Wrong bool
	Cells []string
	Bar   float64 // for the chart of the comparison; 0 is none
}

// Comparisons are the published tables, with a row for each step that has one there.
func (r *report) Comparisons() []comparison {
	all := published()
	for i := range all {
		for _, result := range r.Results {
			for _, ours := range result.Rows {
				if ours.In == all[i].ID {
					ours.Step, ours.Wrong = result.Name, !result.Right()
					all[i].Rows = append(all[i].Rows, ours)
				}
			}
		}
	}
	// Nothing of ours: nothing to compare.
	return slices.DeleteFunc(all, func(c comparison) bool {
		return !slices.ContainsFunc(c.Rows, func(r row) bool { return r.Step != "" })
	})
}

// Broken counts the steps that failed.
func (r *report) Broken() (n int) {
	for _, result := range r.Results {
		if !result.Right() {
			n++
		}
	}
	return n
}

// Verdict is the whole in a sentence.
func (r *report) Verdict() string {
	if broken := r.Broken(); broken > 0 {
		return fmt.Sprintf("%d of %d steps FAILED", broken, len(r.Results))
	}
	return fmt.Sprintf("all %d steps passed", len(r.Results))
}

// Size warns where the run was not of the full size; empty is that it was.
func (r *report) Size() string {
	if r.Scale == 1 {
		return ""
	}
	return fmt.Sprintf("At %g of the full size: to see that it works, not for its figures.", r.Scale)
}

// What each step took of the machine, as the columns and cells of a table.
var resourceColumns = []string{
	"step", "requests", "failed", "accept queue, most", "refused by the kernel", "established, most", "time-wait, most",
	"service, cores", "service, MiB", "Redis, cores", "Redis, MiB", "database, cores", "load generator, cores",
}

// Resources is a row for each step.
func (r *result) Resources() []string {
	s := r.Seen
	mib := func(bytes uint64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }
	cores := func(c float64) string { return fmt.Sprintf("%.2f", c) }
	return []string{
		r.Name, whole(r.Requests), whole(r.Failed), whole(int64(s.AcceptQueue)), whole(int64(s.Overflows)), whole(int64(s.Established)), whole(int64(s.TimeWait)),
		cores(s.Cores.Service), mib(s.RSS), cores(s.Cores.Redis), mib(s.RedisMemory), cores(s.Cores.Database), cores(s.Cores.Driver),
	}
}

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"ms": millis, "whole": whole, "took": took, "bars": bars, "lines": seenCharts, "resourceColumns": func() []string { return resourceColumns },
	"gib": gib, "join": strings.Join, "date": date,
}).Parse(pageText))

// html is the report as one page that needs nothing else.
func (r *report) html() ([]byte, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return nil, fmt.Errorf("writing the report as a page: %w", err)
	}
	return b.Bytes(), nil
}

// markdown is the report as text: the tables without the charts.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	table := func(columns []string, rows [][]string) {
		say("| %s |\n|%s", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, cells := range rows {
			for len(cells) < len(columns) {
				cells = append(cells, "–")
			}
			say("| %s |", strings.Join(cells, " | "))
		}
		say("")
	}
	m := r.Machine
	say("# Load report: %s\n", r.Verdict())
	say("`%s`, %s, took %s. On %s, %d cores, %s, %s; %s.\nThe load generators ran on the same cores. %s\n",
		r.Command, date(r.Began), took(r.Took), m.Processor, m.Cores, gib(m.Memory), m.System, strings.Join(m.Versions, ", "), r.Size())
	for _, c := range r.Comparisons() {
		say("## %s\n\n%s\n", c.Title, c.Note)
		rows := make([][]string, len(c.Rows))
		for i, row := range c.Rows {
			rows[i] = slices.Concat([]string{row.source()}, row.Cells)
		}
		table(slices.Concat([]string{"step"}, c.Columns), rows)
	}
	say("## Steps\n")
	rows := make([][]string, len(r.Results))
	for i, result := range r.Results {
		var times []string
		for _, t := range result.Times {
			times = append(times, fmt.Sprintf("%s %s · %s · %s", t.Name, millis(t.P50), millis(t.P95), millis(t.P99)))
		}
		var figures []string
		for _, f := range result.Figures {
			figures = append(figures, f.Name+" "+f.Value)
		}
		rows[i] = []string{result.Name, result.Verdict(), strings.Join(times, "<br>"), strings.Join(slices.Concat(figures, result.Wrong), "<br>"), "`" + result.Alone + "`"}
	}
	table([]string{"step", "", "p50 · p95 · p99, ms", "found", "alone"}, rows)
	say("## What they took of the machine\n")
	rows = rows[:0]
	for _, result := range r.Results {
		rows = append(rows, result.Resources())
	}
	table(resourceColumns, rows)
	say("%s", notes)
	return b.Bytes()
}

// source says whose row it is.
func (r row) source() string {
	switch {
	case r.Step == "":
		return "*theirs*"
	case r.Wrong:
		return "**" + r.Step + "**, FAILED"
	}
	return "**" + r.Step + "**"
}

// notes say how to read the tables.
const notes = `Cores are means while the load was on: 1.00 is one processor. MiB are the most that was seen. The accept
queue is that of the service's public listener, looked at twenty times a second; "refused by the kernel" counts
connections that found any listener's queue of this machine full. Published figures are of other machines: compare shapes
and ratios.`

// Notes for the page.
func (*report) Notes() string { return notes }

func millis(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return whole(int64(ms + 0.5))
}

// whole groups the digits of a number by three.
func whole(n int64) string {
	s := fmt.Sprintf("%d", n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func took(d time.Duration) string { return d.Round(time.Second).String() }

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
