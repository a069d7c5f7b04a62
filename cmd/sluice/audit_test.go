package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// drawnLine is the export of a line whose early tickets were all let in, in the
// order of the draw, and its status.
func drawnLine(t *testing.T) (records []queue.Record, status string) {
	t.Helper()
	const seed = "5e1f0c8a9be24d716f3a52cc08d94be7a163f20b7c9d5e4810f6a2b3c4d5e6f7"
	entered := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = queue.NewID()
		records = append(records, queue.Record{
			TicketID: ids[i], Place: queue.DrawPlace(seed, ids[i]), EnteredAt: entered.Add(time.Duration(i) * time.Second), Outcome: queue.Spent,
		})
	}
	slices.SortFunc(records, func(a, b queue.Record) int { return int(a.Place - b.Place) })
	for i := range records {
		records[i].AdmittedAt = entered.Add(time.Hour + time.Duration(i)*100*time.Millisecond)
		records[i].FetchedAt = records[i].AdmittedAt.Add(time.Second)
	}
	status = fmt.Sprintf(`{"line":"sale","state":"open","draw":{"seed_sha256":%q,"seed":%q,"tickets_sha256":%q}}`,
		queue.HashSeed(seed), seed, queue.HashTickets(ids))
	return records, status
}

// mergedTickets hides a ticket of a draw in the id of the next: sorted and each
// followed by a line break, the ids are the same text as before.
func mergedTickets(records []queue.Record) []queue.Record {
	const seed = "5e1f0c8a9be24d716f3a52cc08d94be7a163f20b7c9d5e4810f6a2b3c4d5e6f7"
	byID := slices.SortedFunc(slices.Values(records), func(a, b queue.Record) int { return strings.Compare(a.TicketID, b.TicketID) })
	both := byID[0]
	both.TicketID += "\n" + byID[1].TicketID
	both.Place, both.AdmittedAt, both.FetchedAt = queue.DrawPlace(seed, both.TicketID), time.Time{}, time.Time{}
	return append(byID[2:], both)
}

func export(t *testing.T, records []queue.Record) string {
	t.Helper()
	var text bytes.Buffer
	if err := queue.WriteCSV(&text, records); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func written(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAudit(t *testing.T) {
	t.Parallel()
	records, status := drawnLine(t)
	moved := slices.Clone(records)
	moved[40].Place = records[0].Place - 1
	moved = append([]queue.Record{moved[40]}, slices.Delete(moved, 40, 41)...)
	for name, c := range map[string]struct {
		records []queue.Record
		status  string
		code    int
		says    []string
	}{
		"as it was":               {records, status, exitOK, []string{"50 tickets: all right"}},
		"somebody was moved":      {moved, status, exitFailed, []string{"wrong: "}},
		"somebody was taken out":  {records[1:], status, exitFailed, []string{"wrong: "}},
		"another seed":            {records, strings.Replace(status, `"seed":"5`, `"seed":"6`, 1), exitFailed, []string{"wrong: "}},
		"not open yet":            {nil, `{"line":"sale","draw":{"seed_sha256":"` + queue.HashSeed("") + `","seed":null,"tickets_sha256":null}}`, exitUsage, []string{"not checked fully"}},
		"no draw":                 {nil, `{"line":"sale"}`, exitOK, []string{"had no draw", "0 tickets: all right"}},
		"no status of the line":   {nil, "", exitOK, []string{"not checked: that needs --status"}},
		"a problem, not a status": {nil, `{"status":404,"code":"line_not_found"}`, exitUsage, nil},
		"a page, not a status":    {nil, `<html>`, exitUsage, nil},
		"no draw of ours":         {nil, `{"line":"sale","draw":{"seed_sha256":"\u001b[2Kall right"}}`, exitUsage, nil},
		"two tickets in one":      {mergedTickets(records), status, exitUsage, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"audit", "--export", written(t, "line.csv", export(t, c.records))}
			if c.status != "" {
				args = append(args, "--status", written(t, "status.json", c.status))
			}
			code, out, errs := command(t, nil, args...)
			if code != c.code || (code == exitOK) != (errs == "") {
				t.Errorf("exit %d, want %d; stdout:\n%sstderr:\n%s", code, c.code, out, errs)
			}
			for _, says := range c.says {
				if !strings.Contains(out, says) {
					t.Errorf("%q is not said in:\n%s", says, out)
				}
			}
		})
	}
}

func TestAuditOfStandardInput(t *testing.T) {
	t.Parallel()
	records, status := drawnLine(t)
	for input, args := range map[string][]string{
		export(t, records): {"--export", "-", "--status", written(t, "status.json", status)},
		status:             {"--status", "-", "--export", written(t, "line.csv", export(t, records))},
	} {
		root := newRoot(nil)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetIn(strings.NewReader(input))
		root.SetArgs(append([]string{"audit"}, args...))
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "50 tickets: all right") {
			t.Errorf("%q: %v, %s", args, err, out.String())
		}
	}
}

// What cannot be checked is bad usage, and not a finding.
func TestAuditUsage(t *testing.T) {
	t.Parallel()
	csv := written(t, "line.csv", export(t, nil))
	for _, args := range [][]string{
		{}, {"--export"}, {"--export", csv + ".none"}, {"--export", csv, "--status", csv + ".none"}, {"--export", "-", "--status", "-"},
		{"--export", csv, "extra"}, {"--export", written(t, "other.csv", "a,b\n1,2\n")}, {"--export", csv, "--status", csv},
	} {
		code, out, errs := command(t, nil, append([]string{"audit"}, args...)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "sluice: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
}
