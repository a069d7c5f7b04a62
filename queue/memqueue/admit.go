package memqueue

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"time"

	"sluice/queue"
)

// mostPerBatch bounds a batch as in redisqueue, so that both behave alike.
const mostPerBatch = 2000

// Admit implements [queue.Line]. The arithmetic is that of redisqueue's
// admit.lua, where it is explained.
func (l *Line) Admit(_ context.Context, rate float64, why queue.LimitedBy) (queue.Batch, error) {
	if err := queue.ValidRate(rate); err != nil {
		return queue.Batch{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, tick := l.now(), l.opts.Tick.Microseconds()
	b := queue.Batch{At: time.UnixMicro(now)}
	if why == queue.LimitedByBlock {
		b.Skipped = true
		return b, nil
	}
	elapsed := tick
	if l.batch.at != 0 {
		elapsed = now - l.batch.at
		b.Since = time.UnixMicro(l.batch.at)
		if elapsed >= 0 && now/tick == l.batch.at/tick {
			b.Skipped, b.Since = true, time.Time{}
			return b, nil
		}
		elapsed = max(elapsed, 0)
	}
	l.expire(now)

	length := l.waiting.len()
	b.Rate, b.LimitedBy = rate, why
	if o := l.settings.RateOverride; o != nil {
		b.Rate, b.LimitedBy = *o, queue.LimitedByOverride
	}
	if length > 0 {
		b.Dropped = b.Rate * float64(max(elapsed-2*tick, 0)) / 1e6
	}
	permits := l.batch.carry + b.Rate*float64(min(elapsed, 2*tick))/1e6
	whole := math.Floor(permits + 1e-9)
	carry := max(permits-whole, 0)
	n := int64(whole)
	if n > mostPerBatch {
		b.Dropped += whole - mostPerBatch
		n = mostPerBatch
	}
	still := l.standstill(now)
	switch {
	case still != "":
		n, b.LimitedBy, b.Dropped = 0, still, 0
	case l.settings.Mode == queue.ModePassthrough:
		n, b.LimitedBy, b.Dropped, carry = mostPerBatch, queue.LimitedByPassthrough, 0, 0
	}
	if room := l.settings.MaxActive - int64(len(l.slots)); l.settings.MaxActive > 0 && n > max(room, 0) {
		n, b.LimitedBy = max(room, 0), queue.LimitedByMaxActive
	}
	if length <= n && still == "" {
		n, b.LimitedBy = length, queue.LimitedByNoOneWaits
	}
	l.batch.at, l.batch.carry, l.batch.rate, l.batch.by = now, carry, b.Rate, b.LimitedBy
	l.counts.dropped += b.Dropped
	for i := range n {
		h := l.holders[l.waiting.popFirst().subject]
		l.letIn(h, now, (float64(i)+rand.Float64())/float64(n))
		b.Admitted = append(b.Admitted, *h.admission)
	}
	return b, nil
}

// standstill is what keeps the line from letting anybody in, whatever its rate;
// empty if nothing does.
func (l *Line) standstill(now int64) queue.LimitedBy {
	switch {
	case l.settings.Phase(time.UnixMicro(now)) != queue.PhaseOpen:
		return queue.LimitedBySchedule
	case l.settings.Paused:
		return queue.LimitedByPaused
	case now < l.holdUntil:
		return queue.LimitedByRecovering
	case l.settings.Mode.Bypassed():
		return queue.LimitedBy(l.settings.Mode)
	}
	return ""
}

// letIn records an admission; at in [0,1) is its moment of the jitter window.
func (l *Line) letIn(h *holder, now int64, at float64) {
	admittedAt := time.UnixMilli(now / 1000)
	notBefore := admittedAt.Add(time.Duration(float64(l.opts.Jitter) * at)).Truncate(time.Millisecond)
	h.where = nowhere
	h.admission = &queue.Admission{
		Line: l.id, Epoch: l.epoch, Subject: h.subject, TicketID: h.ticketID, Place: h.place,
		AdmittedAt: admittedAt, NotBefore: notBefore, ExpiresAt: notBefore.Add(l.opts.AdmissionTTL),
	}
	l.inShop(h)
	l.head = max(l.head, h.place)
	l.counts.admitted++
	l.countCohort(admittedAt.Unix(), false)
}

// inShop notes a live admission.
func (l *Line) inShop(h *holder) {
	l.admitted[h.ticketID] = h
	l.slots[h.ticketID] = true
	heap.Push(&l.inside, h.admission)
}

// expire ends what has run out: admissions unused, and the memory of ends that
// no ticket can ask about any more.
func (l *Line) expire(now int64) {
	if last := l.batch.at; last != 0 && now-last > queue.StallAfter.Microseconds() {
		l.batch.from, l.batch.till = last, now
	}
	for len(l.inside) > 0 && ranOut(l.inside[0], now) {
		a := heap.Pop(&l.inside).(*queue.Admission)
		h := l.admitted[a.TicketID]
		live := h != nil && h.admission == a
		if live && l.missed(h) {
			a.NotBefore = time.UnixMilli(now / 1000)
			a.ExpiresAt = a.NotBefore.Add(l.opts.AdmissionTTL)
			heap.Push(&l.inside, a)
			continue
		}
		delete(l.slots, a.TicketID)
		if live {
			l.endAdmission(h, queue.Expired, now)
		}
	}
	for len(l.forget) > 0 && l.forget[0].until <= now {
		if e := l.ended[l.forget[0].id]; e.until <= now {
			delete(l.ended, l.forget[0].id)
		}
		l.forget = l.forget[1:]
	}
	if len(l.aliases) > 0 && l.aliased <= now {
		clear(l.aliases)
	}
}

// missed reports whether an admission ran out in a stall without anybody having been
// told of it.
func (l *Line) missed(h *holder) bool {
	ends := h.admission.ExpiresAt.UnixMicro()
	return h.fetched == 0 && ends > l.batch.from && ends <= l.batch.till
}

// end ends whatever a holder has.
func (l *Line) end(h *holder, state queue.State, now int64) {
	if h.admission != nil {
		l.endAdmission(h, state, now)
		return
	}
	l.unplace(h)
	delete(l.holders, h.subject)
	l.rememberEnd(h.ticketID, ending{state: state, place: h.place}, now)
	if state == queue.Left || state == queue.Removed {
		l.counts.left++
	}
}

func (l *Line) endAdmission(h *holder, state queue.State, now int64) {
	delete(l.admitted, h.ticketID)
	if l.holders[h.subject] == h {
		delete(l.holders, h.subject)
	}
	l.rememberEnd(h.ticketID, h.ending(state), now)
	switch state {
	case queue.Spent:
		l.counts.spent++
		delete(l.slots, h.ticketID)
	case queue.Expired:
		l.counts.expired++
		delete(l.slots, h.ticketID)
	}
}

// ending is what is remembered of a holder's admission.
func (h *holder) ending(state queue.State) ending {
	return ending{
		state: state, place: h.place, admitted: h.admission.AdmittedAt.UnixMilli(), fetched: h.fetched,
		arrived: h.arrived, bypassed: h.bypassed,
	}
}

func (l *Line) rememberEnd(id string, e ending, now int64) {
	e.until = now + l.remembered()
	l.ended[id] = e
	l.forget = append(l.forget, remembered{id, e.until})
}

func (l *Line) endOf(id string, now int64) (ending, bool) {
	e, ok := l.ended[id]
	return e, ok && e.until > now
}

// remembered is how long ends and aliases are kept, in µs: a ticket signed until
// now lives no longer than that.
func (l *Line) remembered() int64 { return l.opts.TicketTTL.Microseconds() + 1e6 }

func (l *Line) alias(id, earlier string, now int64) {
	l.aliases[id] = earlier
	delete(l.early, id) // one ticket of each visitor is in the draw
	l.aliased = now + l.remembered()
}

// earliest follows a second ticket to the one that holds the place.
func (l *Line) earliest(id string) string {
	for {
		earlier, ok := l.aliases[id]
		if !ok {
			return id
		}
		id = earlier
	}
}

func ranOut(a *queue.Admission, now int64) bool { return a.ExpiresAt.UnixMicro() <= now }

// expiries is a heap of admissions, the first to expire on top.
type expiries []*queue.Admission

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].ExpiresAt.Before(e[j].ExpiresAt) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(*queue.Admission)) }
func (e *expiries) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
