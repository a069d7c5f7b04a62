package admission

import (
	"time"

	"sluice/queue"
)

// mostPasses bounds what is remembered of those let in without the line, in each line:
// three minutes, the life of an admission, at a thousand a second; some 60 MB.
const mostPasses = 200_000

// mostMarks are enough for a view that is seconds old; a later one says what an earlier
// one did.
const mostMarks = 64

// pass is an admission that was given without the line.
type pass struct {
	queue.Admission
	number  int64       // of all that were given here, from 0
	entered int64       // ms; when the ticket was given
	early   bool        // its place was drawn
	ended   queue.State // before it ran out; empty if it has not
}

func (p *pass) state(now time.Time) queue.State {
	switch {
	case p.ended != "":
		return p.ended
	case !now.Before(p.ExpiresAt):
		return queue.Expired
	}
	return queue.Admitted
}

func (p *pass) standing(now time.Time) queue.Standing {
	st := queue.Standing{
		State: p.state(now),
		Ticket: queue.Ticket{
			Line: p.Line, Epoch: p.Epoch, Subject: p.Subject, ID: p.TicketID, Place: p.Place, EnteredAt: time.UnixMilli(p.entered),
		},
	}
	if p.early {
		st.Ticket.Place = 0
	}
	if st.State == queue.Admitted {
		st.Admission = p.Admission
	}
	return st
}

// passes are those remembered, the latest mostPasses of them: where there is no room the
// oldest goes, which is the first to have run out and to have been recorded.
type passes struct {
	byTicket, bySubject map[string]*pass
	held                []*pass // oldest first
	given               int64   // in all; the number of the next
	// Numbers below which all are recorded, and have run out.
	recorded, out int64
	// Those below counted are in the figures of the last view; marks tell when which
	// were recorded since.
	counted   int64
	marks     []mark
	forgotten int64 // before they were recorded, in all
}

// mark is when the passes below a number had been recorded, on the store's clock.
type mark struct {
	at    time.Time
	below int64
}

func newPasses() passes {
	return passes{byTicket: map[string]*pass{}, bySubject: map[string]*pass{}}
}

func (ps *passes) of(ticketID string) *pass { return ps.byTicket[ticketID] }

// live is the pass that a visitor can use, of the ticket they hold or of another of
// theirs; nil if there is none.
func (ps *passes) live(subject string, held *queue.Ticket, epoch int64, now time.Time) *pass {
	if held != nil {
		if p := ps.byTicket[held.ID]; p != nil && p.state(now) == queue.Admitted {
			return p
		}
	}
	if p := ps.bySubject[subject]; p != nil && p.Epoch >= epoch && p.state(now) == queue.Admitted {
		return p
	}
	return nil
}

// give remembers the admission of a ticket.
func (ps *passes) give(a queue.Admission, t queue.Ticket) *pass {
	for len(ps.held) >= mostPasses {
		ps.forget()
	}
	p := &pass{Admission: a, number: ps.given, entered: t.EnteredAt.UnixMilli(), early: t.Early()}
	ps.given++
	ps.held = append(ps.held, p)
	ps.byTicket[a.TicketID], ps.bySubject[a.Subject] = p, p
	return p
}

// forget drops the oldest.
func (ps *passes) forget() {
	p := ps.held[0]
	ps.held[0] = nil
	ps.held = ps.held[1:]
	if ps.byTicket[p.TicketID] == p {
		delete(ps.byTicket, p.TicketID)
	}
	if ps.bySubject[p.Subject] == p {
		delete(ps.bySubject, p.Subject)
	}
	if p.number >= ps.recorded {
		ps.recorded = p.number + 1
		ps.forgotten++
	}
}

// clear drops all.
func (ps *passes) clear() {
	for len(ps.held) > 0 {
		ps.forget()
	}
	ps.held, ps.marks = nil, nil
}

// uncounted are the live ones that are not among those inside of a view that was taken at
// a time of the store's. Of those that run out in another order than they were given, by
// less than the jitter, some count for a moment too long.
func (ps *passes) uncounted(view, now time.Time) int64 {
	for len(ps.marks) > 0 && ps.marks[0].at.Before(view) {
		ps.counted = ps.marks[0].below
		ps.marks = ps.marks[1:]
	}
	first := ps.given - int64(len(ps.held))
	for ps.out = max(ps.out, first); ps.out < ps.given && !now.Before(ps.held[ps.out-first].ExpiresAt); {
		ps.out++
	}
	return ps.given - max(ps.out, ps.counted)
}

func (ps *passes) unrecorded() int64 { return ps.given - ps.recorded }

// next are the oldest that are not recorded, at most so many, and the number that those
// behind them begin with.
func (ps *passes) next(most int) (chunk []queue.Admission, below int64) {
	first := ps.given - int64(len(ps.held))
	for _, p := range ps.held[ps.recorded-first:] {
		if len(chunk) == most {
			break
		}
		chunk = append(chunk, p.Admission)
	}
	return chunk, ps.recorded + int64(len(chunk))
}

// taken notes that those below a number have been recorded by a time of the store's.
func (ps *passes) taken(below int64, at time.Time) {
	ps.recorded = max(ps.recorded, below)
	ps.marks = append(ps.marks, mark{at, below})
	ps.marks = ps.marks[max(0, len(ps.marks)-mostMarks):]
}
