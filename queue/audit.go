package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Draw is what is published of a draw, each 64 hex digits or empty: the hash of
// the seed when the draw was announced, the seed and the hash of the set of early
// tickets ([HashTickets]) after the opening.
type Draw struct {
	SeedSHA256, Seed, TicketsSHA256 string
}

// Validate refuses what is no draw: it comes from whoever is audited.
func (d Draw) Validate() error {
	for _, hash := range []string{d.SeedSHA256, d.Seed, d.TicketsSHA256} {
		if hash != "" && !isHash(hash) {
			return fmt.Errorf("queue: %.80q is not 64 hex digits", hash)
		}
	}
	return nil
}

// Finding is one thing that an audit found.
type Finding struct {
	// Note is true of what somebody should know but that can be right; otherwise
	// the record contradicts what was published, or itself.
	Note bool
	// Text says it in one sentence.
	Text string
}

// maxEvidence is how many findings of one kind are told in full; the rest are
// counted.
const maxEvidence = 5

// Audit checks the exported records of a line, and its published draw if it had
// one. What can be proven wrong:
//
//   - the seed is not the one whose hash was announced;
//
//   - a drawn place is not the one that seed and ticket id give;
//
//   - the early tickets are not those whose hash was published;
//
//   - a ticket is there twice, or a place of a line that nobody passed by;
//
//   - a place that was not drawn is not of the time at which it was given.
//
//   - more than a quarter of those let in went in out of the order of places.
//
// Fewer out of order can only be counted: whoever was away while the head passed
// their place is let in when they return, and the records do not say who was away.
// Those let in without the line went in by no order, and are counted too. While they
// were, the places of newcomers were made by each instance for itself, so that two can
// be equal. A line that was not tampered with, and whose store has not lost its memory since
// the opening, has nothing proven against it.
func Audit(records []Record, draw Draw) []Finding {
	var a audit
	a.checkDraw(records, draw)
	a.checkDoubles(records)
	a.checkTimes(records)
	a.checkOrder(records)
	return a.findings
}

// audit collects findings.
type audit struct{ findings []Finding }

func (a *audit) wrong(format string, args ...any) {
	a.findings = append(a.findings, Finding{Text: fmt.Sprintf(format, args...)})
}

func (a *audit) note(format string, args ...any) {
	a.findings = append(a.findings, Finding{Note: true, Text: fmt.Sprintf(format, args...)})
}

// each tells the first few of what is wrong with single records, and how many more
// there are.
func (a *audit) each(wrong []string) {
	for i, text := range wrong {
		if i == maxEvidence {
			a.wrong("the same is wrong %d times more", len(wrong)-i)
			return
		}
		a.wrong("%s", text)
	}
}

// checkDraw holds the records against what was published.
func (a *audit) checkDraw(records []Record, draw Draw) {
	drawn := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return !r.drawn() })
	if draw == (Draw{}) {
		if len(drawn) > 0 {
			a.note("%d places were drawn, and no draw is given to check them by", len(drawn))
		}
		return
	}
	switch {
	case draw.Seed == "":
		a.note("the seed of the draw is not published yet, so the drawn places cannot be checked")
	case draw.SeedSHA256 == "":
		a.note("the hash of the seed is not given, so nobody can tell that the seed is the announced one")
	case HashSeed(draw.Seed) != draw.SeedSHA256:
		a.wrong("the published seed is not the announced one: its SHA-256 is %s, announced was %s", HashSeed(draw.Seed), draw.SeedSHA256)
	}
	if draw.Seed != "" {
		var misplaced []string
		for _, r := range drawn {
			if want := DrawPlace(draw.Seed, r.TicketID); r.Place != 0 && r.Place != want {
				misplaced = append(misplaced, fmt.Sprintf("ticket %s has place %d, the seed gives it %d", r.TicketID, r.Place, want))
			}
		}
		a.each(misplaced)
	}
	if draw.TicketsSHA256 == "" {
		a.note("the hash of the early tickets is not published, so tickets may have been added to the draw or taken out of it")
		return
	}
	ids := make([]string, len(drawn))
	for i, r := range drawn {
		ids[i] = r.TicketID
	}
	if got := HashTickets(ids); got != draw.TicketsSHA256 {
		a.wrong("the %d early tickets are not those that were published: their hash is %s, published was %s; some were added or taken out, "+
			"or had ended before a loss of the store", len(ids), got, draw.TicketsSHA256)
	}
}

// drawn reports whether the record is of a ticket in the draw.
func (r Record) drawn() bool { return r.Place > 0 && r.Place <= MaxDrawn }

// checkDoubles finds tickets and places that are there twice.
func (a *audit) checkDoubles(records []Record) {
	tickets, places := make(map[string]bool, len(records)), make(map[int64]string, len(records))
	passedBy := slices.ContainsFunc(records, func(r Record) bool { return r.Bypassed })
	var twice []string
	var equal int
	for _, r := range records {
		if tickets[r.TicketID] {
			twice = append(twice, fmt.Sprintf("ticket %s is there twice", r.TicketID))
			continue
		}
		tickets[r.TicketID] = true
		if r.Place == 0 {
			continue
		}
		// Drawn places can be equal by chance; the seed is their proof.
		other, taken := places[r.Place]
		switch {
		case !taken || r.drawn():
		case passedBy:
			equal++
		default:
			twice = append(twice, fmt.Sprintf("tickets %s and %s have the same place %d", other, r.TicketID, r.Place))
		}
		places[r.Place] = r.TicketID
	}
	a.each(twice)
	if equal > 0 {
		a.note("places that are there twice: %d; that is right only of those given while the line's store was away", equal)
	}
}

// checkTimes finds places that are not of the time they were given at, and counts
// what seems to have happened before it can have: the clock of another store may be
// slower.
func (a *audit) checkTimes(records []Record) {
	var moved []string
	var backwards int
	for _, r := range records {
		if r.Place > MaxDrawn && !r.EnteredAt.IsZero() && !r.EnteredAt.Equal(EnteredAt(r.Place)) {
			moved = append(moved, fmt.Sprintf("ticket %s entered at %s, but its place %d is of %s", r.TicketID,
				csvTime(r.EnteredAt), r.Place, csvTime(EnteredAt(r.Place))))
		}
		if before(r.AdmittedAt, r.EnteredAt) || before(r.FetchedAt, r.AdmittedAt) {
			backwards++
		}
	}
	a.each(moved)
	if backwards > 0 {
		a.note("%d of %d were let in before they entered, or learnt it before they were let in; that is right only if the line "+
			"has moved to a store with a slower clock", backwards, len(records))
	}
}

// before reports whether a is before b, both known.
func before(a, b time.Time) bool { return !a.IsZero() && !b.IsZero() && a.Before(b) }

// maxOutOfOrder is the share of those let in from which being out of order is no
// matter of people who were away.
const maxOutOfOrder = 0.25

// checkOrder counts those who went in out of the order of places: the fewest whose
// leaving out would put all the others in order. Those of one batch are let in in
// the same millisecond.
func (a *audit) checkOrder(records []Record) {
	in := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.AdmittedAt.IsZero() })
	all := len(in)
	in = slices.DeleteFunc(in, func(r Record) bool { return r.Bypassed })
	if passedBy := all - len(in); passedBy > 0 {
		a.note("%d of %d who were let in went in without the line, on an operator's word or because its store was away; "+
			"they are in no order, and those in front of them were passed", passedBy, all)
	}
	in = slices.DeleteFunc(in, func(r Record) bool { return r.Place == 0 })
	slices.SortFunc(in, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), a.AdmittedAt.Compare(b.AdmittedAt))
	})
	odd := outOfOrder(in)
	if len(odd) == 0 {
		return
	}
	one := in[odd[0]]
	before, after := 0, 0 // of the others, from whose side of it they are
	for i, r := range in {
		switch {
		case i < odd[0] && one.AdmittedAt.Before(r.AdmittedAt):
			before++
		case i > odd[0] && r.AdmittedAt.Before(one.AdmittedAt):
			after++
		}
	}
	text := fmt.Sprintf("%d of %d who were let in went in out of the order of places, for example %s: before %d who were ahead, after %d behind",
		len(odd), len(in), one.TicketID, before, after)
	if float64(len(odd)) > maxOutOfOrder*float64(len(in)) && len(odd) > 1 {
		a.wrong("%s; so many cannot all have been away", text)
		return
	}
	a.note("%s; that is right for those who were away when their turn came, and around a loss of the store", text)
}

// outOfOrder are the indices, in place order, of all that are not in a longest run of
// rising admission times (patience sorting, O(n log n)).
func outOfOrder(in []Record) []int {
	var tails []int // tails[k] ends the best run of length k+1
	previous := make([]int, len(in))
	for i, r := range in {
		k, _ := slices.BinarySearchFunc(tails, r.AdmittedAt, func(j int, at time.Time) int {
			if in[j].AdmittedAt.After(at) {
				return 1
			}
			return -1
		})
		previous[i] = -1
		if k > 0 {
			previous[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	inOrder := make([]bool, len(in))
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = previous[i] {
			inOrder[i] = true
		}
	}
	var odd []int
	for i := range in {
		if !inOrder[i] {
			odd = append(odd, i)
		}
	}
	return odd
}
