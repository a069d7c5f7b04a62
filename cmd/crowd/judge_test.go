package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// t0 is when the hand-made histories begin, on the service's clock.
const t0 = 1_800_000_000_000

// clean is a history in which everything is right: ten visitors, admitted two by
// two every second, and the service's own figures and records of it.
func clean() history {
	h := history{operator: true, tick: 100 * time.Millisecond, wantedTricks: 4, longest: 5 * time.Second}
	for i := range int64(10) {
		id := string(rune('a' + i))
		s := stay{
			visitor: int32(i), outcome: ordered, id: id, place: (t0 + i) * 1000, order: "order-" + id,
			admitted: t0 + 10_000 + i/2*1000, waited: t0 + 9_000 + i/2*1000,
		}
		s.fetched = s.admitted + 500
		h.stays = append(h.stays, s)
		h.audit = append(h.audit, record{ID: id, Place: s.place, Entered: t0 + i, Admitted: s.admitted, Fetched: s.fetched, Outcome: "spent"})
	}
	for i := range int64(20) {
		h.samples = append(h.samples, sample{At: t0 + i*1000, Capacity: 6, Rate: 5, LimitedBy: "capacity", Mode: "normal"})
	}
	h.tricks = []trick{
		{Kind: trickShared, Status: 409, Code: "token_spent"},
		{Kind: trickTwice, Status: 200, Same: true},
		{Kind: trickPoll, Status: 200, State: "spent"},
		{Kind: trickEnter, Status: 201, State: "waiting"},
	}
	// The records have nothing on somebody who closed the tab at once.
	h.stays = append(h.stays, stay{visitor: 10, outcome: gone, id: "k", place: (t0+5)*1000 + 500, late: true, waited: t0 + 2000})
	return h
}

// The rules, as judge lists them.
const (
	ruleOrder = iota
	ruleLost
	ruleTwice
	ruleBatch
	rulePositions
	ruleTricks
)

func TestJudge(t *testing.T) {
	const none = -1
	loseAt := func(h *history, server int64) {
		h.losses = append(h.losses, loss{from: 20 * time.Second, to: 40 * time.Second, server: server})
	}
	back := func(id string, place int64, sent time.Duration) comeback {
		return comeback{id: id, place: place, sent: sent, received: sent + time.Millisecond}
	}
	grown := growth{visitor: 9, id: "j", place: (t0 + 9) * 1000, from: 3, to: 5, sent: 70 * time.Second, received: 73 * time.Second}
	for _, c := range []struct {
		name    string
		wrong   int // which rule is broken
		count   int
		excused int
		change  func(h *history)
	}{
		{"clean", none, 0, 0, func(*history) {}},

		{"passed over by a later batch", ruleOrder, 1, 0, func(h *history) { h.stays[3].admitted = t0 + 14_500 }},
		{"passed over, also if nobody was told", ruleOrder, 1, 0, func(h *history) {
			h.stays[3].admitted, h.stays[3].waited, h.stays[3].outcome = 0, t0+30_000, unfinished
			h.audit[3].Admitted = 0
		}},
		{"passed over by somebody only the records know", ruleOrder, 10, 0, func(h *history) {
			h.audit = append(h.audit, record{ID: "x", Place: (t0 + 100) * 1000, Admitted: t0 + 9_000})
		}},
		{"passed over before the tab was closed", ruleOrder, 1, 0, func(h *history) {
			h.stays[10].waited = t0 + 20_000
		}},
		{"two of one batch in any order", none, 0, 0, func(h *history) {
			h.stays[2].place, h.stays[3].place = h.stays[3].place, h.stays[2].place
			h.audit[2].Place, h.audit[3].Place = h.audit[3].Place, h.audit[2].Place
		}},
		{"absent, and passed over meanwhile", none, 0, 0, func(h *history) {
			h.stays[3].admitted, h.stays[3].late, h.stays[3].waited = t0+14_500, true, t0+10_500
		}},
		{"passed over while polls were refused", ruleOrder, 0, 1, func(h *history) {
			h.stays[3].admitted, h.stays[3].unheard = t0+14_500, true
		}},
		{"passed over before polls were refused", ruleOrder, 1, 0, func(h *history) {
			h.stays[3].admitted, h.stays[3].unheard, h.stays[3].silent, h.stays[3].heardAgain = t0+14_500, true, t0+13_100, t0+14_400
		}},
		{"passed over after it was heard again", ruleOrder, 1, 0, func(h *history) {
			h.stays[3].admitted, h.stays[3].unheard, h.stays[3].silent, h.stays[3].heardAgain = t0+14_500, true, t0+10_500, t0+12_500
		}},
		{"passed over and soon let in after it was heard again", ruleOrder, 0, 1, func(h *history) {
			h.stays[3].admitted, h.stays[3].unheard, h.stays[3].silent, h.stays[3].heardAgain = t0+14_500, true, t0+10_500, t0+13_500
		}},
		{"let in while no line was kept", none, 0, 0, func(h *history) {
			h.stays[3].admitted, h.stays[3].waited = t0+50_000, t0+10_000
			h.audit[3].Admitted = t0 + 50_000
			h.bypasses = []span{{t0 + 48_000, t0 + 52_000}}
		}},
		{"others let in while no line was kept", none, 0, 0, func(h *history) {
			h.audit = append(h.audit, record{ID: "x", Place: (t0 + 100) * 1000, Admitted: t0 + 1_000})
			h.bypasses = []span{{t0, t0 + 1_000}}
		}},
		{"the operator saw that no line was kept", none, 0, 0, func(h *history) {
			h.audit = append(h.audit, record{ID: "x", Place: (t0 + 100) * 1000, Admitted: t0 + 1_000})
			h.samples[1].Mode = "bypass"
		}},
		{"passed over long after no line was kept", ruleOrder, 1, 0, func(h *history) {
			h.stays[3].admitted = t0 + 14_500
			h.bypasses = []span{{t0, t0 + 1_000}}
		}},
		{"admitted once more after a loss", none, 0, 0, func(h *history) {
			loseAt(h, t0+12_500)
			h.stays[3].admitted = t0 + 12_800 // the first time, t0+11_000, was lost with the store
			h.audit[3].Admitted = t0 + 12_800
		}},
		{"two admitted once more after a loss, behind whom they were ahead of", none, 0, 0, func(h *history) {
			loseAt(h, t0+12_500)
			for i, at := range map[int]int64{2: t0 + 12_700, 3: t0 + 12_800} {
				h.stays[i].admitted, h.audit[i].Admitted = at, at
			}
		}},
		{"waiting again before anybody has heard of the loss", none, 0, 0, func(h *history) {
			loseAt(h, t0+13_400)
			h.stays[3].admitted, h.stays[3].late, h.stays[3].waited = t0+14_500, true, t0+13_200
			h.audit[3].Admitted = t0 + 14_500
		}},
		{"out of order long before a loss", ruleOrder, 1, 0, func(h *history) {
			loseAt(h, t0+19_400)
			h.stays[3].admitted, h.stays[3].late, h.stays[3].waited = t0+20_500, true, t0+13_200
			h.audit[3].Admitted = t0 + 20_500
		}},
		{"out of order before a loss", ruleOrder, 1, 0, func(h *history) {
			loseAt(h, t0+12_500)
			h.stays[0].admitted = t0 + 11_500
		}},
		{"out of order after a loss", ruleOrder, 1, 0, func(h *history) {
			loseAt(h, t0+12_500)
			h.stays[6].admitted = t0 + 14_500
		}},
		{"a drawn place without its seed", ruleOrder, 1, 0, func(h *history) { h.stays[3].place, h.stays[3].early = 0, true }},
		{"early, and never admitted", none, 0, 0, func(h *history) {
			h.stays[10].place, h.stays[10].early = 0, true
		}},
		{"another place on record", ruleOrder, 1, 0, func(h *history) { h.audit[3].Place++ }},
		{"a place that the records have forgotten", none, 0, 0, func(h *history) { h.audit[3].Place = 0 }},
		{"nobody admitted", ruleOrder, 0, 0, func(h *history) {
			for i := range h.stays {
				h.stays[i].admitted = 0
			}
			h.audit = nil
		}},

		{"told expired although polling", ruleLost, 1, 0, func(h *history) { h.stays[9].outcome, h.stays[9].admitted = expired, 0 }},
		{"told expired after an absence", none, 0, 0, func(h *history) {
			h.stays[9].outcome, h.stays[9].late, h.stays[9].admitted = expired, true, 0
		}},
		{"never got to order", ruleLost, 1, 0, func(h *history) { h.stays[9].outcome, h.stays[9].order = unserved, "" }},
		{"a genuine ticket denied", ruleLost, 1, 0, func(h *history) {
			h.denials = []denial{{visitor: 4, id: "e", status: 401, code: "ticket_invalid"}}
		}},
		{"still waiting at the end", none, 0, 0, func(h *history) {
			h.stays[9].outcome, h.stays[9].admitted, h.audit[9].Admitted = unfinished, 0, 0
		}},

		{"one place for two", ruleTwice, 1, 0, func(h *history) { h.stays[3].place, h.audit[3].Place = h.stays[2].place, h.stays[2].place }},
		{"one ticket for two", ruleTwice, 1, 0, func(h *history) { h.stays[3].id, h.audit = h.stays[2].id, nil }},
		{"two tickets for one", ruleTwice, 1, 0, func(h *history) { h.stays[3].otherTicket = "z" }},
		{"one order for two", ruleTwice, 1, 0, func(h *history) { h.stays[3].order = h.stays[2].order }},
		{"two orders for one", ruleTwice, 1, 0, func(h *history) { h.stays[3].otherOrder = "z" }},
		{"recorded twice", ruleTwice, 1, 0, func(h *history) { h.audit = append(h.audit, h.audit[3]) }},

		{"too many in a second", ruleBatch, 3, 0, func(h *history) {
			for i := range int64(10) { // the eighth within a second is the first too many
				h.stays[i].admitted = t0 + 10_000 + i*90
				h.audit[i].Admitted = h.stays[i].admitted
			}
		}},
		{"too large a batch", ruleBatch, 1, 0, func(h *history) {
			for i := range 2 {
				h.stays[i].admitted, h.audit[i].Admitted = h.stays[2].admitted, h.stays[2].admitted
			}
		}},
		{"as many as the higher of two rates allowed", none, 0, 0, func(h *history) {
			for i := range h.samples {
				h.samples[i].Rate = 3 + float64(i%3)
			}
		}},
		{"no bound in passthrough", none, 0, 0, func(h *history) {
			for i := range h.stays[:10] {
				h.stays[i].admitted, h.audit[i].Admitted = t0+10_000, t0+10_000
			}
			for i := range h.samples {
				h.samples[i].Mode = "passthrough"
			}
			h.samples = append(h.samples, sample{At: t0 + 90_000, Rate: 2})
			h.stays = append(h.stays, stay{visitor: 11, id: "l", outcome: idle, place: (t0 + 50_000) * 1000, admitted: t0 + 90_000})
		}},
		{"no bound while no line is kept", none, 0, 0, func(h *history) {
			for i := range h.stays[:10] {
				h.stays[i].admitted, h.audit[i].Admitted = t0+10_000, t0+10_000
			}
			h.bypasses = []span{{t0 + 10_000, t0 + 10_000}}
			h.stays = append(h.stays, stay{visitor: 11, id: "l", outcome: idle, place: (t0 + 50_000) * 1000, admitted: t0 + 19_000})
		}},
		{"an operator who showed nothing", ruleBatch, 0, 0, func(h *history) { h.samples = nil }},

		{"a position grew", rulePositions, 1, 0, func(h *history) { h.growths = []growth{grown} }},
		{"by as many as came back", none, 0, 1, func(h *history) {
			h.growths = []growth{grown}
			h.comebacks = []comeback{back("a", t0, 71*time.Second), back("b", t0, 72*time.Second)}
		}},
		{"by more than came back", rulePositions, 1, 0, func(h *history) {
			h.growths = []growth{grown}
			h.comebacks = []comeback{back("a", t0, 71*time.Second)}
		}},
		{"others came back behind", rulePositions, 1, 0, func(h *history) {
			h.growths = []growth{grown}
			h.comebacks = []comeback{back("y", grown.place+1, 71*time.Second), back("z", grown.place+2, 72*time.Second)}
		}},
		{"others came back before", rulePositions, 1, 0, func(h *history) {
			h.growths = []growth{grown}
			h.comebacks = []comeback{back("a", t0, 60*time.Second), back("b", t0, 61*time.Second)}
		}},
		{"others came back afterwards", rulePositions, 1, 0, func(h *history) {
			h.growths = []growth{grown}
			h.comebacks = []comeback{back("a", t0, 74*time.Second), back("b", t0, 75*time.Second)}
		}},
		{"while a lost line is rebuilt", none, 0, 1, func(h *history) {
			h.growths = []growth{grown}
			h.losses = []loss{{from: 60 * time.Second, to: 65 * time.Second, server: t0 + 60_000}}
		}},
		{"while no line was kept", none, 0, 1, func(h *history) {
			h.growths = []growth{grown}
			h.growths[0].bypassed = true
		}},
		{"long after a lost line was rebuilt", rulePositions, 1, 0, func(h *history) {
			h.growths = []growth{grown}
			h.losses = []loss{{from: 30 * time.Second, to: 40 * time.Second, server: t0 + 30_000}}
		}},

		{"a spent token bought again", ruleTricks, 1, 0, func(h *history) { h.tricks[0] = trick{Kind: trickShared, Status: 201} }},
		{"a spent token answered with the old order", ruleTricks, 1, 0, func(h *history) { h.tricks[0] = trick{Kind: trickShared, Status: 200, Same: true} }},
		{"two orders at once", ruleTricks, 1, 0, func(h *history) { h.tricks[1].Same = false }},
		{"an ended ticket waits again", ruleTricks, 1, 0, func(h *history) { h.tricks[2].State = "waiting" }},
		{"an ended ticket waits again, for its end was lost", none, 0, 1, func(h *history) {
			loseAt(h, t0+90_000)
			h.tricks[2].State, h.tricks[2].Same, h.tricks[2].At = "waiting", true, 19*time.Second
		}},
		{"an ended ticket waits again, long after a loss", ruleTricks, 1, 0, func(h *history) {
			loseAt(h, t0+90_000)
			h.tricks[2].State, h.tricks[2].Same, h.tricks[2].At = "waiting", true, 50*time.Second
		}},
		{"an ended ticket not heard of yet", none, 0, 0, func(h *history) { h.tricks[2].State, h.tricks[2].Same = "admitted", true }},
		{"an ended ticket with another token", ruleTricks, 1, 0, func(h *history) { h.tricks[2].State = "admitted" }},
		{"an ended ticket entered again", ruleTricks, 1, 0, func(h *history) { h.tricks[3].Same = true }},
		{"an ended ticket refused", ruleTricks, 1, 0, func(h *history) { h.tricks[3].Status = 401 }},
		{"no trick was decided", ruleTricks, 0, 0, func(h *history) {
			for i := range h.tricks {
				h.tricks[i].Unanswered = true
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := clean()
			c.change(&h)
			verdicts := judge(h)
			excused := 0
			for rule, v := range verdicts {
				excused += v.Excused
				// Nobody admitted leaves nothing to judge the batches by either; an
				// excused inversion breaks no rule.
				broken := rule == c.wrong && (c.count > 0 || c.excused == 0)
				if v.Right == broken {
					t.Errorf("%s: right is %t, %v %s", v.Rule, v.Right, v.Evidence, v.Note)
				}
				if broken && v.Wrong != c.count {
					t.Errorf("%s: %d wrong, want %d: %v", v.Rule, v.Wrong, c.count, v.Evidence)
				}
				if v.Wrong > 0 && len(v.Evidence) == 0 {
					t.Errorf("%s: no evidence", v.Rule)
				}
			}
			if excused != c.excused {
				t.Errorf("%d excused, want %d", excused, c.excused)
			}
			if allRight(verdicts) != (c.wrong == none || c.count == 0 && c.excused > 0) {
				t.Error("the whole does not follow from its parts")
			}
		})
	}
}

func TestEvidenceNamesVisitorPlaceAndTime(t *testing.T) {
	h := clean()
	h.stays[3].admitted = t0 + 14_500
	got := judge(h)[ruleOrder].Evidence
	want := []string{"visitor 3 (ticket d)", "place 1800000000003000", "08:00:14.500", "visitor 9 (ticket j)", "08:00:14.000"}
	for _, w := range want {
		if len(got) != 1 || !strings.Contains(got[0], w) {
			t.Errorf("%q is not in %q", w, got)
		}
	}
	for i := range h.stays {
		h.stays[i].otherTicket = "z"
	}
	if v := judge(h)[ruleTwice]; v.Wrong != 11 || len(v.Evidence) != maxEvidence {
		t.Errorf("%d wrong, %d pieces of evidence", v.Wrong, len(v.Evidence))
	}
}

func TestDrawGivesPlacesToEarlyTickets(t *testing.T) {
	// This place is what the service itself gives the ticket.
	h := history{
		stays:     []stay{{id: "abc", early: true}, {id: "late", place: 7}, {}},
		growths:   []growth{{id: "abc"}},
		comebacks: []comeback{{id: "abc"}},
	}
	h.places(strings.Repeat("0", 64))
	const want = 816810674145546
	got := []int64{h.stays[0].place, h.stays[1].place, h.stays[2].place, h.growths[0].place, h.comebacks[0].place}
	if !slices.Equal(got, []int64{want, 7, 0, want, want}) {
		t.Error(got)
	}
}

func TestASeedThatWasNotAnnouncedIsNoSeed(t *testing.T) {
	say := func(body string) *observer {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		t.Cleanup(server.Close)
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return newObserver([]*url.URL{u}, nil, "", "default", false)
	}
	const hash = "60e05bd1b195af2f94112fa7197a5c88289058840ce7c6df9693756bc6250f55" // of 64 zeros
	zeros := strings.Repeat("0", 64)
	for body, known := range map[string]bool{
		`{"draw":{"seed_sha256":"` + hash + `","seed":"` + zeros + `"}}`:            true,
		`{"draw":{"seed_sha256":"` + hash + `","seed":"` + zeros[:63] + `1` + `"}}`: false,
		`{"draw":{"seed_sha256":"` + hash + `","seed":null}}`:                       false,
		`{}`:  false,
		`nil`: false,
	} {
		h := history{stays: []stay{{id: "abc", early: true, admitted: t0}}}
		h.placesOfDraw(t.Context(), say(body))
		if (h.stays[0].place != 0) != known || (h.draw == "") != known {
			t.Errorf("%s: place %d, %q", body, h.stays[0].place, h.draw)
		}
	}
}
