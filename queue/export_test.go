package queue

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWriteCSV(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.FixedZone("KST", 9*3600))
	var b strings.Builder
	if err := WriteCSV(&b, []Record{
		{TicketID: "a", Place: 17, EnteredAt: at, AdmittedAt: at.Add(time.Minute), FetchedAt: at.Add(2 * time.Minute), Outcome: Spent},
		{TicketID: "b-_", Outcome: Left, Bypassed: true},
		{TicketID: "drawn", Place: 3},
	}); err != nil {
		t.Fatal(err)
	}
	const want = "place,entered,admitted,fetched,outcome,ticket_id,bypass\n" +
		"17,2026-01-01T18:04:05.678Z,2026-01-01T18:05:05.678Z,2026-01-01T18:06:05.678Z,spent,a,\n" +
		",,,,left,b-_,1\n" +
		"3,,,,,drawn,\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if records, err := ReadCSV(strings.NewReader(want)); err != nil || len(records) != 3 {
		t.Errorf("read back: %+v, %v", records, err)
	}
}

func TestCSVRoundTrip(t *testing.T) {
	someTime := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "known") {
			return time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "ms")).UTC()
		}
		return time.Time{}
	})
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Record {
			return Record{
				TicketID: rapid.StringMatching(`[A-Za-z0-9_-]{16}`).Draw(t, "id"), Place: rapid.Int64Range(0, 1<<60).Draw(t, "place"),
				EnteredAt: someTime.Draw(t, "entered"), AdmittedAt: someTime.Draw(t, "admitted"), FetchedAt: someTime.Draw(t, "fetched"),
				Outcome:  rapid.SampledFrom([]State{Scheduled, Waiting, Closed, Admitted, Spent, Expired, Left, Removed}).Draw(t, "outcome"),
				Bypassed: rapid.Bool().Draw(t, "bypassed"),
			}
		})).Draw(rt, "records")
		var b strings.Builder
		if err := WriteCSV(&b, want); err != nil {
			rt.Fatal(err)
		}
		got, err := ReadCSV(strings.NewReader(b.String()))
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestReadCSVTellsWhereItIsWrong(t *testing.T) {
	const header = "place,entered,admitted,fetched,outcome,ticket_id\n"
	const good = "17,,,,waiting,a\n"
	for _, c := range []struct {
		name, text string
		want       []string // parts of the error
	}{
		{"nothing", "", []string{"empty"}},
		{"no header", good + good, []string{"line 1", "header"}},
		{"another header", "place,entered,admitted,fetched,outcome,ticket\n", []string{"line 1", "header"}},
		{"another last column", strings.TrimSpace(header) + ",passed\n", []string{"line 1", "header"}},
		{"no bypass", strings.TrimSpace(header) + ",bypass\n1,,,,waiting,a,0\n", []string{"line 2", "bypass"}},
		{"too few fields", header + good + "1,,,,waiting\n", []string{"line 3", "fields"}},
		{"too many fields", header + good + "1,,,,waiting,a,\n", []string{"line 3", "fields"}},
		{"a place of no number", header + good + good + "x,,,,waiting,a\n", []string{"line 4", `"x" is no place`}},
		{"a place below 1", header + "0,,,,waiting,a\n", []string{"line 2", `"0" is no place`}},
		{"no time", header + "1,yesterday,,,waiting,a\n", []string{"line 2", "entered", "yesterday"}},
		{"a time that cannot be written in UTC", header + "1,0000-01-01T00:00:00+23:59,9999-12-31T23:59:59-23:59,,spent,a\n", []string{"line 2", "entered", "admitted"}},
		{"no outcome", header + "1767225600000000,,,,,a\n", []string{"line 2", "outcome"}},
		{"an unknown outcome", header + "1,,,,bought,a\n", []string{"line 2", "bought"}},
		{"no ticket", header + "1,,,,waiting,\n", []string{"line 2", "ticket id"}},
		{"a quote left open", header + "1,,,,waiting,\"a\n", []string{"line 2"}},
		{"several mistakes in a line", header + "x,y,,z,w,\n", []string{"line 2", `"x"`, `"y"`, `"z"`, `"w"`, "ticket id"}},
		{"two tickets in one", header + "1,,,,waiting,\"a\nb\"\n", []string{"line 2", "ticket id"}},
		{"what moves the cursor", header + "1,,,,waiting,a\x1b[2K\n", []string{"line 2", `\x1b[2K`}},
	} {
		got, err := ReadCSV(strings.NewReader(c.text))
		if err == nil {
			t.Errorf("%s: read as %+v", c.name, got)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not told in: %v", c.name, part, err)
			}
		}
	}
	if got, err := ReadCSV(strings.NewReader(header + good)); err != nil || len(got) != 1 || got[0].Place != 17 {
		t.Errorf("the export of an earlier version: %+v, %v", got, err)
	}
	if got, err := ReadCSV(strings.NewReader(header)); err != nil || len(got) != 0 {
		t.Errorf("a line nobody came to: %v, %v", got, err)
	}
}

// brokenFile takes and gives nothing.
type brokenFile struct{}

var errBroken = errors.New("broken")

func (brokenFile) Write([]byte) (int, error) { return 0, errBroken }
func (brokenFile) Read([]byte) (int, error)  { return 0, errBroken }

func TestCSVOfABrokenFile(t *testing.T) {
	if err := WriteCSV(brokenFile{}, nil); !errors.Is(err, errBroken) {
		t.Errorf("writing: %v", err)
	}
	if _, err := ReadCSV(brokenFile{}); !errors.Is(err, errBroken) {
		t.Errorf("reading: %v", err)
	}
}
