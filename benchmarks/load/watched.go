package load

import "time"

// watched is what was seen of the machine while a step's load was on.
type watched struct {
	Samples     []sample
	Cores       cores // means
	AcceptQueue int   // most that waited to be accepted
	Overflows   int   // connections that found such a queue full
	Established int   // most at once, of the service's public listener
	TimeWait    int
	RSS         uint64 // bytes, of the service, most
	RedisMemory uint64 // bytes, most
}

// cores are processors in use.
type cores struct{ Service, Redis, Database, Driver float64 }

// sample is what one look, and those of the accept queue since the last, came to.
type sample struct {
	At          time.Duration // since the load began
	Cores       cores         // since the sample before
	AcceptQueue int
	Established int
	TimeWait    int
	RSS         uint64
	RedisMemory uint64
}

// add takes a sample into account.
func (w *watched) add(s sample) {
	w.Samples = append(w.Samples, s)
	w.AcceptQueue = max(w.AcceptQueue, s.AcceptQueue)
	w.Established = max(w.Established, s.Established)
	w.TimeWait = max(w.TimeWait, s.TimeWait)
	w.RSS = max(w.RSS, s.RSS)
	w.RedisMemory = max(w.RedisMemory, s.RedisMemory)
}
