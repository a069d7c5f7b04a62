package redisqueue

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EvictionError says that this Redis would silently throw waiting visitors away
// when it runs out of memory. It is for the operator to change, not to retry.
type EvictionError struct{ Policy string }

func (e *EvictionError) Error() string {
	return fmt.Sprintf("redisqueue: maxmemory-policy is %s: a full Redis would throw waiting visitors away; "+
		"set it to noeviction", e.Policy)
}

// Check refuses a Redis that must not hold a line: errors are [*EvictionError],
// or wrap [queue.ErrUnavailable]. It reads INFO, which managed services allow
// where they forbid CONFIG. A policy without a memory limit never evicts.
func Check(ctx context.Context, client redis.UniversalClient) error {
	check := func(ctx context.Context, node redis.UniversalClient) error {
		info, err := node.Info(ctx, "memory").Result()
		if err != nil {
			return unavailable("reading its memory policy", err)
		}
		return judgeMemory(info)
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return check(ctx, node) })
	}
	return check(ctx, client)
}

func judgeMemory(info string) error {
	var limit, policy string
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" {
		return nil
	}
	return &EvictionError{Policy: policy}
}
