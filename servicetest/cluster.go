package servicetest

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	shards = 3
	slots  = 16384
)

// Cluster is a Redis Cluster of a test's own: three masters with a replica each. A
// master that was silent for a second is taken for dead, and its replica takes its
// place.
type Cluster struct {
	// URL by which it is found: redis-cluster://…
	URL string
	// Nodes are all of it, in no order.
	Nodes []*RedisServer

	t testing.TB
}

// OwnCluster starts one and waits until every node serves all slots. It ends with the
// test.
func OwnCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var addresses []string
	for range 2 * shards {
		node := begin(t, func(*RedisServer) []string {
			// Ports of the bus are 10,000 above the other's by default, beyond the range.
			_, bus, _ := net.SplitHostPort(freeAddress(t))
			return append(quickReplicas(), "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000")
		})
		c.Nodes = append(c.Nodes, node)
		addresses = append(addresses, node.address)
	}
	c.URL = "redis-cluster://" + strings.Join(addresses, ",")
	for i, node := range c.Nodes[:shards] {
		node.order("CLUSTER", "ADDSLOTSRANGE", slots*i/shards, slots*(i+1)/shards-1)
		node.order("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	// Each with each: to hear of the others from one takes them ten seconds.
	for i, node := range c.Nodes {
		host, port, _ := net.SplitHostPort(node.address)
		for _, other := range c.Nodes[:i] {
			other.order("CLUSTER", "MEET", host, port, busOf(node))
		}
	}
	for i, node := range c.Nodes {
		await(t, "nodes that know each other", func() bool {
			state, _ := node.Ask("CLUSTER", "INFO")
			return strings.Contains(fmt.Sprint(state), fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Nodes)))
		})
		if i >= shards {
			master, _ := c.Nodes[i-shards].Ask("CLUSTER", "MYID")
			await(t, "a replica that knows its master", func() bool {
				_, err := node.Ask("CLUSTER", "REPLICATE", master)
				return err == nil
			})
		}
	}
	for _, node := range c.Nodes {
		await(t, "a cluster that serves", func() bool {
			state, _ := node.Ask("CLUSTER", "INFO")
			_, known, _ := c.view(node)
			return strings.Contains(fmt.Sprint(state), "cluster_state:ok") && known == 2*shards
		})
	}
	for _, node := range c.Nodes[shards:] {
		await(t, "replicas that follow", func() bool {
			text, _ := node.Ask("INFO", "replication")
			return strings.Contains(fmt.Sprint(text), "master_link_status:up")
		})
	}
	return c
}

func busOf(node *RedisServer) string {
	for i, arg := range node.args {
		if arg == "--cluster-port" {
			return node.args[i+1]
		}
	}
	return ""
}

// view is what a node says: which address serves each range of slots, and how many
// nodes serve or follow.
func (c *Cluster) view(node *RedisServer) (ranges []redis.ClusterSlot, known int, err error) {
	client := redis.NewClient(&redis.Options{Addr: node.address, MaxRetries: -1, DialerRetries: 1, ReadTimeout: patience / 10})
	defer func() { _ = client.Close() }()
	ranges, err = client.ClusterSlots(c.t.Context()).Result() //nolint:staticcheck // shorter than its successor, and what our client goes by
	for _, r := range ranges {
		known += len(r.Nodes)
	}
	return ranges, known, err
}

// MasterOf is the node that serves a key, by the word of all that answer. It waits until
// they agree.
func (c *Cluster) MasterOf(key string) (master *RedisServer) {
	c.t.Helper()
	await(c.t, "a master that is agreed on", func() bool {
		addresses := map[string]bool{}
		for _, node := range c.Nodes {
			slot, err := node.Ask("CLUSTER", "KEYSLOT", key)
			if err != nil {
				continue
			}
			ranges, _, _ := c.view(node)
			for _, r := range ranges {
				if n := int(slot.(int64)); r.Start <= n && n <= r.End {
					addresses[r.Nodes[0].Addr] = true
				}
			}
		}
		for _, node := range c.Nodes {
			if addresses[node.address] && len(addresses) == 1 {
				master = node
				return true
			}
		}
		return false
	})
	return master
}

// AwaitAnother waits until another node than old serves the key.
func (c *Cluster) AwaitAnother(key string, old *RedisServer) (master *RedisServer) {
	c.t.Helper()
	await(c.t, "another master", func() bool {
		master = c.MasterOf(key)
		return master != old
	})
	return master
}
