package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// inAnHour makes the fixture's lines open in an hour and close an hour later.
func inAnHour(o *queue.Options) {
	opens := time.Now().Add(time.Hour)
	o.Initial.OpensAt, o.Initial.ClosesAt = &opens, new(opens.Add(time.Hour))
}

// lineStatusJSON is what /queue/status says.
type lineStatusJSON struct {
	State    string
	Reason   *string
	OpensAt  *string `json:"opens_at"`
	ClosesAt *string `json:"closes_at"`
	Estimate *int64  `json:"estimated_wait_ms"`
	Draw     *struct {
		SeedSHA256    string  `json:"seed_sha256"`
		Seed          *string `json:"seed"`
		TicketsSHA256 *string `json:"tickets_sha256"`
	}
}

func (f *fixture) status() (s lineStatusJSON) {
	f.t.Helper()
	f.public("GET", "/queue/status", "").want(200).into(&s)
	return s
}

// A whole sale: the draw, the opening, those behind it, the end.
func TestSchedule(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		opens := f.watch.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		set := fmt.Sprintf(`{"opens_at":%q,"closes_at":%q}`, opens.Format(wireTime), opens.Add(time.Hour).Format(wireTime))
		f.admin("PATCH", "/admin/api/lines/default", set, jsonType).want(200)
		early := make(map[string]string) // tickets by id
		for i := range 20 {
			a := f.public("POST", "/queue/enter", "").want(201)
			if i == 0 {
				a.golden("enter_scheduled")
			}
			ticket := a.standing().Ticket
			early[must(f.tickets.Verify(ticket, DefaultLine, f.watch.Now()))(t).ID] = ticket
		}
		ticket := early[slices.Collect(sortedKeys(early))[0]]
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200)
		a := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_scheduled")
		for _, secret := range []string{`"position"`, `"estimated`} {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s before the opening: %s", secret, a.body)
			}
		}
		if a.header.Get("Retry-After") == "" || a.header.Get("Sluice-State") != "scheduled" {
			t.Errorf("headers %v", a.header)
		}
		time.Sleep(300 * time.Millisecond)
		f.public("GET", "/queue/status", "").want(200).golden("status_scheduled")
		before := f.status()
		if before.State != "scheduled" || *before.OpensAt != opens.Format(wireTime) || before.Estimate != nil || before.Draw == nil ||
			before.Draw.Seed != nil || before.Draw.TicketsSHA256 != nil {
			t.Fatalf("%+v", before)
		}

		time.Sleep(opens.Sub(f.watch.Now()) + 300*time.Millisecond)
		must(0, f.line.Seal(context.Background()))(t)
		time.Sleep(300 * time.Millisecond)
		f.public("GET", "/queue/status", "").want(200).golden("status_drawn")
		after := f.status()
		if after.State != "open" || after.Draw.Seed == nil || queue.HashSeed(*after.Draw.Seed) != before.Draw.SeedSHA256 ||
			after.Draw.SeedSHA256 != before.Draw.SeedSHA256 || *after.Draw.TicketsSHA256 != queue.HashTickets(slices.Collect(sortedKeys(early))) {
			t.Fatalf("%+v", after)
		}
		late := f.public("POST", "/queue/enter", "").want(201).standing()
		if late.Position != 21 {
			t.Errorf("position %d behind a draw of 20", late.Position)
		}
		places := make([]int64, 20)
		for id, ticket := range early {
			got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing()
			place := queue.DrawPlace(*after.Draw.Seed, id)
			if got.State != "waiting" || got.Position < 1 || got.Position > 20 || got.EnteredAt.After(opens) || got.EnteredAt.Before(opens.Add(-2*time.Hour)) {
				t.Fatalf("%+v", got)
			}
			places[got.Position-1] = place
		}
		if !slices.IsSorted(places) || places[0] == 0 {
			t.Errorf("positions are not those of the draw: %v", places)
		}

		time.Sleep(time.Hour)
		f.public("POST", "/queue/enter", "").problem(409, "line_closed")
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).golden("position_closed")
		f.public("GET", "/queue/status", "").want(200).golden("status_closed")
		var l settingsJSON
		f.admin("PATCH", "/admin/api/lines/default", `{"closes_at":null}`, jsonType).want(200).into(&l)
		if got := f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200).standing(); l.State != "open" || got.State != "waiting" {
			t.Errorf("after reopening: %+v, %+v", l, got)
		}
	})
}

// sortedKeys are the keys of a map in their order.
func sortedKeys(m map[string]string) func(func(string) bool) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return slices.Values(keys)
}

// Whoever was let in before the end may still order: nobody hurries because of
// it, and nothing new begins.
func TestTokensOutliveTheClosing(t *testing.T) {
	inBubble(t, setup{orders: withOrders()}, func(t *testing.T, f *fixture) {
		id := f.product(10, DefaultLine)
		ticket, token := f.admitted()
		f.admin("PATCH", "/admin/api/lines/default", fmt.Sprintf(`{"closes_at":%q}`, f.watch.Now().UTC().Format(wireTime)), jsonType).want(200)
		f.public("POST", "/queue/enter", "").problem(409, "line_closed")
		if got := f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200).standing(); got.Token != token {
			t.Errorf("%+v", got)
		}
		f.public("POST", "/orders", cart(id, 1), jsonType, bearerToken(token)).want(201)
	})
}

// An early ticket that is signed anew, because it is old, is still one of the draw.
func TestAnEarlyTicketStaysEarly(t *testing.T) {
	inBubble(t, setup{queue: func(o *queue.Options) { o.TicketTTL = time.Hour; inAnHour(o) }}, func(t *testing.T, f *fixture) {
		first := f.public("POST", "/queue/enter", "").want(201).standing()
		time.Sleep(31 * time.Minute)
		again := f.public("GET", "/queue/position", "", ticketHeader(first.Ticket)).want(200).standing()
		if again.Ticket == "" || again.Ticket == first.Ticket {
			t.Fatalf("not signed anew: %+v", again)
		}
		was, is := must(f.tickets.Verify(first.Ticket, DefaultLine, f.watch.Now()))(t), must(f.tickets.Verify(again.Ticket, DefaultLine, f.watch.Now()))(t)
		if !is.Early() || is.ID != was.ID || !is.EnteredAt.Equal(was.EnteredAt) || is.EnteredAt.IsZero() {
			t.Errorf("%+v instead of %+v", is, was)
		}
	})
}

// The seed stays a secret while the store has not said that the line has opened,
// whatever closes or pauses it.
func TestTheSeedStaysASecret(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		opens := f.watch.Now().Add(time.Hour).UTC()
		f.admin("PATCH", "/admin/api/lines/default", fmt.Sprintf(`{"opens_at":%q}`, opens.Format(wireTime)), jsonType).want(200)
		seed := must(f.line.Snapshot(context.Background()))(t).Settings.Seed
		if seed == "" {
			t.Fatal("no seed")
		}
		secret := func(what string) {
			t.Helper()
			for _, a := range []answered{f.public("GET", "/queue/status", ""), f.admin("GET", "/admin/api/lines", ""), f.admin("GET", "/metrics", "")} {
				if strings.Contains(a.want(200).body, seed) {
					t.Errorf("%s: %s tells the seed: %s", what, a.asked, a.body)
				}
			}
		}
		secret("before the opening")
		f.admin("PATCH", "/admin/api/lines/default", `{"paused":true}`, jsonType).want(200)
		secret("paused")
		closes := opens.Add(-30 * time.Minute) // as two instances could do at once
		at := &closes
		must(f.line.Configure(context.Background(), queue.Patch{ClosesAt: &at}))(t)
		time.Sleep(40 * time.Minute)
		if got := f.status(); got.State != "closed" || got.Draw == nil {
			t.Fatalf("%+v", got)
		}
		secret("closed before the opening")
		time.Sleep(opens.Sub(f.watch.Now()) - time.Millisecond)
		secret("a millisecond before the opening")
	})
}

// Before the opening the export tells neither drawn places nor their order.
func TestExport(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		opens := f.watch.Now().Add(time.Minute).UTC()
		f.admin("PATCH", "/admin/api/lines/default", fmt.Sprintf(`{"opens_at":%q}`, opens.Format(wireTime)), jsonType).want(200)
		var arrived []string
		for range 8 {
			arrived = append(arrived, must(f.tickets.Verify(f.enter(), DefaultLine, f.watch.Now()))(t).ID)
			time.Sleep(time.Millisecond)
		}
		export := func() []queue.Record {
			t.Helper()
			a := f.admin("GET", "/admin/api/lines/default/audit", "").want(200)
			if a.header.Get("Content-Type") != "text/csv; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" ||
				a.header.Get("Content-Disposition") != `attachment; filename="sluice-default-0.csv"` {
				t.Errorf("headers %v", a.header)
			}
			return must(queue.ReadCSV(strings.NewReader(a.body)))(t)
		}
		ids := func(records []queue.Record) (ids []string) {
			for _, r := range records {
				ids = append(ids, r.TicketID)
			}
			return ids
		}
		hidden := export()
		if !slices.Equal(ids(hidden), arrived) || slices.ContainsFunc(hidden, func(r queue.Record) bool { return r.Place != 0 || r.Outcome != queue.Scheduled }) {
			t.Errorf("before the opening: %+v", hidden)
		}
		time.Sleep(time.Minute + 300*time.Millisecond)
		f.enter()
		open := export()
		if len(open) != 9 || !slices.IsSortedFunc(open, func(a, b queue.Record) int { return int(min(1, max(-1, a.Place-b.Place))) }) {
			t.Fatalf("after the opening: %+v", open)
		}
		seed := *f.status().Draw.Seed
		for _, r := range open[:8] {
			if r.Place != queue.DrawPlace(seed, r.TicketID) {
				t.Errorf("%+v is not where the draw put it", r)
			}
		}
		f.admin("GET", "/admin/api/lines/nosuch/audit", "").problem(404, "line_not_found")
		for _, h := range []string{"Sec-Fetch-Site: cross-site", "Origin: http://evil.test"} {
			f.admin("GET", "/admin/api/lines/default/audit", "", h).problem(403, "origin_refused")
		}
		if a := f.admin("HEAD", "/admin/api/lines/default/audit", "").want(200); a.body != "" {
			t.Error("HEAD has a body")
		}
	})
}

// What another instance has just made a draw of is none the less secret here.
func TestAnExportKnowsTheNewestDraw(t *testing.T) {
	inBubble(t, setup{}, func(t *testing.T, f *fixture) {
		opens := new(time.Now().Add(time.Hour))
		must(f.line.Configure(context.Background(), queue.Patch{OpensAt: &opens}))(t)
		must(f.line.Enter(context.Background(), "early", nil))(t)
		records := must(queue.ReadCSV(strings.NewReader(f.admin("GET", "/admin/api/lines/default/audit", "").want(200).body)))(t)
		if len(records) != 1 || records[0].Place != 0 {
			t.Errorf("%+v", records)
		}
	})
}
