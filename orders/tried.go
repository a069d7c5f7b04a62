package orders

import (
	"errors"
	"sync"
)

// standing is how a unit of work counts in what the pool can serve.
type standing int

const (
	// nothing came of it for anybody: the database failed, or a visitor who counts
	// already got nothing new.
	nothing standing = iota
	// another is the first unit of its token: another visitor served.
	another
	// more is work for a visitor who counts already, such as an order after a claim.
	more
)

// mostTried bounds each half of what is remembered; 100,000 tokens take about 10 MB.
const mostTried = 50_000

// tried remembers which tokens have been served. A refused order does not spend its
// token, and one that was made may be asked for again, so one visitor can bring the
// pool any number of units of work that take no time; taken for visitors, they would
// promise a capacity that nobody has, and the line would let everybody in at once.
//
// It is bounded: when the newer half is full the older one is forgotten. Whoever goes
// on repeating stays in it.
type tried struct {
	mu           sync.Mutex
	newer, older map[string]struct{} // guarded by mu
}

// standing is that of a unit of this token that created something, or not. Whom the
// database fails is not served, and counts once it does not: an outage would read as a
// capacity, and what comes after it as repetitions.
func (t *tried) standing(token string, created bool, err error) standing {
	switch {
	case errors.Is(err, ErrDatabase):
		return nothing
	case !t.again(token):
		return another
	case created:
		return more
	}
	return nothing
}

// again notes a token and reports whether it was noted before.
func (t *tried) again(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.newer[token]; ok {
		return true
	}
	_, before := t.older[token]
	if t.newer == nil || len(t.newer) >= mostTried {
		t.older, t.newer = t.newer, make(map[string]struct{})
	}
	t.newer[token] = struct{}{}
	return before
}
