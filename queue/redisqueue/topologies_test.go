package redisqueue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// Whoever only waits for a line on a cluster finds it again soon after another node took
// it over from one that hangs, or is gone: none of them says so.
func TestClusterNodeGone(t *testing.T) {
	t.Parallel()
	const key = "{default}"
	c := servicetest.OwnCluster(t)
	line, err := redisqueue.New(dialTo(t, c.URL), "default", queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	entered, err := line.Enter(t.Context(), "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fall := range []func(*servicetest.RedisServer){(*servicetest.RedisServer).Freeze, (*servicetest.RedisServer).Stop} {
		node := c.MasterOf(key)
		fall(node)
		c.AwaitAnother(key, node)
		since := time.Now()
		await(t, "served again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			s, err := line.Standing(ctx, entered.Ticket)
			return err == nil && s.Position == 1
		})
		t.Logf("served again %s after another took over", time.Since(since).Round(time.Millisecond))
		node.Stop()
		node.Start()
		await(t, "a replica again", func() bool {
			info, _ := node.Ask("INFO", "replication")
			return strings.Contains(fmt.Sprint(info), "master_link_status:up")
		})
	}
}
