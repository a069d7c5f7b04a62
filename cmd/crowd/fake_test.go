package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// fake is a waiting room in memory that does what the real one promises, on
// virtual time, or breaks one promise.
type fake struct {
	rate   int           // admissions per second
	told   time.Duration // every poll
	usable time.Duration
	ttl    time.Duration
	opens  time.Time
	broken string
	silent func(target int, now time.Duration) bool // gives no answer
	busy   func(target int, now time.Duration) bool // answers 503
	chaos  func(now time.Duration) bool             // keeps no line
	takes  func(now time.Duration) time.Duration    // for each request

	mu             sync.Mutex
	start, last    time.Time
	line           []*place
	places         map[string]*place // by ticket
	tokens         map[string]*place
	n, orders      int
	coupons        int
	flying, flown  int // requests at a time, and the most
	perTarget      map[int]int
	early, refused int // polls and orders before they were due
}

type place struct {
	id, ticket, token string
	place             int64
	state             string
	admitted          time.Time
	notBefore         time.Time // of the next poll
	order, coupon     string
	quantity          int
	offset            int64 // added to the position, by a broken fake
}

func newFake() *fake {
	return &fake{
		rate: 50, takes: func(time.Duration) time.Duration { return time.Millisecond }, told: 2 * time.Second, usable: 500 * time.Millisecond, ttl: time.Minute,
		start: time.Now(), last: time.Now(), places: map[string]*place{}, tokens: map[string]*place{}, perTarget: map[int]int{},
	}
}

var errNoAnswer = errors.New("no answer")

// begin takes a request in, and lets the line move on.
func (f *fake) begin(target int) (end func(), refusal *answer, err error) {
	f.mu.Lock()
	f.flying++
	f.flown = max(f.flown, f.flying)
	f.perTarget[target]++
	f.mu.Unlock()
	time.Sleep(f.takes(time.Since(f.start)))
	f.mu.Lock()
	end = func() { f.flying--; f.mu.Unlock() }
	now := time.Since(f.start)
	if f.silent != nil && f.silent(target, now) {
		return end, nil, errNoAnswer
	}
	if f.busy != nil && f.busy(target, now) {
		return end, &answer{Status: 503, Code: "overloaded", RetryAfter: 3 * time.Second}, nil
	}
	if !time.Now().Before(f.opens) {
		for ; time.Since(f.last) >= tick; f.last = f.last.Add(tick) {
			f.admit(f.rate / 10)
		}
	} else {
		f.last = f.opens
	}
	return end, nil, nil
}

func (f *fake) admit(n int) {
	for range min(n, len(f.line)) {
		i := 0
		if f.broken == "unfair" || f.chaos != nil && f.chaos(time.Since(f.start)) {
			i = len(f.line) - 1
		}
		p := f.line[i]
		f.line = slices.Delete(f.line, i, i+1)
		p.state, p.admitted = "admitted", f.last.Truncate(time.Millisecond)
		p.token = f.jwt(`{"jti":%q,"iat":%.3f,"exp":%.3f}`, p.id, float64(p.admitted.UnixMilli())/1000, float64(p.admitted.Add(f.ttl).UnixMilli())/1000)
		f.tokens[p.token] = p
	}
}

func (f *fake) jwt(format string, args ...any) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, format, args...)) + ".sig"
}

func (f *fake) enter(target int, ticket string) (answer, error) {
	end, refusal, err := f.begin(target)
	defer end()
	if err != nil || refusal != nil {
		return deref(refusal), err
	}
	if p := f.places[ticket]; p != nil && (p.state == "waiting" || p.state == "admitted") {
		a := f.stand(p, 200)
		a.Ticket = ticket
		return a, nil
	}
	f.n++
	p := &place{id: fmt.Sprintf("ticket-%d", f.n), place: time.Now().UnixMicro() + int64(f.n), state: "waiting"}
	if f.broken == "same ticket" && ticket != "" {
		p = f.places[ticket]
		p.state = "waiting"
	}
	p.ticket = f.jwt(`{"jti":%q,"place":%d}`, p.id, p.place)
	f.places[p.ticket] = p
	f.line = append(f.line, p)
	a := f.stand(p, 201)
	a.Ticket = p.ticket
	return a, nil
}

func (f *fake) stand(p *place, status int) answer {
	a := answer{Status: status, State: p.state, ServerTime: wireTime(time.Now().UnixMilli())}
	switch {
	case p.state == "admitted" && time.Since(p.admitted) > f.ttl:
		p.state, a.State = "expired", "expired"
	case p.state == "admitted":
		a.Token = p.token
		a.UsableIn = max(0, f.usable-time.Since(p.admitted)).Milliseconds() + 1
		a.ExpiresIn = time.Until(p.admitted.Add(f.ttl)).Milliseconds()
	case time.Now().Before(f.opens):
		a.State, a.OpensAt = "scheduled", wireTime(f.opens.UnixMilli())
	case p.state == "waiting":
		if f.broken == "growing" {
			p.offset += 1000
		}
		a.Position = int64(slices.Index(f.line, p)) + 1 + p.offset
		if f.chaos != nil && f.chaos(time.Since(f.start)) {
			a.Position = 0
			if f.broken == "lower" {
				p.offset = 1000
			}
			break
		}
		wait := a.Position * 1000 / int64(max(1, f.rate))
		a.Estimate, a.Range = estimate{wait, true}, [2]int64{wait / 2, wait * 2}
	}
	a.PollAfter = f.told.Milliseconds()
	p.notBefore = time.Now().Add(f.told)
	return a
}

func (f *fake) position(target int, ticket string) (answer, error) {
	end, refusal, err := f.begin(target)
	defer end()
	if err != nil || refusal != nil {
		return deref(refusal), err
	}
	p := f.places[ticket]
	if p == nil || f.broken == "forgetful" && p.place%7 == 0 {
		return answer{Status: 401, Code: "ticket_invalid"}, nil
	}
	if time.Now().Before(p.notBefore) && p.order == "" {
		f.early++
	}
	return f.stand(p, 200), nil
}

func (f *fake) leave(target int, ticket string) (answer, error) {
	end, refusal, err := f.begin(target)
	defer end()
	if err != nil || refusal != nil {
		return deref(refusal), err
	}
	if p := f.places[ticket]; p != nil && (p.state == "waiting" || p.state == "admitted") {
		p.state = "left"
		f.line = slices.DeleteFunc(f.line, func(o *place) bool { return o == p })
	}
	return answer{Status: 204}, nil
}

// claim gives the coupons out until there is none.
func (f *fake) claim(target int, token string) (answer, error) {
	end, refusal, err := f.begin(target)
	defer end()
	if err != nil || refusal != nil {
		return deref(refusal), err
	}
	p := f.tokens[token]
	switch {
	case p == nil:
		return answer{Status: 401, Code: "token_invalid"}, nil
	case p.coupon != "":
		return answer{Status: 200, Coupon: p.coupon}, nil
	case f.coupons == 0:
		return answer{Status: 409, Code: "sold_out"}, nil
	}
	f.coupons--
	p.coupon = "code-" + p.id
	return answer{Status: 201, Coupon: p.coupon}, nil
}

func (f *fake) order(target int, token string, quantity int, coupon string) (answer, error) {
	end, refusal, err := f.begin(target)
	defer end()
	if err != nil || refusal != nil {
		return deref(refusal), err
	}
	p := f.tokens[token]
	switch {
	case p == nil:
		return answer{Status: 401, Code: "token_invalid"}, nil
	case coupon != p.coupon && p.order == "":
		return answer{Status: 409, Code: "coupon_invalid"}, nil
	case time.Since(p.admitted) < f.usable:
		f.refused++
		return answer{Status: 425, Code: "token_too_early"}, nil
	case p.order != "" && f.broken != "double":
		if p.quantity != quantity {
			return answer{Status: 409, Code: "token_spent"}, nil
		}
		return answer{Status: 200, OrderID: p.order}, nil
	}
	f.orders++
	p.order, p.quantity, p.state = fmt.Sprintf("order-%d", f.orders), quantity, "spent"
	return answer{Status: 201, OrderID: p.order}, nil
}

func deref(a *answer) answer {
	if a == nil {
		return answer{}
	}
	return *a
}

// MarshalJSON writes a time as the service does.
func (t wireTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.UnixMilli(int64(t)).UTC().Format(time.RFC3339Nano))
}

// MarshalJSON writes an estimate as the service does.
func (e estimate) MarshalJSON() ([]byte, error) {
	if !e.known {
		return null, nil
	}
	return json.Marshal(e.ms)
}
