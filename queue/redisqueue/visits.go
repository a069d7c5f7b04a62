package redisqueue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/together"
)

// maxVisits bounds one pipeline of visits: so many scripts keep Redis busy for 3 ms, and
// whatever else it is asked for waits that long.
const maxVisits = 64

// visits puts the scripts of concurrent visits into shared pipelines, each for at most
// ioTimeout: to send and to receive every command by itself costs both sides more than most
// of their work on it (make bench, ZRANK both ways). They are not in the pipelines of the
// reads, which scripts would hold up.
type visits struct {
	client    redis.UniversalClient
	begin     []any // of every command: the script and the keys, boxed once
	pipelines *together.Calls[*redis.Cmd]
}

func newVisits(client redis.UniversalClient, keys []string) *visits {
	v := &visits{client: client, begin: []any{"evalsha", visitScript.Hash(), len(keys)}}
	for _, key := range keys {
		v.begin = append(v.begin, key)
	}
	v.pipelines = together.New(v.carry, maxVisits, ioTimeout)
	return v
}

// carry is one pipeline. What fails is noted with each command.
func (v *visits) carry(ctx context.Context, some []*redis.Cmd) error {
	pipe := v.client.Pipeline()
	for _, cmd := range some {
		_ = pipe.Process(ctx, cmd) // of a pipeline: only puts it in
	}
	_, _ = pipe.Exec(ctx)
	return nil
}

// runVisit runs the script of a visit. Where Redis does not have the script, or the line,
// it is run by itself, and what is missing brought.
func (l *Line) runVisit(ctx context.Context, args []any) ([]any, error) {
	all := make([]any, 0, len(l.visits.begin)+len(args))
	cmd := redis.NewCmd(ctx, append(append(all, l.visits.begin...), args...)...)
	if err := l.visits.pipelines.Do(ctx, cmd); err != nil {
		return nil, unavailable("visiting", err)
	}
	reply, err := cmd.Slice()
	switch {
	case err == nil:
		return reply, nil
	case redis.HasErrorPrefix(err, "NOSCRIPT"), strings.HasPrefix(err.Error(), "NOTOPEN"):
		return l.run(ctx, visitScript, "visiting", args...).Slice()
	}
	return nil, unavailable("visiting", err)
}
