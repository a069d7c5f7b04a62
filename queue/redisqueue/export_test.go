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

// Bounds of the copy of the places.
const (
	Chunk   = chunk
	Nearest = nearest
	MaxAge  = maxAge
)

// Catch brings the copy up to date; readings is how many that took.
func (l *Line) Catch(ctx context.Context) (readings int) {
	for more := true; more; readings++ {
		more = l.followOnce(ctx)
	}
	return readings
}

// Copied is the copy: how long it says that the line is, and for whom it finds which
// position of those at the places.
func (l *Line) Copied(subjects []string, at []int64) (length int64, positions []int) {
	c := l.follower.now.Load()
	if c == nil {
		return -1, nil
	}
	for i, subject := range subjects {
		if ahead, found := c.find(at[i], l.follower.tag(subject)); found {
			positions = append(positions, ahead+1)
		} else {
			positions = append(positions, 0)
		}
	}
	if c.size != len(subjects) {
		return int64(c.size), positions
	}
	return c.length, positions
}
