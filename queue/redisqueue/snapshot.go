package redisqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/queue"
)

// Snapshot implements [queue.Line]. It also notices what Redis has forgotten
// and puts it back.
func (l *Line) Snapshot(ctx context.Context) (queue.Snapshot, error) {
	s, ok, err := l.read(ctx)
	if err != nil {
		return queue.Snapshot{}, err
	}
	if !ok {
		if err := l.open(ctx); err != nil {
			return queue.Snapshot{}, err
		}
		if s, ok, err = l.read(ctx); err != nil {
			return queue.Snapshot{}, err
		}
		if !ok {
			return queue.Snapshot{}, fmt.Errorf("%w: it was lost again while being read", queue.ErrUnavailable)
		}
	}
	return s, nil
}

// read reads the figures; ok is false when Redis knows less than this process, is
// another incarnation than it knew, or has had a loss it has not answered.
func (l *Line) read(ctx context.Context) (s queue.Snapshot, ok bool, err error) {
	// Only what was known before can be missing: while the answer is on its way, those
	// of newcomers come, who have moved the line on.
	before, floorBefore := l.known.Load(), l.floor.Load()
	reply, err := l.run(ctx, snapshotScript, "reading the line").Slice()
	if err != nil {
		return queue.Snapshot{}, false, err
	}
	r := values(reply)
	m := r.fields(4)
	if len(m) == 0 {
		return queue.Snapshot{}, false, nil
	}
	s = queue.Snapshot{
		Line: l.id, Epoch: integer(m["epoch"]), Created: instant(m["created"]), HoldUntil: instant(m["hold_until"]),
		Settings: settingsOf(m),
		Waiting:  r.int(1), Inside: r.int(2), Away: r.int(3),
		Admitted: integer(m["admitted"]), Arrived: integer(m["arrived"]), Spent: integer(m["spent"]),
		Expired: integer(m["expired"]), Left: integer(m["left"]), GivenUp: integer(m["given_up"]), Bypassed: integer(m["bypassed"]),
		Dropped: decimal(m["dropped"]), Rate: decimal(m["rate"]), LimitedBy: queue.LimitedBy(m["limited_by"]),
		Cohorts: cohortsOf(r.fields(5)), Lag: time.Duration(decimal(m["lag_ms"]) * float64(time.Millisecond)),
		Head: integer(m["head"]), Last: integer(m["floor"]),
		At: time.UnixMicro(r.int(0)),
	}
	l.follower.waiting.Store(s.Waiting)
	l.clock.Store(&reading{store: s.At, local: time.Now()})
	floor, created, lostAt := integer(m["floor"]), integer(m["created"]), integer(m["lost_at"])
	ok = s.Epoch >= before.epoch && floor >= floorBefore && s.Settings.Revision >= before.settings.Revision &&
		(before.created == 0 || before.created == created) && lostAt == before.lostAt
	if !ok { // Redis is told first: of equal revisions ours may be the one that stands
		return s, false, nil
	}
	l.remember(func(k *memory) {
		k.knew, k.created = true, cmp.Or(k.created, created)
		k.epoch = max(k.epoch, s.Epoch)
		k.learn(s.Settings)
	})
	l.raiseFloor(floor)
	return s, true, nil
}

// reading is the store's time at a moment of this process's monotonic clock.
type reading struct{ store, local time.Time }

func (r reading) now() time.Time { return r.store.Add(time.Since(r.local)) }

func cohortsOf(m map[string]string) []queue.Cohort {
	cohorts := make([]queue.Cohort, 0, len(m))
	for second, counts := range m {
		letIn, came, _ := strings.Cut(counts, ":")
		c := queue.Cohort{Second: integer(second), Admitted: integer(letIn), Arrived: integer(came)}
		if strconv.FormatInt(c.Second, 10) == second && min(c.Second, c.Admitted, c.Arrived) >= 0 { // as count_cohort writes it
			cohorts = append(cohorts, c)
		}
	}
	slices.SortFunc(cohorts, func(a, b queue.Cohort) int { return cmp.Compare(a.Second, b.Second) })
	return cohorts
}

// Configure implements [queue.Line].
func (l *Line) Configure(ctx context.Context, p queue.Patch) (queue.Settings, error) {
	opensAt := ""
	if p.OpensAt != nil {
		opensAt = milli(*p.OpensAt)
	}
	args := []any{queue.NewSeed(), opensAt}
	given := len(args)
	add := func(field string, value any) { args = append(args, field, value) }
	if p.Paused != nil {
		add("paused", flag(*p.Paused))
	}
	if p.Message != nil {
		add("message", *p.Message)
	}
	if p.Mode != nil {
		add("mode", string(*p.Mode))
	}
	if p.RateOverride != nil {
		add("rate_override", optional(*p.RateOverride))
	}
	if p.MaxActive != nil {
		add("max_active", *p.MaxActive)
	}
	if p.MaxLength != nil {
		add("max_length", *p.MaxLength)
	}
	if p.SoldOut != nil {
		add("sold_out", flag(*p.SoldOut))
	}
	if p.Weight != nil {
		add("weight", *p.Weight)
	}
	if p.PollBudget != nil {
		add("poll_budget", optional(*p.PollBudget))
	}
	if p.OpensAt != nil {
		add("opens_at", opensAt)
	}
	if p.ClosesAt != nil {
		add("closes_at", milli(*p.ClosesAt))
	}
	if len(args) == given {
		s, err := l.Snapshot(ctx)
		return s.Settings, err
	}
	defer l.follower.touchAll()
	reply, err := l.run(ctx, configureScript, "changing the settings", args...).StringSlice()
	if err != nil {
		return queue.Settings{}, err
	}
	if len(reply) == 1 {
		return queue.Settings{}, queue.ErrStarted
	}
	m := make(map[string]string, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		m[reply[i]] = reply[i+1]
	}
	s := settingsOf(m)
	l.remember(func(k *memory) { k.learn(s) })
	return s, nil
}

// settingsArgs and settingsOf are the two directions of the settings' fields in
// the meta hash. What is there and can be no setting reads as unset.
func settingsArgs(s queue.Settings) []any {
	return []any{
		"paused", flag(s.Paused), "message", s.Message, "mode", string(s.Mode),
		"rate_override", optional(s.RateOverride), "max_active", s.MaxActive,
		"max_length", s.MaxLength, "sold_out", flag(s.SoldOut), "weight", s.Weight,
		"poll_budget", optional(s.PollBudget), "opens_at", milli(s.OpensAt), "closes_at", milli(s.ClosesAt),
		"seed", s.Seed, "tickets_sha256", s.TicketsSHA256,
	}
}

func settingsOf(m map[string]string) queue.Settings {
	s := queue.Settings{
		Revision: integer(m["revision"]), Paused: m["paused"] == "1", Message: m["message"],
		Mode: queue.Mode(m["mode"]), MaxActive: max(integer(m["max_active"]), 0),
		MaxLength: max(integer(m["max_length"]), 0), SoldOut: m["sold_out"] == "1",
		Weight: max(integer(m["weight"]), 1), Seed: m["seed"], TicketsSHA256: m["tickets_sha256"],
		RateOverride: figure(m["rate_override"]), PollBudget: figure(m["poll_budget"]),
		OpensAt: moment(m["opens_at"]), ClosesAt: moment(m["closes_at"]),
	}
	if s.PollBudget != nil && *s.PollBudget == 0 {
		s.PollBudget = nil
	}
	return s
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func optional(f *float64) string {
	if f == nil {
		return ""
	}
	return float(*f)
}

func figure(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || queue.ValidRate(f) != nil {
		return nil
	}
	return &f
}

// milli and moment are the two directions of a time in settings: in ms, ” for none.
func milli(t *time.Time) string {
	if t == nil {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func moment(s string) *time.Time {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 || ms > lastMS {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// instant is a time in ms, or the zero time where there is none.
func instant(s string) time.Time {
	ms := integer(s)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func integer(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func decimal(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
