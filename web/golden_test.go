package web

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var update = flag.Bool("update", false, "write the golden files anew")

// masks hide what differs from run to run in golden files.
var masks = []struct{ find, put string }{
	{`eyJ[\w-]+\.[\w-]+\.[\w-]+`, "JWT"},
	{`("(?:created_at|server_time|entered_at|opens_at|closes_at|hold_until|paid_at|at)":)"[^"]*"`, `$1"TIME"`},
	{`("(?:seed|seed_sha256|tickets_sha256)":)"[^"]*"`, `$1"HEX"`},
	{`("order_id":)"[^"]*"`, `$1"ID"`},
	{`"code":"[A-Z2-7]{26}"`, `"code":"CODE"`},
	{`("(?:poll_after_ms|usable_in_ms|expires_in_ms|retry_after_ms|epoch|revision|view_age_ms)":)\d+`, `${1}1`},
	{`(?m)^(X-Request-Id|Retry-After): .*$`, "$1: 1"},
}

// golden compares the answer, headers and all, with testdata/<name>.http.
func (a answered) golden(name string) answered {
	a.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	for _, header := range slices.Sorted(maps.Keys(a.header)) {
		if header != "Date" && header != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\n", header, strings.Join(a.header[header], ", "))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", a.body)
	got := b.String()
	for _, m := range masks {
		got = regexp.MustCompile(m.find).ReplaceAllString(got, m.put)
	}
	file := filepath.Join("testdata", name+".http")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	if got != string(want) {
		a.t.Errorf("%s differs; go test ./web -update writes it anew. Got:\n%s\nwant:\n%s", file, got, want)
	}
	return a
}
