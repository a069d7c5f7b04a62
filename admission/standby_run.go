package admission

import (
	"context"
	"time"

	"sluice/queue"
)

const (
	// recordEvery is the time between two rounds of recording, recordBatch how many one
	// call tells the line.
	recordEvery = 100 * time.Millisecond
	recordBatch = 500
	// recordDeadline bounds one call.
	recordDeadline = time.Second
)

// StandbyStats count what was done without the line since the start.
type StandbyStats struct {
	// Bypassed is how many were let in.
	Bypassed int64
	// Unrecorded is how many of them the line does not know yet.
	Unrecorded int64
	// Forgotten is how many it will never know: there was no room to remember them. Their
	// tokens are as good as all others.
	Forgotten int64
}

// Stats are the figures so far.
func (s *Standby) Stats() StandbyStats { return s.bypass.stats() }

// Run records in the line who was let in without it, whenever its store is there, until
// ctx ends; then what is left, for two seconds at most, and returns nil.
func (s *Standby) Run(ctx context.Context) error {
	rounds := time.NewTicker(recordEvery)
	defer rounds.Stop()
	var outage queue.Outage
	var forgotten int64
	for {
		select {
		case <-ctx.Done():
			return s.stop(ctx)
		case <-rounds.C:
		}
		if err := s.record(ctx); ctx.Err() == nil {
			outage.Note(s.log, err, "who was let in without the line cannot be recorded in it", "who was let in without the line is recorded in it again")
		}
		if !s.Mode().Bypassed() {
			s.bypass.over()
		}
		if n := s.Stats().Forgotten; n > 0 && forgotten == 0 {
			forgotten = n
			s.log.Warn("more were let in without the line than are remembered; the oldest will be missing in the export", "remembered", mostPasses)
		}
	}
}

// record tells the line of all that it does not know.
func (s *Standby) record(ctx context.Context) error {
	for !s.away.Load() {
		chunk, below := s.bypass.next(recordBatch)
		if len(chunk) == 0 {
			return nil
		}
		if err := s.recordOnce(ctx, chunk); err != nil {
			return err
		}
		s.bypass.taken(below)
	}
	return nil
}

func (s *Standby) recordOnce(ctx context.Context, chunk []queue.Admission) error {
	ctx, cancel := context.WithTimeout(ctx, recordDeadline)
	defer cancel()
	return s.Record(ctx, chunk)
}

// stop records the rest in bounded time, although ctx has ended.
func (s *Standby) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopDeadline)
	defer cancel()
	err := s.record(ctx)
	if left := s.Stats().Unrecorded; left > 0 {
		if err == nil {
			err = errAway
		}
		s.log.Warn("who was let in without the line is not recorded in it; their tokens are good, and whoever still waits there by the line's book can be let in once more",
			"left", left, "error", err)
	}
	return nil
}

// Configure implements [queue.Line]. While the store is away a change holds in this
// process at once and is put into the store when it is back, unless another process has
// made a later one. The times of the schedule are the store's to judge: to change them
// it has to be there.
func (s *Standby) Configure(ctx context.Context, p queue.Patch) (queue.Settings, error) {
	if !s.away.Load() {
		return s.Line.Configure(ctx, p)
	}
	if p.OpensAt != nil || p.ClosesAt != nil {
		return queue.Settings{}, errAway
	}
	s.mu.Lock() // two changes are one after the other
	defer s.mu.Unlock()
	view, ok := s.cfg.Watch.View()
	if !ok {
		return queue.Settings{}, errAway
	}
	if p == (queue.Patch{}) {
		return view.Settings, nil
	}
	next := view.Settings.Apply(p)
	next.Revision = max(next.Revision+1, s.cfg.Watch.Now().UnixMilli())
	s.Adopt(next)
	s.cfg.Watch.Adopt(next)
	return next, nil
}
