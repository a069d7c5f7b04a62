package main

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// STUB: until redisqueue has it.
type redisDirectory struct{ client redis.UniversalClient }

func (d redisDirectory) Lines(ctx context.Context) ([]string, error) {
	ids, err := d.client.SMembers(ctx, "sluice:lines").Result()
	slices.Sort(ids)
	return ids, err
}

func (d redisDirectory) Add(ctx context.Context, ids ...string) error {
	return d.client.SAdd(ctx, "sluice:lines", ids).Err()
}
