package main

import (
	"net/http"
	"time"
)

// retriable is an answer after which the same may be tried again.
func retriable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (e *engine) enter(v *visitor) (time.Duration, bool) {
	a, sent, received, ok := e.call(epEnter, v, func(t int) (answer, error) { return e.api.enter(t, v.ticket) })
	switch {
	case !ok || retriable(a.Status):
		return e.after(v, a), true
	case a.Status == http.StatusConflict:
		return e.finish(v, lineEnded)
	case a.Status >= 300 || a.Ticket == "":
		return e.finish(v, refused)
	}
	c, err := readClaims(a.Ticket)
	if err != nil {
		return e.finish(v, refused)
	}
	if v.again {
		e.rec.trick(trick{Kind: trickEnter, Visitor: v.visitor, Status: a.Status, State: a.State, Same: c.ID == v.id, At: received})
		if c.ID == v.id { // the end of the earlier ticket has not reached the line yet
			return 0, false
		}
		e.renew(v)
	}
	e.rec.entered.Add(1)
	if !v.again {
		e.rec.arrives(len(e.visitors), received)
	}
	v.ticket, v.id, v.place = a.Ticket, c.ID, c.Place
	v.early = a.State == "scheduled"
	if v.plan.patience > 0 {
		v.leaveAt = received + v.plan.patience
	}
	return e.stands(v, a, sent, received)
}

// renew puts the finished stay away and begins another.
func (e *engine) renew(v *visitor) {
	e.mu.Lock()
	e.past = append(e.past, v.stay)
	e.mu.Unlock()
	v.stay = stay{visitor: v.visitor}
	v.first, v.position, v.plan.closeAt, v.leaveAt = 0, 0, 0, 0
}

func (e *engine) poll(v *visitor) (time.Duration, bool) {
	a, sent, received, ok := e.call(epPosition, v, func(t int) (answer, error) { return e.api.position(t, v.ticket) })
	v.late = v.late || v.back || sent > v.due+e.cfg.Grace
	if !ok || retriable(a.Status) {
		return e.after(v, a), true
	}
	if a.Status != http.StatusOK {
		e.rec.denied(denial{v.visitor, v.id, a.Status, a.Code, received})
		return e.finish(v, strayed)
	}
	if c, err := readClaims(a.Ticket); err == nil {
		if c.ID != v.id {
			v.otherTicket = c.ID // nobody here has a second ticket that could win
		}
		v.ticket = a.Ticket
	}
	if silent := received - v.heard; v.back || silent > v.told+e.cfg.Grace {
		e.rec.comeback(comeback{v.id, v.place, sent, received})
		if !v.unheard {
			v.unheard, v.silent = true, v.waited
		}
		v.returns = true
	}
	v.back, v.failures = false, 0
	return e.stands(v, a, sent, received)
}

// stands goes by where the service says that a visitor stands.
func (e *engine) stands(v *visitor, a answer, sent, received time.Duration) (time.Duration, bool) {
	earlier := v.heard
	v.heard = sent
	switch a.State {
	case "admitted":
		return e.admitted(v, a, received)
	case "waiting":
		e.waits(v, a, earlier, received)
		if v.plan.closeAt > 0 && v.first > 0 && float32(v.position) <= v.plan.closeAt*float32(v.first) {
			return e.closeTab(v, received)
		}
		fallthrough
	case "scheduled":
		if a.State == "scheduled" {
			e.opening(int64(a.OpensAt))
		}
		v.told = time.Duration(a.PollAfter) * time.Millisecond
		e.rec.longest(v.told)
		v.next = doPoll
		return received + v.told, true
	case "expired":
		if v.admitted != 0 {
			return e.finish(v, v.ending())
		}
		return e.finish(v, expired)
	case "removed":
		return e.finish(v, removed)
	case "closed":
		return e.finish(v, lineEnded)
	case "left":
		return e.finish(v, left)
	}
	e.rec.denied(denial{v.visitor, v.id, a.Status, "state " + a.State, received})
	return e.finish(v, strayed)
}

// waits notes a position. Without one the line is not kept for now.
func (e *engine) waits(v *visitor, a answer, earlier, received time.Duration) {
	server := int64(a.ServerTime)
	e.rec.clock(server, received)
	if a.Reason == "degraded" {
		e.rec.degraded(server, received)
	}
	if !v.late {
		v.waited = server
	}
	if v.returns {
		v.heardAgain, v.returns = server, false
	}
	if a.Position == 0 {
		e.rec.bypassed(server)
		v.bypassed = true
		return
	}
	if v.first == 0 {
		v.first = a.Position
	} else if a.Position > v.position {
		e.rec.growth(growth{v.visitor, v.id, v.place, v.position, a.Position, earlier, received, v.bypassed})
	}
	v.position, v.bypassed = a.Position, false
	if v.estimatedAt == 0 && a.Estimate.known {
		v.estimatedAt, v.estimate = server, int32(a.Estimate.ms)
		v.low, v.high = v.estimate, v.estimate
		if a.Range != ([2]int64{}) {
			v.low, v.high = int32(a.Range[0]), int32(a.Range[1])
		}
	}
}

// closeTab stops polling without a word.
func (e *engine) closeTab(v *visitor, now time.Duration) (time.Duration, bool) {
	e.rec.closed.Add(1)
	v.plan.closeAt, v.late = 0, true
	if v.plan.returnAfter == 0 {
		return e.finish(v, gone)
	}
	v.back, v.next = true, doPoll
	return now + v.plan.returnAfter, true
}

// admitted waits as told, thinks, and orders.
func (e *engine) admitted(v *visitor, a answer, received time.Duration) (time.Duration, bool) {
	c, err := readClaims(a.Token)
	if err != nil {
		return e.finish(v, refused)
	}
	if c.ID != v.id {
		v.otherTicket = c.ID
	}
	if v.admitted == 0 {
		e.rec.admitted.Add(1)
	}
	v.leaveAt = 0
	v.admitted = milliseconds(c.IssuedAt)
	v.fetched = milliseconds(c.ExpiresAt) - a.ExpiresIn
	if v.returns {
		v.heardAgain, v.returns = v.fetched, false
	}
	e.rec.letIn(v.admitted)
	v.token = a.Token
	v.expires = received + time.Duration(a.ExpiresIn)*time.Millisecond
	usable := received + time.Duration(a.UsableIn)*time.Millisecond
	if v.plan.orders {
		v.next = doOrder
		return usable + v.plan.think, true
	}
	if v.plan.reenters && !v.again { // hears that the turn is over, and begins anew
		v.next = doPoll
		v.told = v.expires - received
		return v.expires + time.Second, true
	}
	return e.finish(v, idle)
}

// ending is how the stay of somebody admitted ends whose token has run out.
func (v *visitor) ending() outcome {
	if v.plan.orders {
		return unserved
	}
	return idle
}

// opening hears when the line opens: whoever comes early has to come before.
func (e *engine) opening(at int64) {
	if e.cfg.Arrival != arriveEarly || at == 0 {
		return
	}
	left := time.UnixMilli(at).Sub(e.start) - time.Second
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = max(0, min(e.over, left))
}

func (e *engine) leave(v *visitor) (time.Duration, bool) {
	a, _, _, ok := e.call(epLeave, v, func(t int) (answer, error) { return e.api.leave(t, v.ticket) })
	if !ok || retriable(a.Status) {
		v.leaveAt = 0
		return e.after(v, a), true
	}
	if a.Status != http.StatusNoContent {
		e.rec.denied(denial{v.visitor, v.id, a.Status, a.Code, e.now()})
		return e.finish(v, strayed)
	}
	return e.finish(v, left)
}

// claim asks for the coupon, and then orders with it or without.
func (e *engine) claim(v *visitor) (time.Duration, bool) {
	a, _, _, ok := e.call(epClaim, v, func(t int) (answer, error) { return e.api.claim(t, v.token) })
	switch {
	case ok && (a.Status < 300 || a.Code == "sold_out"):
		v.coupon, v.claimed, v.failures = a.Coupon, true, 0
		return e.now(), true
	case ok && a.Code == "token_expired":
		return e.finish(v, unserved)
	case !ok || retriable(a.Status) || a.Status == http.StatusTooEarly:
		return e.unlessExpired(v, a)
	}
	return e.finish(v, refused)
}

// unlessExpired tries again what needs the token, as long as it is good.
func (e *engine) unlessExpired(v *visitor, a answer) (time.Duration, bool) {
	due := e.after(v, a)
	if due > v.expires {
		return e.finish(v, unserved)
	}
	return due, true
}

func (e *engine) order(v *visitor) (time.Duration, bool) {
	if e.cfg.Coupon != 0 && !v.claimed {
		return e.claim(v)
	}
	send := func(t int) (answer, error) { return e.api.order(t, v.token, e.cfg.Quantity, v.coupon) }
	var a answer
	var ok bool
	if e.tries(trickTwice) {
		a, ok = e.twice(v, send)
	} else {
		a, _, _, ok = e.call(epOrder, v, send)
	}
	switch {
	case ok && a.Status < 300:
		e.rec.ordered.Add(1)
		v.order, v.failures = a.OrderID, 0
		e.tricks(v)
		return e.finish(v, ordered)
	case ok && a.Code == "token_expired":
		return e.finish(v, unserved)
	case ok && a.Code == "overloaded" && !e.cfg.RetryOverloaded:
		return e.finish(v, refused)
	case !ok || retriable(a.Status) || a.Status == http.StatusTooEarly:
		return e.unlessExpired(v, a)
	case a.Code == "sold_out":
		return e.finish(v, soldOut)
	}
	return e.finish(v, refused)
}

// reenterPause is what somebody takes to enter again. The line hears of an order
// within a second; before that the ticket has not ended for it.
const reenterPause = 2 * time.Second

// finish ends a stay; some then begin another.
func (e *engine) finish(v *visitor, o outcome) (time.Duration, bool) {
	v.outcome = o
	if v.admitted == 0 && v.id != "" {
		e.rec.ended.Add(1)
	}
	again := o == ordered || o == idle || o == unserved || o == expired || o == left
	if !again || !v.plan.reenters || v.again {
		return 0, false
	}
	v.again, v.next, v.failures = true, doEnter, 0
	return e.now() + reenterPause, true
}
