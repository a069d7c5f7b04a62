package main

import "time"

// timer is when a visitor has something to do next, from the start of the run.
type timer struct {
	due     time.Duration
	visitor int32
}

// timers is a heap of at most one timer per visitor, 16 bytes each: a million
// who wait cost 16 MB and no goroutine. container/heap would allocate for each.
type timers []timer

func (h timers) first() (timer, bool) {
	if len(h) == 0 {
		return timer{}, false
	}
	return h[0], true
}

func (h *timers) push(t timer) {
	*h = append(*h, t)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent].due <= t.due {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = t
}

// pop takes the first; there must be one.
func (h *timers) pop() timer {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	for i := 0; len(s) > 0; {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].due < s[child].due {
			child++
		}
		if child >= len(s) || last.due <= s[child].due {
			s[i] = last
			break
		}
		s[i] = s[child]
		i = child
	}
	return first
}
