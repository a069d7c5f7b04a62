package redisqueue

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
)

// maxScan is about how many entries one step of a scan takes.
const maxScan = 1000

// Export implements [queue.Line]. It scans in the order in which a ticket moves,
// from holding something to having ended, so that none is missed on its way.
func (l *Line) Export(ctx context.Context) ([]queue.Record, error) {
	s, err := l.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	waits := queue.Waiting
	if s.Phase() == queue.PhaseScheduled {
		waits = queue.Scheduled
	}
	records := map[string]queue.Record{}
	err = l.scan(ctx, l.keys.tickets, func(pairs []string) error {
		return l.exportHolders(ctx, pairs, waits, records)
	})
	if err != nil {
		return nil, err
	}
	err = l.scan(ctx, l.keys.ended, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			if r, ok := endOf(pairs[i], pairs[i+1]); ok {
				records[r.TicketID] = r
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = l.scan(ctx, l.keys.early, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			// A place can be forgotten, and how a ticket ended; the draw cannot. Before
			// the opening who is not recorded yet has only just come.
			r, ok := records[pairs[i]]
			if s.Settings.Seed != "" && (ok || waits != queue.Scheduled) {
				r.TicketID, r.Place, r.EnteredAt = pairs[i], queue.DrawPlace(s.Settings.Seed, pairs[i]), instant(pairs[i+1])
				records[pairs[i]] = r
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]queue.Record, 0, len(records))
	for _, r := range records {
		if r.EnteredAt.IsZero() && r.Place > queue.MaxDrawn {
			r.EnteredAt = queue.EnteredAt(r.Place)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b queue.Record) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), strings.Compare(a.TicketID, b.TicketID))
	})
	return all, nil
}

// scan goes through a hash as field, value, field, value, … in steps.
func (l *Line) scan(ctx context.Context, key string, do func(pairs []string) error) error {
	for cursor := uint64(0); ; {
		pairs, next, err := l.client.HScan(ctx, key, cursor, "", maxScan).Result()
		if err != nil {
			return unavailable("reading what is recorded", err)
		}
		if err := do(pairs); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// exportHolders looks up what subjects hold with their tickets. A chunk is read in
// one transaction: nobody is between two places.
func (l *Line) exportHolders(ctx context.Context, pairs []string, waits queue.State, records map[string]queue.Record) error {
	if len(pairs) == 0 {
		return nil
	}
	var subjects, ids []string
	for i := 0; i+1 < len(pairs); i += 2 {
		subjects, ids = append(subjects, pairs[i]), append(ids, pairs[i+1])
	}
	var waiting, away *redis.FloatSliceCmd
	var admitted *redis.SliceCmd
	_, err := l.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		waiting = pipe.ZMScore(ctx, l.keys.waiting, subjects...)
		away = pipe.ZMScore(ctx, l.keys.away, subjects...)
		admitted = pipe.HMGet(ctx, l.keys.admitted, ids...)
		return nil
	})
	if err != nil {
		return unavailable("reading what is recorded", err)
	}
	packed := values(admitted.Val())
	for i, id := range ids {
		r := queue.Record{TicketID: id, Outcome: waits}
		if p := strings.SplitN(packed.text(i), ":", 7); len(p) == 7 {
			r.Place, r.AdmittedAt, r.FetchedAt, r.Outcome = integer(p[0]), instant(p[1]), instant(p[4]), queue.Admitted
			r.Bypassed = bypassed(p[5])
		} else {
			r.Place = int64(max(waiting.Val()[i], away.Val()[i])) // 0 where they are not
		}
		if r.Place > 0 {
			records[id] = r
		}
	}
	return nil
}

// ends are the codes of prelude.lua.
var ends = map[string]queue.State{"1": queue.Spent, "2": queue.Expired, "3": queue.Left, "4": queue.Removed}

func endOf(id, packed string) (r queue.Record, ok bool) {
	p := strings.Split(packed, ":")
	if len(p) != 6 {
		return queue.Record{}, false
	}
	return queue.Record{
		TicketID: id, Place: integer(p[2]), AdmittedAt: instant(p[3]), FetchedAt: instant(p[4]), Outcome: ends[p[0]],
		Bypassed: bypassed(p[5]),
	}, true
}

// bypassed reads it out of the marks of prelude.lua.
func bypassed(marks string) bool { return integer(marks)&2 != 0 }

// Seal implements [queue.Line]. While this process knows of no draw, or of one
// that is sealed, it asks Redis nothing.
func (l *Line) Seal(ctx context.Context) error {
	l.mu.Lock()
	m := l.known
	l.mu.Unlock()
	if m.created != 0 && (m.settings.Seed == "" || m.settings.TicketsSHA256 != "") {
		return nil
	}
	if clock := l.clock.Load(); clock != nil && m.settings.OpensAt != nil && clock.now().Before(*m.settings.OpensAt) {
		return nil
	}
	s, err := l.Snapshot(ctx)
	if err != nil {
		return err
	}
	opens := s.Settings.OpensAt
	if s.Settings.Seed == "" || s.Settings.TicketsSHA256 != "" || s.Recovering() || opens != nil && s.At.Before(*opens) {
		return nil
	}
	var ids []string
	err = l.scan(ctx, l.keys.early, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			ids = append(ids, pairs[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(ids)
	ids = slices.Compact(ids) // a scan may return an entry twice
	if err := l.run(ctx, sealScript, "sealing the draw", s.Settings.Seed, len(ids), queue.HashTickets(ids)).Err(); err != nil {
		return err
	}
	_, err = l.Snapshot(ctx) // so that the next call knows
	return err
}
