package main

// tries takes one of the tricks of a kind that are still to be tried.
func (e *engine) tries(kind string) bool {
	left := e.left[kind]
	return left.Load() > 0 && left.Add(-1) >= 0
}

// tried notes what came of a trick. What was not decided is tried again, by
// somebody else.
func (e *engine) tried(t trick) {
	t.At = e.now()
	if t.Unanswered {
		e.left[t.Kind].Add(1)
	}
	e.rec.trick(t)
}

// tricks tries, for as many visitors as were asked for, to get more out of a
// token and a ticket that have made an order. One kind is tried while ordering.
func (e *engine) tricks(v *visitor) {
	switch {
	case e.tries(trickShared):
		e.shareToken(v)
	case e.tries(trickPoll):
		e.pollEnded(v)
	case e.tries(trickEnter):
		e.enterEnded(v)
		v.plan.reenters = false // has just tried
	}
}

// shareToken orders something else with a token that has been used: what a
// friend would do with it.
func (e *engine) shareToken(v *visitor) {
	a, _, _, ok := e.call(epTrick, v, func(t int) (answer, error) { return e.api.order(t, v.token, e.cfg.Quantity+1, "") })
	if ok && a.Status < 300 && a.OrderID != v.order {
		v.otherOrder = a.OrderID
	}
	e.tried(trick{
		Kind: trickShared, Visitor: v.visitor, Status: a.Status, Code: a.Code,
		Same: a.OrderID == v.order, Unanswered: !ok || retriable(a.Status),
	})
}

func (e *engine) pollEnded(v *visitor) {
	a, _, _, ok := e.call(epTrick, v, func(t int) (answer, error) { return e.api.position(t, v.ticket) })
	t := trick{Kind: trickPoll, Visitor: v.visitor, Status: a.Status, Code: a.Code, State: a.State}
	t.Unanswered = !ok || retriable(a.Status)
	t.Same = a.State == "waiting" // it is about the ticket that was shown
	if c, err := readClaims(a.Token); err == nil {
		t.Same = c.ID == v.id
	}
	e.tried(t)
}

// enterEnded enters with a ticket that has ended, and gives the new place up.
func (e *engine) enterEnded(v *visitor) {
	a, _, _, ok := e.call(epTrick, v, func(t int) (answer, error) { return e.api.enter(t, v.ticket) })
	t := trick{Kind: trickEnter, Visitor: v.visitor, Status: a.Status, Code: a.Code, State: a.State}
	t.Unanswered = !ok || retriable(a.Status)
	if c, err := readClaims(a.Ticket); err == nil {
		t.Same = c.ID == v.id
		if !t.Same {
			_, _, _, _ = e.call(epTrick, v, func(target int) (answer, error) { return e.api.leave(target, a.Ticket) })
		}
	}
	e.tried(t)
}

// twice sends one order two times at once, on two connections. Both answers have
// to be about one order.
func (e *engine) twice(v *visitor, send func(target int) (answer, error)) (answer, bool) {
	type result struct {
		a  answer
		ok bool
	}
	other := make(chan result, 1)
	copied := &visitor{target: v.target} // call moves a visitor to another target
	go func() {
		a, _, _, ok := e.call(epTrick, copied, send)
		other <- result{a, ok}
	}()
	a, _, _, ok := e.call(epOrder, v, send)
	second := <-other
	made := func(a answer, ok bool) bool { return ok && a.Status < 300 }
	denied := func(a answer, ok bool) bool { return ok && a.Status >= 300 && !retriable(a.Status) }
	both := made(a, ok) && made(second.a, second.ok)
	if both && a.OrderID != second.a.OrderID {
		v.otherOrder = second.a.OrderID
	}
	one := made(a, ok) && denied(second.a, second.ok) || denied(a, ok) && made(second.a, second.ok)
	e.tried(trick{
		Kind: trickTwice, Visitor: v.visitor, Status: second.a.Status, Code: second.a.Code,
		Same: both && a.OrderID == second.a.OrderID && (a.Status != 201 || second.a.Status != 201),
		// Refused both times, for want of stock, or not decided: nothing to judge.
		Unanswered: !both && !one,
	})
	if !made(a, ok) && made(second.a, second.ok) {
		return second.a, true
	}
	return a, ok
}
