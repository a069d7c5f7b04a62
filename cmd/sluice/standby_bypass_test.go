package main

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/servicetest"
)

// Redis freezes, and dies, under visitors who poll: they are let in without it at the
// rate, newcomers too; nobody twice; their tokens order; and once it is back it knows of
// all of them, and the rest are let in in order.
func TestBypassWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*servicetest.RedisServer) (begin, end func()){
		"frozen": func(r *servicetest.RedisServer) (begin, end func()) { return r.Freeze, r.Thaw },
		"killed": func(r *servicetest.RedisServer) (begin, end func()) { return r.Stop, r.Start },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTroubled(t, "bypass", "SLUICE_LINE_RECOVERY_HOLD=1s", "SLUICE_DATABASE="+servicetest.MySQL(t))
			product := addProduct(t, s.instances[0], 1000)
			s.rate(s.instances[0], 0)
			s.poll(100)
			s.inOrder()
			eventually(t, "the instances know each other", func() bool {
				return s.line(s.instances[0])["queue_instances"] == 2.0 && s.line(s.instances[1])["queue_instances"] == 2.0
			})
			begin, end := trouble(s.redis)
			begin()
			s.storeIs("away")
			s.bypass(product)
			end()
			s.storeIs("there")
			s.isRecorded()
			s.restInOrder()
		})
	}
}

// rate lets an operator say one at an instance.
func (s *troubled) rate(at *instance, perSecond int) {
	s.t.Helper()
	status, answer := call(s.t, http.MethodPatch, at.admin+"/admin/api/lines/default", nil, fmt.Sprintf(`{"rate_override":%d}`, perSecond))
	if status != http.StatusOK {
		s.t.Fatalf("an operator is told %d %v", status, answer)
	}
}

// bypass has visitors let in at 20 a second for a while, then nobody any more.
func (s *troubled) bypass(product int) {
	s.t.Helper()
	if n := s.bypassed(); n != 0 {
		s.t.Errorf("%d were let in at a rate of 0", n)
	}
	const perSecond = 20
	parts := 0.0 // of the rate, by what each instance knows of the others
	for _, at := range s.instances {
		queues, _ := s.line(at)["queue_instances"].(float64)
		parts += 1 / queues
	}
	began := time.Now()
	for _, at := range s.instances {
		s.rate(at, perSecond) // each instance for itself
	}
	newcomer := &polling{visitor: visitor{t: s.t}}
	if status, answer := call(s.t, http.MethodPost, newcomer.to(s.instances[0], "/queue/enter"), nil, "{}"); status != http.StatusCreated {
		s.t.Errorf("a newcomer is told %d %v", status, answer)
	} else {
		newcomer.ticket, _ = answer["ticket"].(string)
		s.ask(s.t.Context(), newcomer, s.instances[1]) // which knows nothing of it
	}
	eventually(s.t, "visitors are let in without the line", func() bool { return s.bypassed() >= 3*perSecond/2 })
	for _, at := range s.instances {
		s.rate(at, 0)
	}
	// Each had two ticks' worth to begin with, and one for its fraction.
	if most := float64(perSecond)*parts*time.Since(began).Seconds() + 2*3; float64(s.bypassed()) > most {
		s.t.Errorf("%d were let in, at most %.0f should be", s.bypassed(), most)
	}
	var buyer *polling
	for _, p := range s.visitors {
		if p.admitted() != nil {
			buyer = p
		} else if answer, _ := p.seen(); answer["state"] != "waiting" || answer["position"] != nil || answer["reason"] == nil {
			s.t.Errorf("who waits is told %v", answer)
		}
	}
	buyer.token, _ = buyer.admitted()["token"].(string)
	usableIn, _ := buyer.admitted()["usable_in_ms"].(float64)
	time.Sleep(time.Duration(usableIn) * time.Millisecond)
	for _, at := range s.instances { // one order, however often
		if status, answer := buyer.order(at, product); status != http.StatusCreated && status != http.StatusOK {
			s.t.Errorf("a token of the bypass orders: %d %v", status, answer)
		}
	}
}

// bypassed is how many were let in without the line.
func (s *troubled) bypassed() (n int) {
	s.t.Helper()
	for _, at := range s.instances {
		figure, _ := s.line(at)["bypassed"].(float64)
		n += int(figure)
	}
	return n
}

// isRecorded: the line knows everybody who was let in, and their token stays the same.
func (s *troubled) isRecorded() {
	s.t.Helper()
	eventually(s.t, "all are recorded", func() bool {
		return s.line(s.instances[0])["unrecorded"] == float64(0) && s.line(s.instances[1])["unrecorded"] == float64(0)
	})
	in := map[string]bool{}
	for _, p := range s.visitors {
		answer := p.admitted()
		if answer == nil {
			continue
		}
		in[claimIn(s.t, p.ticket, "jti")] = true
		token, _ := answer["token"].(string)
		if claimIn(s.t, token, "jti") != claimIn(s.t, p.ticket, "jti") {
			s.t.Errorf("a token of another ticket: %v", answer)
		}
		for _, at := range s.instances {
			again := p.position(at)
			if state := again["state"]; state != "admitted" && state != "spent" {
				s.t.Errorf("who was let in is told %v", again)
			}
		}
	}
	marked := map[string]bool{}
	for _, row := range s.export() {
		if row["bypass"] == "1" {
			marked[row["ticket_id"]] = true
		}
		if in[row["ticket_id"]] && row["bypass"] != "1" {
			s.t.Errorf("let in without the line, exported as %v", row)
		}
	}
	eventually(s.t, "the line counts them", func() bool {
		return s.line(s.instances[0])["admitted"] == float64(len(marked)) && s.line(s.instances[1])["admitted"] == float64(len(marked))
	})
	if len(marked) < len(in) {
		s.t.Errorf("%d were let in, %d are exported", len(in), len(marked))
	}
}

// export is the line's CSV by its columns.
func (s *troubled) export() (rows []map[string]string) {
	s.t.Helper()
	_, answer := call(s.t, http.MethodGet, s.instances[0].admin+"/admin/api/lines/default/audit", nil, "")
	text, _ := answer["text"].(string)
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) == 0 {
		s.t.Fatalf("the export: %v, %v", answer, err)
	}
	for _, fields := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = fields[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// claimIn is one of what a ticket or token says.
func claimIn(t *testing.T, token, name string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := map[string]any{}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		t.Fatalf("%q is no token", token)
	}
	text, _ := claims[name].(string)
	return text
}

// restInOrder: those who were not let in keep their order, and go in in it.
func (s *troubled) restInOrder() {
	s.t.Helper()
	var rest []*polling
	for _, p := range s.visitors {
		if p.admitted() == nil {
			rest = append(rest, p)
		}
	}
	s.visitors = rest
	s.inOrderBut()
	s.rate(s.instances[0], 50)
	s.all("the rest are let in", func(_ int, answer map[string]any) bool { return answer["state"] == "admitted" })
	var last float64
	for _, row := range s.export() {
		at, err := time.Parse(time.RFC3339, row["admitted"])
		if row["bypass"] == "1" {
			continue
		}
		if err != nil || float64(at.UnixMilli()) < last {
			s.t.Errorf("out of order: %v, %v", row, err)
		}
		last = float64(at.UnixMilli())
	}
}

// inOrderBut: positions rise in the order in which they entered; a newcomer may be among
// the others.
func (s *troubled) inOrderBut() {
	s.t.Helper()
	var positions []float64
	s.all("everybody who waits is told their place", func(i int, answer map[string]any) bool {
		if i == 0 {
			positions = positions[:0]
		}
		position, known := answer["position"].(float64)
		positions = append(positions, position)
		return known
	})
	if !slices.IsSorted(positions) {
		s.t.Errorf("positions in the order of entering: %v", positions)
	}
}
