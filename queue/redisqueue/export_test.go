package redisqueue

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
)

// What the tests outside of the package need of it.
const (
	MaxReads  = maxReads
	IOTimeout = ioTimeout
	PoolSize  = poolSize

	DirectoryKey = directoryKey
)

// RestartFrom restarts as a caller that saw the epoch, or repeats it.
func RestartFrom(ctx context.Context, l *Line, epoch int64) (int64, error) {
	return l.run(ctx, restartScript, "restarting", epoch, queue.NewSeed()).Int64()
}

// Keys are all keys of a line, for tests that wipe one.
func Keys(line string) []string { return keysOf(line).all }

// Key is one key of a line, as keys.go names it.
func Key(line, name string) string { return keysOf(line).all[slices.Index(names, name)] }

// Reads is the readers' pipeline alone: a read, and whether one is on its way.
func Reads(client redis.UniversalClient) (find func(context.Context, string) error, reading func() bool) {
	r := &reads{client: client, waiting: "none", meta: "none"}
	find = func(ctx context.Context, subject string) error {
		_, err := r.find(ctx, subject)
		return err
	}
	return find, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.running
	}
}
