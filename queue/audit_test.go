package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var opened = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// sale is an honest line: a draw of early tickets, others behind them, let in ten
// at a time, in the order of places.
func sale(early, late int) ([]Record, Draw) {
	const seed = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	records := make([]Record, 0, early+late)
	ids := make([]string, early)
	for i := range early {
		ids[i] = fmt.Sprintf("early-%011d", i)
		records = append(records, Record{
			TicketID: ids[i], Place: DrawPlace(seed, ids[i]), EnteredAt: opened.Add(-time.Duration(i+1) * time.Millisecond),
		})
	}
	for i := range late {
		place := opened.Add(time.Duration(i) * 1500 * time.Microsecond).UnixMicro()
		records = append(records, Record{TicketID: fmt.Sprintf("late-%012d", i), Place: place, EnteredAt: EnteredAt(place)})
	}
	slices.SortFunc(records, func(a, b Record) int { return int(a.Place - b.Place) })
	for i := range records[:len(records)*4/5] {
		records[i].AdmittedAt = opened.Add(time.Second + time.Duration(i/10)*100*time.Millisecond)
		records[i].FetchedAt = records[i].AdmittedAt.Add(time.Duration(i) * time.Millisecond)
		records[i].Outcome = Spent
	}
	for i := range records[len(records)*4/5:] {
		records[len(records)*4/5+i].Outcome = Waiting
	}
	return records, Draw{SeedSHA256: HashSeed(seed), Seed: seed, TicketsSHA256: HashTickets(ids)}
}

func TestAuditOfAnHonestLine(t *testing.T) {
	for _, c := range []struct{ early, late int }{{0, 0}, {500, 500}, {500, 0}} {
		records, draw := sale(c.early, c.late)
		if got := Audit(records, draw); len(got) != 0 {
			t.Errorf("%d early and %d late: %+v", c.early, c.late, got)
		}
		rand.New(rand.NewPCG(5, 6)).Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		if got := Audit(records, draw); len(got) != 0 {
			t.Errorf("%d early and %d late in another order: %+v", c.early, c.late, got)
		}
	}
	records, _ := sale(0, 500)
	if got := Audit(records, Draw{}); len(got) != 0 {
		t.Errorf("a line without a draw: %+v", got)
	}
}

// Two of a million drawn places are equal now and then; the seed proves them.
func TestAuditOfEqualDrawnPlaces(t *testing.T) {
	var a audit
	a.checkDoubles([]Record{{TicketID: "one", Place: MaxDrawn}, {TicketID: "two", Place: MaxDrawn}})
	if len(a.findings) != 0 {
		t.Errorf("%+v", a.findings)
	}
}

func TestAuditFindsWhatWasTamperedWith(t *testing.T) {
	// Of a sale of 200 early and 200 late, sorted by place: what was done to it,
	// and a part of the one sentence that must be said of it.
	for _, c := range []struct {
		name   string
		tamper func(r []Record, d *Draw) []Record
		note   bool
		want   string
	}{
		{"another seed", func(r []Record, d *Draw) []Record {
			d.Seed = strings.Repeat("ab", 32)
			for i := range r[:200] {
				r[i].Place = DrawPlace(d.Seed, r[i].TicketID)
				r[i].AdmittedAt, r[i].FetchedAt = time.Time{}, time.Time{}
			}
			return r
		}, false, "the published seed is not the announced one"},
		{"another place in the draw", func(r []Record, _ *Draw) []Record {
			r[150].Place = r[0].Place - 1
			r[150].AdmittedAt, r[150].FetchedAt = time.Time{}, time.Time{}
			return r
		}, false, "the seed gives it"},
		{"two places of the draw exchanged", func(r []Record, _ *Draw) []Record {
			r[0].Place, r[1].Place = r[1].Place, r[0].Place
			return r
		}, false, "the seed gives it"},
		{"a ticket put into the draw", func(r []Record, d *Draw) []Record {
			r[250].TicketID = "friend"
			r[250].Place, r[250].AdmittedAt, r[250].FetchedAt = DrawPlace(d.Seed, "friend"), time.Time{}, time.Time{}
			return r
		}, false, "the 201 early tickets are not those"},
		{"a ticket taken out of the draw", func(r []Record, _ *Draw) []Record { return r[1:] }, false, "the 199 early tickets are not those"},
		{"a ticket that is there twice", func(r []Record, _ *Draw) []Record { return append(r, r[399]) }, false, "is there twice"},
		{"a place that is there twice", func(r []Record, _ *Draw) []Record {
			r[399].Place, r[399].EnteredAt = r[398].Place, r[398].EnteredAt
			return r
		}, false, "have the same place"},
		{"the tail first, without the line", func(r []Record, _ *Draw) []Record {
			for i := range r[160:320] {
				in := &r[319-i]
				in.AdmittedAt, in.FetchedAt, in.Bypassed = r[319].AdmittedAt.Add(time.Duration(i)*time.Second), time.Time{}, true
			}
			return r
		}, true, "160 of 320 who were let in went in without the line"},
		{"a place of another time", func(r []Record, _ *Draw) []Record {
			r[399].Place -= 50_500 // µs, 33 places to the front
			return r
		}, false, "but its place"},
		{"somebody let in early", func(r []Record, _ *Draw) []Record {
			r[300].AdmittedAt = r[0].AdmittedAt
			r[300].FetchedAt = r[300].AdmittedAt
			return r
		}, true, "1 of 320 who were let in went in out of the order of places, for example "},
		{"the tail first", func(r []Record, _ *Draw) []Record {
			for i, j := 0, 319; i < j; i, j = i+1, j-1 {
				r[i].AdmittedAt, r[j].AdmittedAt = r[j].AdmittedAt, r[i].AdmittedAt
				r[i].FetchedAt, r[j].FetchedAt = time.Time{}, time.Time{}
			}
			return r
		}, false, "so many cannot all have been away"},
		{"somebody let in late", func(r []Record, _ *Draw) []Record {
			r[100].AdmittedAt = r[310].AdmittedAt.Add(time.Minute)
			r[100].FetchedAt = time.Time{}
			return r
		}, true, "1 of 320 who were let in went in out of the order of places"},
		{"let in before entering", func(r []Record, _ *Draw) []Record {
			r[0].EnteredAt = r[0].AdmittedAt.Add(time.Millisecond)
			return r
		}, true, "1 of 400 were let in before they entered"},
		{"learnt before let in", func(r []Record, _ *Draw) []Record {
			r[0].FetchedAt = r[0].AdmittedAt.Add(-time.Millisecond)
			return r
		}, true, "1 of 400 were let in before"},
		{"a seed that is not out yet", func(r []Record, d *Draw) []Record {
			d.Seed = ""
			return r
		}, true, "not published yet"},
		{"no announcement", func(r []Record, d *Draw) []Record {
			d.SeedSHA256 = ""
			return r
		}, true, "the hash of the seed is not given"},
		{"no hash of the tickets", func(r []Record, d *Draw) []Record {
			d.TicketsSHA256 = ""
			return r
		}, true, "the hash of the early tickets is not published"},
		{"no draw at all", func(r []Record, d *Draw) []Record {
			*d = Draw{}
			return r
		}, true, "200 places were drawn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, draw := sale(200, 200)
			records = c.tamper(records, &draw)
			got := Audit(records, draw)
			if len(got) == 0 {
				t.Fatal("nothing was found")
			}
			for _, f := range got {
				if f.Note != c.note || !strings.Contains(f.Text, c.want) {
					t.Errorf("note %v: %s", f.Note, f.Text)
				}
			}
		})
	}
}

// While the store is away each instance makes places for itself, and two can be equal.
func TestAuditOfEqualPlacesInAnOutage(t *testing.T) {
	records, draw := sale(0, 200)
	records[198].Bypassed, records[198].AdmittedAt = true, records[0].AdmittedAt.Add(time.Minute)
	records[199].Place, records[199].EnteredAt = records[198].Place, records[198].EnteredAt
	got := Audit(records, draw)
	if len(got) != 2 || !got[0].Note || !strings.Contains(got[0].Text, "places that are there twice: 1") ||
		!got[1].Note || !strings.Contains(got[1].Text, "1 of 161 who were let in went in without the line") {
		t.Errorf("%+v", got)
	}
	records[1].TicketID = records[0].TicketID
	if got := Audit(records, draw); len(got) != 3 || got[0].Note {
		t.Errorf("a ticket that is there twice: %+v", got)
	}
}

// A line that is wrong from end to end is not told from end to end.
func TestAuditIsShort(t *testing.T) {
	records, draw := sale(300, 0)
	for i := range records {
		records[i].Place++
	}
	got := Audit(records, draw)
	if len(got) != maxEvidence+1 || !strings.Contains(got[maxEvidence].Text, "295 times more") {
		t.Errorf("%d findings: %+v", len(got), got)
	}
}

// It is named who jumped, and not those who were jumped over.
func TestAuditNamesTheOneOutOfOrder(t *testing.T) {
	records, draw := sale(80, 320)
	records[300].AdmittedAt, records[300].FetchedAt = records[0].AdmittedAt, time.Time{}
	want := records[300].TicketID + ": before "
	for _, f := range Audit(records, draw) {
		if strings.Contains(f.Text, want) {
			return
		}
	}
	t.Errorf("%q is in no finding", want)
}
