package simulation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The table stands between these lines of the document.
const (
	tableBegins = "<!-- the table is made by `make pictures` -->\n"
	tableEnds   = "<!-- end of the table -->\n"
)

// Documents plays all scenarios and returns the files that tell of them, by their
// path under docs: the pictures, and control.md as it is there with its table anew.
func Documents(docs string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var table strings.Builder
	table.WriteString(tableHead)
	for _, s := range Scenarios() {
		r := Play(s)
		files["img/"+s.Name+".svg"] = r.Picture()
		for i, ph := range s.Phases {
			name := ""
			if i == 0 {
				name = "**" + s.Title + "**"
			}
			table.WriteString(row(name, r.Judge(ph)))
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "control.md"))
	if err != nil {
		return nil, fmt.Errorf("simulation: the document to put the table into: %w", err)
	}
	before, rest, found := bytes.Cut(text, []byte(tableBegins))
	_, after, ends := bytes.Cut(rest, []byte(tableEnds))
	if !found || !ends {
		return nil, fmt.Errorf("simulation: no place for the table in %s", filepath.Join(docs, "control.md"))
	}
	files["control.md"] = bytes.Join([][]byte{before, []byte(tableBegins + table.String() + tableEnds), after}, nil)
	return files, nil
}

const tableHead = `| scenario | part | closed loop | settled after | backlog at most | longest wait | of the closed loop | workers busy | wait p50 / p95 | let in, least / most |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
`

func row(title string, v Verdict) string {
	settled := "never"
	if v.Settled >= 0 {
		settled = fmt.Sprintf("%.0f s", v.Settled)
	}
	return fmt.Sprintf("| %s | %s | %.4g/s | %s | %.0f | %.1f s | %.1f %% | %.1f %% | %.0f / %.0f ms | %.0f / %.0f /s |\n",
		title, v.Name, v.Closed, settled, v.Peak, v.Worst, 100*v.Throughput, 100*v.Utilisation, 1000*v.P50, 1000*v.P95, v.Least, v.Most)
}
