package redisqueue

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// directoryKey is the SET of the ids of all lines.
const directoryKey = "sluice:lines"

// Directory is the list of lines in Redis. See [queue.Directory].
type Directory struct{ client redis.UniversalClient }

// NewDirectory makes one; the client is closed by its owner.
func NewDirectory(client redis.UniversalClient) *Directory { return &Directory{client: client} }

// Lines implements [queue.Directory]. Errors wrap [queue.ErrUnavailable].
func (d *Directory) Lines(ctx context.Context) ([]string, error) {
	ids, err := d.client.SMembers(ctx, directoryKey).Result()
	if err != nil {
		return nil, unavailable("reading which lines there are", err)
	}
	slices.Sort(ids)
	return ids, nil
}

// Add implements [queue.Directory]. Errors wrap [queue.ErrUnavailable].
func (d *Directory) Add(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	members := make([]any, len(ids))
	for i, id := range ids {
		members[i] = id
	}
	if err := d.client.SAdd(ctx, directoryKey, members...).Err(); err != nil {
		return unavailable("adding a line", err)
	}
	return nil
}
