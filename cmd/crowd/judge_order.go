package main

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// waitedSlack is how far the service's clock in an answer may be from the clock
// that admissions are recorded with, in ms.
const waitedSlack = 1000

// judgeOrder: among those who keep polling as told, admission order is place
// order. Somebody is passed over when a larger place was let in by an earlier
// batch. Before and after a loss are judged apart: who was let in and had not
// heard of it yet is let in once more. While the line is not kept there is no order.
// The service's records have to name the place that the ticket says, or that the
// published seed gives.
func judgeOrder(h history) verdict {
	v := verdict{Rule: "place order kept", Evidence: []string{}}
	all := h.admissions()
	inOrder := newOrderly(slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return within(h.bypasses, e.at, e.at) }), h.losses)
	judgeRecordedPlaces(h, &v)
	var unheard, late, bypassed int
	for _, s := range h.stays {
		until := h.before(s.waited) - waitedSlack
		if !s.late && s.admitted != 0 {
			until = s.admitted
		}
		if s.late {
			late++
		}
		if s.place == 0 || until <= 0 {
			continue
		}
		v.Judged++
		if until == s.admitted && within(h.bypasses, until, until) {
			bypassed++
			until = min(h.before(s.waited)-waitedSlack, until)
		}
		passer, heard, ok := inOrder.passer(s, until)
		switch {
		case !ok:
		case !heard:
			v.Excused++
			unheard++
		default:
			v.wrong("%s (place %d) waited at %s, after %s (place %d) was admitted at %s",
				who(s.visitor, s.id), s.place, clock(until), who(passer.visitor, passer.id), passer.place, clock(passer.at))
		}
	}
	if len(all) == 0 {
		v.Judged = 0
	}
	v.Note = fmt.Sprintf("%d admissions; %d stays judged only until they stopped polling as told; "+
		"%d passed over while the service refused their polls; %d losses; %d let in without a line", len(all), late, unheard, len(h.losses), bypassed)
	return v.done(true)
}

// before is a time no later than this at which it is certain that a loss had not happened:
// for a while nobody has noticed, and who was let in and has not heard of it waits again.
func (h history) before(at int64) int64 {
	for _, l := range h.losses {
		if unheard := l.server - lossSlack.Milliseconds(); at < l.server && at > unheard {
			return unheard
		}
	}
	return at
}

// judgeRecordedPlaces holds the service's records against the tickets.
func judgeRecordedPlaces(h history, v *verdict) {
	recorded := make(map[string]int64, len(h.audit))
	for _, r := range h.audit {
		recorded[r.ID] = r.Place
	}
	for _, s := range h.stays {
		switch r := recorded[s.id]; {
		case s.place == 0 && s.admitted != 0:
			v.wrong("%s was admitted without a place that can be known: %s", who(s.visitor, s.id), h.draw)
		case s.place != 0 && r != 0 && r != s.place:
			v.wrong("%s is recorded at place %d instead of %d", who(s.visitor, s.id), r, s.place)
		}
	}
}

// orderly are the admissions that were made in the order of a line, by time, with the
// times when that line was lost.
type orderly struct {
	all    []entry
	losses []loss
	// largest[k][i] is the one with the largest place of the 1<<k from i on.
	largest [][]int32
}

func newOrderly(all []entry, losses []loss) orderly {
	o := orderly{all: all, losses: losses}
	one := make([]int32, len(all))
	for i := range one {
		one[i] = int32(i)
	}
	o.largest = append(o.largest, one)
	for width := 2; width <= len(all); width *= 2 {
		half := o.largest[len(o.largest)-1]
		level := make([]int32, len(all)-width+1)
		for i := range level {
			level[i] = o.larger(half[i], half[i+width/2])
		}
		o.largest = append(o.largest, level)
	}
	return o
}

func (o orderly) larger(i, j int32) int32 {
	if o.all[j].place > o.all[i].place {
		return j
	}
	return i
}

// passer is who was let in at the largest place behind a stay while it waited until a
// time, and whether that was at a time when the stay was heard.
func (o orderly) passer(s stay, until int64) (passer entry, heard, ok bool) {
	from := int64(0) // the loss before it
	for _, l := range o.losses {
		if l.server <= until {
			from = l.server
		}
	}
	passer, ok = o.between(from, until, s.place)
	if !ok || !s.unheard {
		return passer, true, ok
	}
	if early, wrong := o.between(from, min(until, s.silent-waitedSlack), s.place); wrong {
		return early, true, true
	}
	if again, wrong := o.between(max(from, s.heardAgain+waitedSlack), until, s.place); s.heardAgain != 0 && wrong {
		return again, true, true
	}
	return passer, false, true
}

// between finds the largest place let in from a time on and before another, if it is
// behind a place.
func (o orderly) between(from, to, place int64) (entry, bool) {
	first := sort.Search(len(o.all), func(i int) bool { return o.all[i].at >= from })
	n := sort.Search(len(o.all), func(i int) bool { return o.all[i].at >= to }) - first
	if n <= 0 {
		return entry{}, false
	}
	k := bits.Len(uint(n)) - 1
	at := o.larger(o.largest[k][first], o.largest[k][first+n-1<<k])
	return o.all[at], o.all[at].place > place
}

// bypassSlack is how long before the first sign of it, and after the last, an instance
// may let people in without the line.
const bypassSlack = 5000

// within tells whether any of a time is in one of the spans, or near.
func within(spans []span, from, to int64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return to >= s.from-bypassSlack && from <= s.to+bypassSlack })
}

// bypassesSeen is when an instance said that it keeps no line.
func bypassesSeen(samples []sample) (spans []span) {
	for _, s := range samples {
		if s.Mode == "bypass" {
			spans = extend(spans, s.At)
		}
	}
	return spans
}
