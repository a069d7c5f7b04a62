package queue

import "context"

// Directory is where the processes of one store find which lines there are.
type Directory interface {
	// Lines are the ids of all lines, sorted.
	Lines(ctx context.Context) ([]string, error)
	// Add puts lines in; what is there already is no error.
	Add(ctx context.Context, ids ...string) error
}
