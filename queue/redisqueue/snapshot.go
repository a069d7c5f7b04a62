package redisqueue

import (
	"context"
	"fmt"
	"strconv"
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

// read reads the figures; ok is false when Redis knows less than this process.
func (l *Line) read(ctx context.Context) (s queue.Snapshot, ok bool, err error) {
	reply, err := l.run(ctx, snapshotScript, "reading the line").Slice()
	if err != nil {
		return queue.Snapshot{}, false, err
	}
	r := values(reply)
	m := make(map[string]string, len(r)/2)
	for i := 4; i+1 < len(r); i += 2 {
		m[r.text(i)] = r.text(i + 1)
	}
	if len(m) == 0 {
		return queue.Snapshot{}, false, nil
	}
	s = queue.Snapshot{
		Line: l.id, Epoch: integer(m["epoch"]), Settings: settingsOf(m),
		Waiting: r.int(1), Inside: r.int(2), Away: r.int(3),
		Admitted: integer(m["admitted"]), Spent: integer(m["spent"]), Expired: integer(m["expired"]),
		Dropped: decimal(m["dropped"]), Rate: decimal(m["rate"]), LimitedBy: queue.LimitedBy(m["limited_by"]),
		At: time.UnixMicro(r.int(0)),
	}
	floor := integer(m["floor"])
	l.remember(func(k *memory) {
		ok = s.Epoch >= k.epoch && floor >= k.floor && s.Settings.Revision >= k.settings.Revision
		k.epoch, k.floor = max(k.epoch, s.Epoch), max(k.floor, floor)
		if s.Settings.Revision >= k.settings.Revision {
			k.settings = s.Settings
		}
	})
	return s, ok, nil
}

// Configure implements [queue.Line].
func (l *Line) Configure(ctx context.Context, p queue.Patch) (queue.Settings, error) {
	var args []any
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
	if len(args) == 0 {
		s, err := l.Snapshot(ctx)
		return s.Settings, err
	}
	reply, err := l.run(ctx, configureScript, "changing the settings", args...).StringSlice()
	if err != nil {
		return queue.Settings{}, err
	}
	m := make(map[string]string, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		m[reply[i]] = reply[i+1]
	}
	s := settingsOf(m)
	l.remember(func(k *memory) {
		if s.Revision >= k.settings.Revision {
			k.settings = s
		}
	})
	return s, nil
}

// settingsArgs and settingsOf are the two directions of the settings' fields in
// the meta hash.
func settingsArgs(s queue.Settings) []any {
	return []any{
		"paused", flag(s.Paused), "message", s.Message, "mode", string(s.Mode),
		"rate_override", optional(s.RateOverride), "max_active", s.MaxActive,
		"max_length", s.MaxLength, "sold_out", flag(s.SoldOut),
	}
}

func settingsOf(m map[string]string) queue.Settings {
	s := queue.Settings{
		Revision: integer(m["revision"]), Paused: m["paused"] == "1", Message: m["message"],
		Mode: queue.Mode(m["mode"]), MaxActive: integer(m["max_active"]),
		MaxLength: integer(m["max_length"]), SoldOut: m["sold_out"] == "1",
	}
	if v := m["rate_override"]; v != "" {
		rate := decimal(v)
		s.RateOverride = &rate
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

func integer(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func decimal(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
