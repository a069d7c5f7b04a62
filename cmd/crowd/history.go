package main

import (
	"context"
	"slices"
	"time"
)

// outcome is how a stay in the line ended.
type outcome uint8

const (
	unfinished outcome = iota // the run ended first
	gone                      // closed the tab and never came back
	left                      // gave up with POST /queue/leave
	ordered
	idle      // admitted, and never meant to order
	soldOut   // told at the order that there is nothing left
	refused   // the order was refused in another way
	unserved  // meant to order and tried until the token expired
	expired   // told so while waiting
	removed   // told so
	lineEnded // told that the line has closed
	strayed   // the service denied a genuine ticket
)

func (o outcome) String() string {
	return [...]string{"unfinished", "gone", "left", "ordered", "idle", "sold_out", "refused", "unserved", "expired",
		"removed", "line_closed", "strayed"}[o]
}

// stay is what became of one ticket: what the judge sees. Times named "server"
// are the service's clock in Unix milliseconds, 0 if unknown.
type stay struct {
	visitor int32
	outcome outcome
	// late is set when the crowd itself polled later than told plus grace, or not
	// at all: from then on nothing is promised about the order.
	late bool
	// unheard is set when polls were made as told, but the service refused them
	// for longer than that: it could not know that somebody was there. silent is the
	// server's time of the last answer "waiting" before the first such time,
	// heardAgain that of the first answer after the last.
	unheard            bool
	silent, heardAgain int64
	early              bool // entered before the opening
	id                 string
	place              int64 // 0 while it is not known, as that of an early ticket
	// waited is the server's time of the last answer "waiting" that came while
	// the visitor polled as told.
	waited int64
	// admitted is the server's time of the admission, of the first token's iat;
	// fetched that of the answer which told it.
	admitted, fetched int64
	// The first estimate that was not null, in ms, and the server's time of it.
	estimatedAt             int64
	estimate, low, high     int32
	order                   string
	coupon                  string // the code that was claimed
	otherOrder, otherTicket string // a second, different one: evidence
}

// growth is a position that became larger from one answer to the next.
type growth struct {
	visitor  int32
	id       string
	place    int64
	from, to int64
	sent     time.Duration // when the earlier poll was sent, from the start
	received time.Duration // when the later answer came
	bypassed bool          // the line was not kept in between
}

// comeback is a poll after an absence: its visitor may have been taken out of
// the order, and then came back to an earlier place.
type comeback struct {
	id             string
	place          int64
	sent, received time.Duration
}

// denial is a genuine ticket that the service would not know.
type denial struct {
	visitor int32
	id      string
	status  int
	code    string
	at      time.Duration
}

// trick is an attempt to get more than is due, and what came of it.
type trick struct {
	Kind    string // tricks
	Visitor int32
	Status  int
	Code    string
	State   string
	// Same is whether the answer was about the very ticket or order that was
	// there before.
	Same bool
	// Unanswered is an attempt that the service did not decide: no answer, or 503.
	Unanswered bool
	At         time.Duration // from the start
}

// The tricks.
const (
	trickShared = "shared_token"        // another visitor's order with a spent token
	trickTwice  = "token_twice"         // one order sent twice at once, on two connections
	trickPoll   = "ended_ticket_polled" // a ticket that has ended, polled
	trickEnter  = "ended_ticket_entered"
)

// loss is a time in which the line said that it had lost its memory.
type loss struct {
	from, to time.Duration // from the start
	server   int64         // the server's time of the first such answer
}

// span is a time of the service's, in Unix milliseconds.
type span struct{ from, to int64 }

// sample is what an operator saw of the line.
type sample struct {
	At        int64   `json:"at_ms"` // server
	Capacity  float64 `json:"capacity"`
	Rate      float64 `json:"rate"`
	LimitedBy string  `json:"limited_by"`
	Mode      string  `json:"mode"`
	Waiting   int64   `json:"waiting"`
	Away      int64   `json:"away"`
	Admitted  int64   `json:"admitted"`
	Left      int64   `json:"left"`
	GivenUp   int64   `json:"given_up"`
	Budget    float64 `json:"effective_poll_budget"`
}

// record is a line of the audit that the service keeps.
type record struct {
	ID                         string
	Place                      int64
	Entered, Admitted, Fetched int64 // server
	Outcome                    string
}

// history is everything that the judge sees.
type history struct {
	stays     []stay
	growths   []growth
	comebacks []comeback
	denials   []denial
	tricks    []trick
	losses    []loss
	bypasses  []span // when the line was not kept
	samples   []sample
	audit     []record
	// wanted is what was asked for, so that a check which found nothing to judge
	// is not taken for a pass.
	wantedTricks int
	operator     bool
	// draw is why the places of early tickets are not known.
	draw string
	tick time.Duration
	// longest is the longest interval that anybody was told, plus the grace.
	longest time.Duration
}

// placesOfDraw works out the places of early tickets from the published seed. Its
// hash has to be the one that was announced.
func (h *history) placesOfDraw(ctx context.Context, watch *observer) {
	if !slices.ContainsFunc(h.stays, func(s stay) bool { return s.id != "" && s.place == 0 }) {
		return
	}
	status, err := watch.status(ctx)
	if err != nil {
		h.draw = err.Error()
		return
	}
	seed, err := status.seed()
	switch {
	case err != nil:
		h.draw = err.Error()
	case seed == "":
		h.draw = "no seed is published"
	default:
		h.places(seed)
	}
}

// places fills in the places that a seed gives.
func (h *history) places(seed string) {
	for i := range h.stays {
		if s := &h.stays[i]; s.place == 0 && s.id != "" {
			s.place = drawnPlace(seed, s.id)
		}
	}
	for i := range h.growths {
		if g := &h.growths[i]; g.place == 0 {
			g.place = drawnPlace(seed, g.id)
		}
	}
	for i := range h.comebacks {
		if c := &h.comebacks[i]; c.place == 0 {
			c.place = drawnPlace(seed, c.id)
		}
	}
}
