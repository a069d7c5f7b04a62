package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// EvictionError says that this Redis would silently throw waiting visitors away
// when it runs out of memory. It is for the operator to change, not to retry.
type EvictionError struct{ Policy string }

func (e *EvictionError) Error() string {
	return fmt.Sprintf("redisqueue: maxmemory-policy is %s: a full Redis would throw waiting visitors away; "+
		"set it to noeviction", e.Policy)
}

// Check refuses a Redis that must not hold a line: errors are [*EvictionError], [*VersionError],
// or wrap [queue.ErrUnavailable]. It reads INFO, which managed services allow
// where they forbid CONFIG. A policy without a memory limit never evicts.
func Check(ctx context.Context, client redis.UniversalClient) error {
	check := func(ctx context.Context, node redis.UniversalClient) error {
		info, err := node.Info(ctx, "server").Result()
		if err != nil {
			return unavailable("reading its version", err)
		}
		if err := judgeVersion(info); err != nil {
			return err
		}
		if info, err = node.Info(ctx, "memory").Result(); err != nil {
			return unavailable("reading its memory policy", err)
		}
		return judgeMemory(info)
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return check(ctx, node) })
	}
	return check(ctx, client)
}

// Guard checks again at the interval until ctx ends, and says in the log when this Redis
// must not hold a line any more, and when it may again: the policy can be changed while
// it serves, and a fail-over brings a server that nobody has checked. It ends nothing:
// visitors are better off with a line that might lose some of them than with none. That
// Redis does not answer is for others to say.
func Guard(ctx context.Context, client redis.UniversalClient, every time.Duration, log *slog.Logger) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for bad := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		bounded, cancel := context.WithTimeout(ctx, ioTimeout)
		err := Check(bounded, client)
		cancel()
		evicts := errors.As(err, new(*EvictionError))
		switch {
		case err != nil && !evicts:
			continue
		case evicts && !bad:
			log.Error("Redis may throw visitors away", "error", err)
		case !evicts && bad:
			log.Info("Redis keeps what it has again")
		}
		bad = evicts
	}
}

// VersionError says that this Redis is too old for a line. It is for the operator to
// change, not to retry.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("redisqueue: Redis %s is too old: it must be %d.%d or later", e.Version, leastMajor, leastMinor)
}

// The oldest Redis with every command that is used: ZMSCORE came with it.
const leastMajor, leastMinor = 6, 2

// judgeVersion lets pass what does not tell: some managed services hide it.
func judgeVersion(info string) error {
	version := infoField(info, "redis_version")
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 || major > leastMajor || major == leastMajor && minor >= leastMinor {
		return nil
	}
	return &VersionError{Version: version}
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if field, value, _ := strings.Cut(strings.TrimSpace(line), ":"); field == name {
			return value
		}
	}
	return ""
}

func judgeMemory(info string) error {
	limit, policy := infoField(info, "maxmemory"), infoField(info, "maxmemory_policy")
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" {
		return nil
	}
	return &EvictionError{Policy: policy}
}
