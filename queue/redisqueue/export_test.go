package redisqueue

import (
	"context"
	"slices"

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
