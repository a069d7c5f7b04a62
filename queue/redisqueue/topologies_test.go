package redisqueue_test

import (
	"slices"
	"testing"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// What holds on one server holds behind sentinels and on a cluster.

func TestContractOnSentinel(t *testing.T) { contract(t, servicetest.OwnSentinel(t).URL) }

func TestContractOnCluster(t *testing.T) { contract(t, servicetest.OwnCluster(t).URL) }

// Lines of a cluster live on different nodes, and one list names them all.
func TestLinesOfACluster(t *testing.T) {
	t.Parallel()
	c := servicetest.OwnCluster(t)
	client := dialTo(t, c.URL)
	if err := redisqueue.Check(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	directory := redisqueue.NewDirectory(client)
	on := map[*servicetest.RedisServer]bool{}
	ids := []string{"a", "b", "c", "d", "default", "e"}
	for _, id := range ids {
		line, err := redisqueue.New(client, id, queue.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		s, err := line.Enter(t.Context(), "v", nil)
		if err != nil || s.Position != 1 {
			t.Fatalf("%s: %+v, %v", id, s, err)
		}
		if err := directory.Add(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		on[c.MasterOf("{"+id+"}")] = true
	}
	if got, err := directory.Lines(t.Context()); err != nil || !slices.Equal(got, ids) {
		t.Errorf("the directory names %q, %v", got, err)
	}
	if len(on) != 3 {
		t.Errorf("six lines are on %d nodes", len(on))
	}
}
