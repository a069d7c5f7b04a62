package redisqueue

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

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
		r, ok := admissionOf(id, packed.text(i))
		if !ok {
			place := int64(max(waiting.Val()[i], away.Val()[i])) // 0 where they are not
			r = queue.Record{TicketID: id, Outcome: waits, Place: place}
		}
		if r.Place > 0 {
			records[id] = r
		}
	}
	return nil
}

// ends are the codes of prelude.lua.
var ends = map[string]queue.State{"1": queue.Spent, "2": queue.Expired, "3": queue.Left, "4": queue.Removed}

// endOf reads how a ticket ended, as prelude.lua packs it; ok is false of anything else.
func endOf(id, packed string) (r queue.Record, ok bool) {
	p := strings.Split(packed, ":")
	if len(p) != 6 || ends[p[0]] == "" {
		return queue.Record{}, false
	}
	return recordOf(id, ends[p[0]], p[2], p[3], p[4], p[5])
}

// admissionOf reads a live admission, likewise.
func admissionOf(id, packed string) (r queue.Record, ok bool) {
	p := strings.SplitN(packed, ":", 7)
	if len(p) != 7 {
		return queue.Record{}, false
	}
	return recordOf(id, queue.Admitted, p[0], p[1], p[4], p[5])
}

// lastMS is the last time that has a year of four digits.
var lastMS = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli()

// recordOf makes a record of the fields of a packed one; marks are those of prelude.lua.
func recordOf(id string, outcome queue.State, place, admitted, fetched, marks string) (r queue.Record, ok bool) {
	var numbers [4]int64
	for i, text := range []string{place, admitted, fetched, marks} {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || (i == 1 || i == 2) && int64(n) > lastMS || i == 3 && n > 3 {
			return queue.Record{}, false
		}
		numbers[i] = int64(n)
	}
	return queue.Record{
		TicketID: id, Place: numbers[0], AdmittedAt: instant(admitted), FetchedAt: instant(fetched), Outcome: outcome,
		Bypassed: numbers[3]&2 != 0,
	}, true
}

// Seal implements [queue.Line]. While this process knows of no draw, or of one
// that is sealed, it asks Redis nothing.
func (l *Line) Seal(ctx context.Context) error {
	m := l.known.Load()
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
