// Package journaltest holds what every [journal.Journal] must do.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/journal"
)

// patience bounds every exchange; a store that answers needs far less.
const patience = 10 * time.Second

// Run tests a journal. open gives an empty one and a way to see the same as another
// process would: another client, or the same folder after a start.
func Run(t *testing.T, open func(t *testing.T) (j journal.Journal, another func() journal.Journal)) {
	for name, test := range map[string]func(t *testing.T, j journal.Journal, another func() journal.Journal){
		"an entry is as it was given":       asGiven,
		"the newest come first":             newestFirst,
		"one that comes late has its place": late,
		"an entry is there once":            once,
		"only the latest are kept":          bounded,
		"many add at once":                  many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, another := open(t)
			test(t, j, another)
		})
	}
}

// Entry is the nth of a test; each is a millisecond later than the one before.
func Entry(n int) journal.Entry {
	return journal.Entry{
		ID: fmt.Sprintf("id-%d", n), At: time.Date(2026, 1, 2, 3, 4, 5, n*1_000_000, time.UTC), Who: "alice", From: "192.0.2.7",
		Line: "default", What: "pause", Detail: fmt.Sprintf("entry %d", n),
	}
}

func add(t *testing.T, j journal.Journal, n ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, n := range n {
		if err := j.Add(ctx, Entry(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func latest(t *testing.T, j journal.Journal, n int) []journal.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	entries, err := j.Latest(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// is checks which entries there are.
func is(t *testing.T, got []journal.Entry, want ...int) {
	t.Helper()
	var ids, wanted []string
	for _, e := range got {
		ids = append(ids, e.ID)
	}
	for _, n := range want {
		wanted = append(wanted, Entry(n).ID)
	}
	if !slices.Equal(ids, wanted) {
		t.Errorf("%d entries %v, want %d: %v", len(ids), ids[:min(len(ids), 20)], len(wanted), wanted[:min(len(wanted), 20)])
	}
}

func asGiven(t *testing.T, j journal.Journal, another func() journal.Journal) {
	is(t, latest(t, j, 10))
	given := []journal.Entry{
		{ID: "a", At: time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC), Who: "bob", From: "2001:db8::1", Line: "vip", What: "message", Detail: `message: "" → "가게\n \" </script> \u2028"`},
		{ID: "b", At: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Who: "local", What: "test_delay"},
	}
	for _, e := range given {
		if err := j.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(given)
	for _, j := range []journal.Journal{j, another()} {
		if got := latest(t, j, 10); !slices.Equal(got, given) {
			t.Errorf("got %+v\nwant %+v", got, given)
		}
	}
}

func newestFirst(t *testing.T, j journal.Journal, another func() journal.Journal) {
	add(t, j, 1, 2, 3)
	for _, j := range []journal.Journal{j, another()} {
		is(t, latest(t, j, 10), 3, 2, 1)
		is(t, latest(t, j, 2), 3, 2)
		is(t, latest(t, j, 0))
		is(t, latest(t, j, -1))
	}
}

func late(t *testing.T, j journal.Journal, another func() journal.Journal) {
	add(t, j, 1, 3, 2)
	is(t, latest(t, j, 10), 3, 2, 1)
	is(t, latest(t, another(), 10), 3, 2, 1)
}

func once(t *testing.T, j journal.Journal, another func() journal.Journal) {
	add(t, j, 1, 1)
	other := another()
	add(t, other, 1)
	is(t, latest(t, other, 10), 1)
}

func bounded(t *testing.T, j journal.Journal, another func() journal.Journal) {
	const more = 5
	var want []int
	for n := range journal.Most + more {
		add(t, j, n+more)
		want = append(want, n+more)
	}
	slices.Reverse(want)
	want = want[:journal.Most]
	is(t, latest(t, j, journal.Most+more), want...)
	other := another()
	is(t, latest(t, other, journal.Most+more), want...)
	add(t, other, 1) // older than all
	is(t, latest(t, another(), journal.Most+more), want...)
}

func many(t *testing.T, j journal.Journal, another func() journal.Journal) {
	const writers, each = 8, 20
	var group errgroup.Group
	for w := range writers {
		group.Go(func() error {
			var errs []error
			for n := range each {
				errs = append(errs, j.Add(t.Context(), Entry(w*each+n)))
			}
			return errors.Join(errs...)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var want []int
	for n := range writers * each {
		want = append(want, n)
	}
	slices.Reverse(want)
	is(t, latest(t, another(), journal.Most), want...)
}
