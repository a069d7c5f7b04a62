package redisqueue

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
)

//go:embed lua/*.lua
var sources embed.FS

var (
	openScript      = script("open")
	visitScript     = script("visit")
	leaveScript     = script("leave")
	sweepScript     = script("sweep")
	arriveScript    = script("arrive")
	spendScript     = script("spend")
	recordScript    = script("record")
	admitScript     = script("admit")
	configureScript = script("configure")
	restartScript   = script("restart")
	sealScript      = script("seal")
	snapshotScript  = script("snapshot")
	followScript    = script("follow")
)

func script(name string) *redis.Script {
	return redis.NewScript(source("prelude") + source(name))
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: a missing file is a mistake in this package
	}
	return string(text)
}

// run runs a script on the line's keys. A line that Redis does not have is
// opened first, with what this process remembers of it.
func (l *Line) run(ctx context.Context, s *redis.Script, doing string, args ...any) *redis.Cmd {
	cmd := s.Run(ctx, l.client, l.keys.all, args...)
	if err := cmd.Err(); err != nil && strings.HasPrefix(err.Error(), "NOTOPEN") {
		if err := l.open(ctx); err != nil {
			cmd.SetErr(err)
			return cmd
		}
		cmd = s.Run(ctx, l.client, l.keys.all, args...)
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(unavailable(doing, err))
	}
	return cmd
}

// open creates the line, or puts back what Redis has forgotten of it, and learns
// which incarnation it is.
func (l *Line) open(ctx context.Context) error {
	m := l.known.Load()
	args := append([]any{
		m.epoch, l.floor.Load(), m.settings.Revision, flag(m.knew), m.created, l.hold(), queue.NewSeed(), flag(m.settled),
	}, settingsArgs(m.settings)...)
	reply, err := openScript.Run(ctx, l.client, l.keys.all, args...).Int64Slice()
	if err != nil {
		return unavailable("opening the line", err)
	}
	l.remember(func(k *memory) { k.knew, k.created, k.lostAt = true, reply[0], reply[1] })
	return nil
}

// hold is how long this process wants nobody to be let in after a loss, in ms:
// until everybody it told when to ask again can have done so.
func (l *Line) hold() int64 {
	longest := l.opts.Told.Longest()
	if l.opts.Known != nil {
		longest = max(longest, l.opts.Known.Longest)
	}
	if l.follower.answered.Load() > 0 { // such a poll puts nobody back
		longest += maxAge
	}
	return min(longest+l.opts.RecoveryHold, queue.MaxHold).Milliseconds()
}

// unavailable marks what Redis did not do: it was not reached, or it refuses for
// now (out of memory, read-only replica, loading). A script that fails is a
// mistake of ours or a damaged key; waiting does not help, so it is not marked.
func unavailable(doing string, err error) error {
	switch text := err.Error(); {
	case errors.Is(err, queue.ErrUnavailable):
		return err
	case strings.HasPrefix(text, "WRONGTYPE"), strings.HasPrefix(text, "ERR") && strings.Contains(text, "user_script"):
		return fmt.Errorf("redisqueue: %s: %w", doing, err)
	}
	return fmt.Errorf("%w: %s: %w", queue.ErrUnavailable, doing, err)
}

// values reads a script's reply by position. Scripts and this file change
// together; an absent or foreign value reads as zero.
type values []any

func (v values) int(i int) int64 {
	if i < len(v) {
		if n, ok := v[i].(int64); ok {
			return n
		}
	}
	return 0
}

func (v values) fields(i int) map[string]string {
	list := v.list(i)
	m := make(map[string]string, len(list)/2)
	for j := 0; j+1 < len(list); j += 2 {
		m[list.text(j)] = list.text(j + 1)
	}
	return m
}

func (v values) list(i int) values {
	if i >= len(v) {
		return nil
	}
	list, _ := v[i].([]any)
	return list
}

func (v values) text(i int) string {
	if i < len(v) {
		if s, ok := v[i].(string); ok {
			return s
		}
	}
	return ""
}

func (v values) float(i int) float64 {
	f, _ := strconv.ParseFloat(v.text(i), 64)
	return f
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }
