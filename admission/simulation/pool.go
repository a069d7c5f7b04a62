package simulation

import (
	"fmt"
	"time"

	"sluice/admission"
)

// pool is the order side of a process: workers, first come first served, with a
// bounded backlog and a deadline, and its own control law.
type pool struct {
	p    *plant
	spec Pool
	name string

	waiting   []float64 // since when, oldest first
	busy      int
	running   int
	completed int64
	refused   int64
	usedTime  float64
	since     float64

	state admission.LawState
}

func newPool(p *plant, spec Pool, i int) *pool {
	if spec.Backlog == 0 {
		spec.Backlog = 1000
	}
	if spec.Deadline == 0 {
		spec.Deadline = 10
	}
	return &pool{p: p, spec: spec, name: fmt.Sprint("orders-", i+1)}
}

func (q *pool) up() bool {
	return q.p.now >= q.spec.Joins && (q.spec.Dies == 0 || q.p.now < q.spec.Dies)
}

// take accepts an order or has no room for it.
func (q *pool) take() bool {
	q.expire()
	switch {
	case q.busy < q.atOnce():
		q.p.record.began(q.p.now, 0)
		q.work(1)
	case len(q.waiting) >= q.spec.Backlog:
		q.refused++
		return false
	default:
		q.waiting = append(q.waiting, q.p.now)
	}
	return true
}

// expire refuses those who have waited too long.
func (q *pool) expire() {
	q.advance()
	n := 0
	defer func() { q.refused += int64(n) }()
	for n < len(q.waiting) && q.p.now-q.waiting[n] > q.spec.Deadline {
		q.p.retry()
		n++
	}
	q.waiting = q.waiting[n:]
}

// work keeps a worker busy with a group of n orders and then with the next.
func (q *pool) work(n int) {
	q.advance()
	q.busy++
	q.running += n
	q.p.at(q.p.now+q.spec.Time(q.p.rand, q.p.now, n), func() { q.done(n) })
}

func (q *pool) done(n int) {
	q.expire()
	q.busy--
	q.running -= n
	if !q.up() { // it died with them, and they are tried elsewhere
		for range n {
			q.p.retry()
		}
		return
	}
	q.completed += int64(n)
	q.p.record.completed(q.p.now, n)
	if len(q.waiting) == 0 {
		return
	}
	group := min((len(q.waiting)+q.atOnce()-1)/q.atOnce(), max(1, q.spec.GroupCap))
	for _, since := range q.waiting[:group] {
		q.p.record.began(q.p.now, q.p.now-since)
	}
	q.waiting = q.waiting[group:]
	q.work(group)
}

// atOnce is how many groups can be at work.
func (q *pool) atOnce() int {
	if q.spec.Hot {
		return 1
	}
	return q.spec.Workers
}

// advance adds up the time at work. As in the service, the law sees all workers used
// while anybody waits.
func (q *pool) advance() {
	used := q.busy
	if len(q.waiting) > 0 {
		used = q.spec.Workers
	}
	q.usedTime += float64(used) * (q.p.now - q.since)
	q.p.record.busy(q.since, q.p.now, q.busy)
	q.since = q.p.now
}

// round is what a process with an order side does once a second.
func (q *pool) round() {
	q.expire()
	if !q.up() {
		for range q.waiting {
			q.p.retry()
		}
		q.waiting = nil
		return
	}
	q.state = admission.Next(q.state, admission.Measurement{
		At:           clock(q.p.now),
		Workers:      q.spec.Workers,
		Busy:         q.busy,
		Running:      q.running,
		Backlog:      len(q.waiting),
		BacklogLimit: q.spec.Backlog,
		Completed:    q.completed,
		Refused:      q.refused,
		BusyTime:     time.Duration(q.usedTime * 1e9),
	}, admission.LawSettings{
		First:      admission.FirstGuess(q.spec.Workers, 200*time.Millisecond, 0.7),
		WaitTarget: time.Duration(waitTarget * 1e9),
	})
	q.p.register[q.name] = admission.Report{
		Process: q.name,
		At:      clock(q.p.now),
		Orders: &admission.OrdersReport{
			Capacity:     q.state.Capacity,
			Reason:       q.state.Reason,
			WaitTarget:   time.Duration(waitTarget * 1e9),
			Workers:      q.spec.Workers,
			Backlog:      len(q.waiting),
			Returning:    q.state.Returning,
			BacklogLimit: q.spec.Backlog,
		},
	}
}
