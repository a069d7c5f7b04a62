package main

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// verdict is what one rule came to.
type verdict struct {
	Rule string `json:"rule"`
	// Right is false if the rule was broken, and also if there was nothing to
	// judge it by although there should have been.
	Right bool `json:"right"`
	// Judged is how many cases there were, Wrong how many broke the rule, Excused
	// how many looked like it and had a reason that the rule allows.
	Judged  int `json:"judged"`
	Wrong   int `json:"wrong"`
	Excused int `json:"excused"`
	// Skipped verdicts are of rules that this run gave no occasion for.
	Skipped  bool     `json:"skipped"`
	Note     string   `json:"note,omitempty"`
	Evidence []string `json:"evidence"`
}

// maxEvidence is how many cases are shown of each rule.
const maxEvidence = 5

func (v *verdict) wrong(format string, args ...any) {
	v.Wrong++
	if len(v.Evidence) < maxEvidence {
		v.Evidence = append(v.Evidence, fmt.Sprintf(format, args...))
	}
}

// done decides the verdict; must is whether there has to be something to judge.
func (v verdict) done(must bool) verdict {
	v.Skipped = v.Judged == 0 && !must
	v.Right = v.Wrong == 0 && (v.Judged > 0 || !must)
	if v.Judged == 0 && must {
		v.Note = "nothing to judge it by"
	}
	return v
}

// judge says whether the service kept what it promises. It is a pure function of
// what was seen.
func judge(h history) []verdict {
	h.bypasses = append(slices.Clone(h.bypasses), bypassesSeen(h.samples)...)
	return []verdict{judgeOrder(h), judgeLost(h), judgeTwice(h), judgeBatch(h), judgePositions(h), judgeTricks(h)}
}

func allRight(verdicts []verdict) bool {
	return !slices.ContainsFunc(verdicts, func(v verdict) bool { return !v.Right })
}

// entry is one admission.
type entry struct {
	at, place int64
	visitor   int32
	id        string
}

// admissions lists every admission that is known, the service's own records
// included, by time. An admission told twice, before and after a loss, counts
// both times.
func (h history) admissions() []entry {
	var all []entry
	told := make(map[string]int64, len(h.stays))
	for _, s := range h.stays {
		if s.admitted != 0 {
			all = append(all, entry{s.admitted, s.place, s.visitor, s.id})
			told[s.id] = s.admitted
		}
	}
	for _, r := range h.audit {
		if r.Admitted != 0 && told[r.ID] != r.Admitted {
			all = append(all, entry{r.Admitted, r.Place, -1, r.ID})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place)) })
	return all
}

// judgeLost: whoever keeps polling ends up admitted or is told an end, a genuine
// ticket is always known, and whoever wants to order and is let in can.
func judgeLost(h history) verdict {
	v := verdict{Rule: "nobody lost", Evidence: []string{}}
	waiting := 0
	for _, s := range h.stays {
		if s.id == "" {
			continue
		}
		v.Judged++
		switch {
		case s.outcome == unfinished && s.admitted == 0:
			waiting++ // the run was cut short; whoever was passed over shows in the order
		case s.outcome == expired && !s.late && !s.unheard:
			v.wrong("%s (place %d) was told expired although it polled as told", who(s.visitor, s.id), s.place)
		case s.outcome == unserved:
			v.wrong("%s (place %d), admitted at %s, tried to order until the token expired", who(s.visitor, s.id), s.place, clock(s.admitted))
		}
	}
	for _, d := range h.denials {
		v.wrong("%s was answered %d %s after %s", who(d.visitor, d.id), d.status, d.code, d.at.Round(time.Millisecond))
	}
	v.Note = fmt.Sprintf("%d still waited when the run ended", waiting)
	return v.done(true)
}

// judgeTwice: one place and one ticket for each visitor, one order for each
// token. A second admission with the same id is allowed: it cannot buy.
func judgeTwice(h history) verdict {
	v := verdict{Rule: "nobody twice", Evidence: []string{}}
	places := make(map[int64]int32, len(h.stays))
	ids := make(map[string]int32, len(h.stays))
	orders := make(map[string]int32)
	for _, s := range h.stays {
		if s.id == "" {
			continue
		}
		v.Judged++
		if other, ok := ids[s.id]; ok {
			v.wrong("%s has the ticket of visitor %d", who(s.visitor, s.id), other)
		}
		ids[s.id] = s.visitor
		if s.place != 0 {
			if other, ok := places[s.place]; ok {
				v.wrong("%s has place %d, as visitor %d has", who(s.visitor, s.id), s.place, other)
			}
			places[s.place] = s.visitor
		}
		if s.otherTicket != "" {
			v.wrong("%s was given another ticket, %s", who(s.visitor, s.id), s.otherTicket)
		}
		if s.order != "" {
			if other, ok := orders[s.order]; ok {
				v.wrong("%s has order %s, which visitor %d made", who(s.visitor, s.id), s.order, other)
			}
			orders[s.order] = s.visitor
		}
		if s.otherOrder != "" {
			v.wrong("%s has two orders, %s and %s", who(s.visitor, s.id), s.order, s.otherOrder)
		}
	}
	recorded := make(map[string]bool, len(h.audit))
	for _, r := range h.audit {
		if recorded[r.ID] {
			v.wrong("ticket %s is recorded twice", r.ID)
		}
		recorded[r.ID] = true
	}
	return v.done(true)
}

// rateSlack is how far from a sample its rate may have been in force: samples
// are a second apart and as old as the instance's own look at the line.
const rateSlack = 2500

// judgeBatch: in no second were more let in than the rate allowed, which is one
// second's worth, two ticks' worth that a stall may have left, and a fraction
// carried over; and no batch was larger than two ticks' worth.
func judgeBatch(h history) verdict {
	v := verdict{Rule: "batch never exceeded", Evidence: []string{}}
	if len(h.samples) == 0 {
		return v.done(h.operator)
	}
	all := h.admissions()
	first, batch := 0, 0
	for i := range all {
		for all[first].at <= all[i].at-1000 {
			first++
		}
		if i == 0 || all[i].at != all[i-1].at {
			batch = 0
		}
		batch++
		if i+1 < len(all) && all[i+1].at == all[i].at {
			continue // not the whole of the batch yet
		}
		rate, known := h.rate(all[first].at-rateSlack, all[i].at+rateSlack)
		if !known {
			continue
		}
		v.Judged++
		twoTicks := rate * 2 * h.tick.Seconds()
		if n := i - first + 1; float64(n) > rate+twoTicks+1 {
			v.wrong("%d admissions in the second until %s at %.1f/s", n, clock(all[i].at), rate)
		} else if float64(batch) > twoTicks+1 {
			v.wrong("a batch of %d at %s at %.1f/s", batch, clock(all[i].at), rate)
		}
	}
	return v.done(len(all) > 0)
}

// rate is the highest rate seen between two times; it is not known while nobody
// has to wait, nor without a sample.
func (h history) rate(from, to int64) (highest float64, known bool) {
	if within(h.bypasses, from, to) {
		return 0, false
	}
	i := sort.Search(len(h.samples), func(i int) bool { return h.samples[i].At >= from })
	for ; i < len(h.samples) && h.samples[i].At <= to; i++ {
		s := h.samples[i]
		if s.LimitedBy == "passthrough" || s.Mode == "passthrough" {
			return 0, false
		}
		highest, known = max(highest, s.Rate), true
	}
	return highest, known
}

// lossSlack is how long before the first answer that told of a loss it may have
// happened, and how long after the last one positions may still be growing.
const lossSlack = 5 * time.Second

// judgePositions: a position never grows, but by as many as came back to earlier
// places in between, and while a line that was lost is rebuilt.
func judgePositions(h history) verdict {
	v := verdict{Rule: "positions monotone", Evidence: []string{}, Judged: len(h.stays)}
	back := slices.Clone(h.comebacks)
	slices.SortFunc(back, func(a, b comeback) int { return cmp.Compare(a.received, b.received) })
	longest := time.Duration(0) // that a poll of theirs took: what came back later is not looked at
	for _, c := range back {
		longest = max(longest, c.received-c.sent)
	}
	afterLoss := 0
	for _, g := range h.growths {
		if g.bypassed {
			v.Excused++
			continue
		}
		if slices.ContainsFunc(h.losses, func(l loss) bool {
			return g.received >= l.from-lossSlack && g.sent <= l.to+lossSlack+h.longest
		}) {
			v.Excused++
			afterLoss++
			continue
		}
		returned := int64(0)
		i := sort.Search(len(back), func(i int) bool { return back[i].received >= g.sent })
		for ; i < len(back) && returned < g.to-g.from && back[i].received <= g.received+longest; i++ {
			if back[i].sent <= g.received && back[i].place <= g.place && back[i].id != g.id {
				returned++
			}
		}
		if returned >= g.to-g.from {
			v.Excused++
			continue
		}
		v.wrong("%s (place %d) went from position %d to %d between %s and %s, while %d came back in front",
			who(g.visitor, g.id), g.place, g.from, g.to, g.sent.Round(time.Millisecond), g.received.Round(time.Millisecond), returned)
	}
	v.Note = fmt.Sprintf("%d growths by returns, %d while rebuilding", v.Excused-afterLoss, afterLoss)
	return v.done(true)
}

// judgeTricks: what has ended gives nothing twice, but what a loss made forgotten.
func judgeTricks(h history) verdict {
	v := verdict{Rule: "replays refused", Evidence: []string{}}
	for _, t := range h.tricks {
		if t.Unanswered {
			continue
		}
		v.Judged++
		switch {
		case t.right():
		case t.forgotten(h.losses):
			v.Excused++
		default:
			v.wrong("%s by visitor %d: answered %d %s %s, the same: %t", t.Kind, t.Visitor, t.Status, t.Code, t.State, t.Same)
		}
	}
	return v.done(h.wantedTricks > 0)
}

// forgotten is whether the store may have lost that the ticket has ended: it waits
// again then, and cannot buy.
func (t trick) forgotten(losses []loss) bool {
	return (t.Kind == trickPoll || t.Kind == trickEnter) && t.Same && slices.ContainsFunc(losses, func(l loss) bool {
		return t.At >= l.from-lossSlack && t.At <= l.to+lossSlack
	})
}

// right is whether the service answered a trick as it must. An order reaches the
// line a moment later: until then the ticket still says admitted, with the same
// token.
func (t trick) right() bool {
	switch t.Kind {
	case trickShared:
		return t.Status == 409 && t.Code == "token_spent"
	case trickTwice:
		return t.Same
	case trickPoll:
		return t.State == "spent" || t.State == "admitted" && t.Same
	case trickEnter:
		return t.Status < 300 && (!t.Same || t.State == "admitted")
	}
	return false
}

func who(visitor int32, id string) string {
	if visitor < 0 {
		return "ticket " + id
	}
	return fmt.Sprintf("visitor %d (ticket %s)", visitor, id)
}

// clock shows a time of the service's.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }
