package orders

import "sync"

// mostTried bounds each half of what is remembered; 100,000 tokens take about 10 MB.
const mostTried = 50_000

// tried remembers which tokens have had a worker. A refused order does not spend its
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
