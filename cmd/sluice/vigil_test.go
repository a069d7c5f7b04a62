package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// vigil are visitors who wait through trouble. They poll all the time, at the instances
// in turn, also after they were let in, and note what they were told.
type vigil struct {
	*testing.T
	at      []*instance
	product int

	ctx      context.Context
	end      func()
	visitors sync.WaitGroup

	mu      sync.Mutex
	seats   []*seat        // guarded by mu; of who has a ticket
	answers map[string]int // guarded by mu; by status and code
	slowest time.Duration  // guarded by mu
}

// seat is a visitor's place, and what was given for it.
type seat struct {
	ticket     string
	id         string
	place      int64
	admissions []admitted // guarded by the vigil's mu; one for each token
}

type admitted struct {
	token, id string
	at        time.Time // by the line's clock
}

const (
	vigilRate = 20 // let in a second
	vigilTick = 100 * time.Millisecond
	// tooLong is far beyond the 2 s that a call of the line may take, also on a machine
	// with much to do: somebody has been left hanging.
	tooLong = 15 * time.Second
)

// inTrouble is what an instance of these tests is told: they have little time, and poll
// much, but on a machine with much to do an answer may take seconds.
var inTrouble = []string{"SLUICE_LINE_RECOVERY_HOLD=6s", "SLUICE_LIMITS_POLL_FACTOR=0", "SLUICE_LIMITS_ENTER_PER_ADDRESS=0"}

// newVigil begins with n visitors in a line that moves, slowly.
func newVigil(t *testing.T, n int, at ...*instance) *vigil {
	t.Helper()
	v := &vigil{T: t, at: at, answers: map[string]int{}, product: addProduct(t, at[0], 10*n)}
	v.ctx, v.end = context.WithCancel(t.Context())
	t.Cleanup(v.stop)
	change := fmt.Sprintf(`{"rate_override":%d}`, vigilRate)
	if status, answer := call(t, http.MethodPatch, at[0].admin+"/admin/api/lines/default", nil, change); status != http.StatusOK {
		t.Fatalf("a line that moves slowly: %d %v", status, answer)
	}
	v.join(n)
	eventually(t, "everybody stands in line", func() bool { return v.count() == n })
	return v
}

// join has more visitors come. They ask for a place until they have one.
func (v *vigil) join(n int) {
	for i := range n {
		v.visitors.Go(func() { v.visit(i) })
	}
}

func (v *vigil) visit(i int) {
	var s *seat
	for ; v.ctx.Err() == nil; i++ {
		at := v.at[i%len(v.at)]
		if s == nil {
			if answer := v.ask(http.MethodPost, at.public+"/queue/enter", nil, "{}"); answer != nil {
				s = v.sit(answer)
				continue
			}
		} else {
			v.note(s, v.ask(http.MethodGet, at.public+"/queue/position", map[string]string{"X-Queue-Ticket": s.ticket}, ""))
		}
		select { // also after a refusal: at once again, a hundred keep a slow machine from answering
		case <-v.ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ask returns what a queue route answered, nil if that was "not now", and notes how long
// it took.
func (v *vigil) ask(method, url string, header map[string]string, body string) map[string]any {
	begun := time.Now()
	status, answer, err := try(v.ctx, method, "", url, header, body)
	if v.ctx.Err() != nil {
		return nil
	}
	what := fmt.Sprint(status)
	if status >= 300 {
		what += " " + fmt.Sprint(answer["code"])
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[what]++
	v.slowest = max(v.slowest, time.Since(begun))
	switch {
	case err != nil:
		v.Errorf("%s %s: %v", method, url, err)
	case status == http.StatusOK || status == http.StatusCreated:
		return answer
	case what != "503 queue_unavailable":
		v.Errorf("%s %s: %d %v", method, url, status, answer)
	}
	return nil
}

// sit takes the ticket of an answer.
func (v *vigil) sit(answer map[string]any) *seat {
	s := &seat{}
	s.ticket, _ = answer["ticket"].(string)
	claims := claimsOf(v, s.ticket)
	s.id, s.place = claims.ID, claims.Place
	v.note(s, answer)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seats = append(v.seats, s)
	return s
}

// note takes the token of an answer, if it is another than before.
func (v *vigil) note(s *seat, answer map[string]any) {
	token, _ := answer["token"].(string)
	if token == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := len(s.admissions); n > 0 && s.admissions[n-1].token == token {
		return
	}
	c := claimsOf(v, token)
	s.admissions = append(s.admissions, admitted{token: token, id: c.ID, at: time.UnixMilli(int64(c.Issued * 1000))})
}

type tokenClaims struct {
	ID     string  `json:"jti"`
	Place  int64   `json:"place"`
	Issued float64 `json:"iat"`
}

func claimsOf(t testing.TB, token string) (c tokenClaims) {
	_, payload, _ := strings.Cut(token, ".")
	payload, _, _ = strings.Cut(payload, ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Errorf("claims of %q: %v", token, err)
	}
	return c
}

// count is how many have a ticket, and inside how many of them a token.
func (v *vigil) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.seats)
}

func (v *vigil) inside() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.seats {
		n += min(1, len(s.admissions))
	}
	return n
}

// told is how often an answer was given so far.
func (v *vigil) told(what string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answers[what]
}

// some waits until so many are inside: on a machine with much to do the line moves a
// good deal slower than it should.
func (v *vigil) some(n int) {
	v.Helper()
	for deadline := time.Now().Add(4 * patience); v.inside() < n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.Fatalf("%d are inside, want %d", v.inside(), n)
		}
	}
}

// orders has somebody who is inside order: nothing that the line suffers may keep them
// from it.
func (v *vigil) orders() {
	v.Helper()
	v.mu.Lock()
	var token string
	for _, s := range v.seats {
		if len(s.admissions) > 0 {
			token = s.admissions[0].token
		}
	}
	v.mu.Unlock()
	for _, at := range v.at {
		if status, answer := v.order(at, token); status != http.StatusCreated && status != http.StatusOK {
			v.Errorf("an order meanwhile: %d %v", status, answer)
		}
	}
}

func (v *vigil) order(at *instance, token string) (status int, answer map[string]any) {
	v.Helper()
	return call(v, http.MethodPost, at.public+"/orders", map[string]string{"Authorization": "Bearer " + token},
		fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, v.product))
}

// back is how long it takes until a poll is answered at each instance.
func (v *vigil) back() time.Duration {
	v.Helper()
	begun := time.Now()
	v.mu.Lock()
	last := v.seats[len(v.seats)-1]
	v.mu.Unlock()
	for _, at := range v.at {
		eventually(v.T, "the line answers again", func() bool {
			return v.ask(http.MethodGet, at.public+"/queue/position", map[string]string{"X-Queue-Ticket": last.ticket}, "") != nil
		})
	}
	return time.Since(begun)
}

func (v *vigil) stop() {
	v.end()
	v.visitors.Wait()
}

// judge waits until everybody is inside, and then finds that nobody was let in twice, or
// before somebody who stood in front and polled too; that a tick let in what it may; and
// that everybody can buy, once. Before and after a loss are judged apart; the zero time
// is none.
func (v *vigil) judge(lost time.Time) {
	v.Helper()
	v.some(v.count())
	v.stop()
	v.Logf("answers %v, the slowest after %s", v.answers, v.slowest.Round(time.Millisecond))
	if v.slowest > tooLong {
		v.Errorf("an answer took %s", v.slowest)
	}
	slices.SortFunc(v.seats, func(a, b *seat) int { return cmp.Compare(a.place, b.place) })
	ticks := map[time.Time]map[string]bool{}
	var before, after time.Time
	for i, s := range v.seats {
		for _, a := range s.admissions {
			if a.id != s.id {
				v.Errorf("ticket %s has a token of %s", s.id, a.id)
			}
			tick := a.at.Truncate(vigilTick)
			if ticks[tick] == nil {
				ticks[tick] = map[string]bool{}
			}
			ticks[tick][a.id] = true
		}
		first, last := s.admissions[0].at, &before
		if !lost.IsZero() && first.After(lost) {
			last = &after
		}
		if first.Before(*last) {
			v.Errorf("visitor %d of %d was let in at %s, one in front of them at %s", i, len(v.seats), first, *last)
		}
		*last = first
	}
	for at, ids := range ticks {
		if most := 2 * vigilRate * int(vigilTick) / int(time.Second); len(ids) > most {
			v.Errorf("%d were let in in the tick of %s", len(ids), at)
		}
	}
	v.buy()
}

// buy has everybody order with each of their tokens: it is one order.
func (v *vigil) buy() {
	v.Helper()
	made := map[any]bool{}
	for i, s := range v.seats {
		seen := map[any]bool{}
		for _, a := range s.admissions {
			status, answer := v.order(v.at[i%len(v.at)], a.token)
			if status != http.StatusCreated && status != http.StatusOK {
				v.Errorf("visitor %d: %d %v", i, status, answer)
			}
			seen[answer["order_id"]] = true
		}
		if len(seen) != 1 {
			v.Errorf("visitor %d has %d orders", i, len(seen))
		}
		maps.Copy(made, seen)
	}
	_, sum := call(v, http.MethodGet, v.at[0].admin+"/admin/api/orders/summary", nil, "")
	if len(made) != len(v.seats) || sum["orders"] != float64(len(v.seats)) {
		v.Errorf("%d visitors have %d orders; summary %v", len(v.seats), len(made), sum)
	}
}
