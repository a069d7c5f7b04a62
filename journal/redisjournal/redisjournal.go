// Package redisjournal is the journal on Redis, shared by all instances: a sorted set,
// whose members are the entries and whose scores are their times. So an entry that is
// added again is the same member, and one that comes late takes its place.
package redisjournal

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"sluice/journal"
)

// Key is the journal's key in Redis: a ZSET of entries in JSON by their times in µs,
// that does not expire.
const Key = "sluice:journal"

// Journal is the journal on Redis. See [journal.Journal] for its contract.
type Journal struct {
	client redis.UniversalClient
	key    string
}

var _ journal.Journal = (*Journal)(nil)

// New makes one on a key, which is [Key] but for tests; it does not connect yet. The
// client is closed by its owner.
func New(client redis.UniversalClient, key string) *Journal {
	return &Journal{client: client, key: key}
}

// Add implements [journal.Journal].
func (j *Journal) Add(ctx context.Context, e journal.Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("redisjournal: writing an entry: %w", err)
	}
	_, err = j.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, j.key, redis.Z{Score: float64(e.At.UnixMicro()), Member: text})
		p.ZRemRangeByRank(ctx, j.key, 0, -journal.Most-1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: adding an entry: %w", journal.ErrUnavailable, err)
	}
	return nil
}

// Latest implements [journal.Journal].
func (j *Journal) Latest(ctx context.Context, n int) ([]journal.Entry, error) {
	if n <= 0 {
		return nil, nil
	}
	texts, err := j.client.ZRevRange(ctx, j.key, 0, int64(n)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: reading it: %w", journal.ErrUnavailable, err)
	}
	entries := make([]journal.Entry, 0, len(texts))
	for _, text := range texts {
		var e journal.Entry
		if json.Unmarshal([]byte(text), &e) == nil {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
