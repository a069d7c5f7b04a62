package queue

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzReadCSV: what is read can be written, and is then read as the same. Whatever
// it says, an audit of it comes to an end.
func FuzzReadCSV(f *testing.F) {
	const header = "place,entered,admitted,fetched,outcome,ticket_id\n"
	f.Add(header)
	f.Add(header + "17,2026-01-01T18:04:05.678Z,2026-01-01T18:05:05.678Z,,spent,a\n,,,,left,b\n3,,,,,drawn\n")
	f.Add(header + "1767225600000000,2026-01-01T00:00:00.0000001+09:00,,,waiting,\"a\"\r\n")
	f.Add(header + "1,0000-01-01T00:00:00+23:59,,,spent,a\n")
	f.Add(header + "1,,9999-12-31T23:59:59-23:59,,spent,a\n")
	draw := Draw{Seed: strings.Repeat("a", 64), SeedSHA256: strings.Repeat("b", 64), TicketsSHA256: strings.Repeat("c", 64)}
	f.Fuzz(func(t *testing.T, text string) {
		records, err := ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		var once, twice bytes.Buffer
		if err := WriteCSV(&once, records); err != nil {
			t.Fatal(err)
		}
		again, err := ReadCSV(bytes.NewReader(once.Bytes()))
		if err != nil || len(again) != len(records) {
			t.Fatalf("%d records were written as\n%s\nand read as %d: %v", len(records), once.String(), len(again), err)
		}
		if err := WriteCSV(&twice, again); err != nil || once.String() != twice.String() {
			t.Fatalf("written as\n%s\nand then as\n%s%v", once.String(), twice.String(), err)
		}
		for _, found := range Audit(records, draw) {
			if found.Text == "" || strings.ContainsAny(found.Text, "\n\x1b") {
				t.Fatalf("a finding that is none, or draws on the auditor's screen: %q", found.Text)
			}
		}
	})
}
