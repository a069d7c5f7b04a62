package servicetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const masterName = "sluice"

// quickReplicas has replicas follow at once, without a disk. A replica that was sent
// nothing yet is not counted as one: the pings are sent to it.
func quickReplicas() []string {
	return []string{
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb",
		"--repl-ping-replica-period", "1",
	}
}

// Sentinel is a Redis with two replicas, watched by three sentinels, of a test's own.
// They take a server for dead that was silent for a second, and put another in its place
// when two of them agree.
type Sentinel struct {
	// URL by which they are found: redis-sentinel://…
	URL string
	// Nodes are the master and its replicas, as they were at the beginning.
	Nodes []*RedisServer
	// Sentinels watch them.
	Sentinels []*RedisServer

	t testing.TB
}

// OwnSentinel starts one and waits until every sentinel knows all of it. It ends with
// the test.
func OwnSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	quick := quickReplicas()
	master := OwnRedis(t, quick...)
	s.Nodes = append(s.Nodes, master)
	host, port, _ := net.SplitHostPort(master.address)
	for range 2 {
		s.Nodes = append(s.Nodes, OwnRedis(t, append(quick, "--replicaof", host+" "+port)...))
	}
	await(t, "replicas that follow", func() bool { return s.follow(master) == len(s.Nodes)-1 })
	var addresses []string
	for range 3 {
		watcher := begin(t, func(r *RedisServer) []string {
			r.config = filepath.Join(r.dir, "sentinel.conf")
			text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 1000\n"+
				"sentinel failover-timeout %[1]s 2000\nsentinel parallel-syncs %[1]s 2\n", masterName, host, port)
			if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--sentinel"}
		})
		s.Sentinels = append(s.Sentinels, watcher)
		addresses = append(addresses, watcher.address)
	}
	s.URL = "redis-sentinel://" + strings.Join(addresses, ",") + "?master=" + masterName
	for _, watcher := range s.Sentinels {
		await(t, "sentinels that know each other", func() bool {
			state := fields(watcher.Ask("SENTINEL", "MASTER", masterName))
			return state["num-slaves"] == "2" && state["num-other-sentinels"] == "2" && state["flags"] == "master"
		})
	}
	return s
}

// follow is how many replicas are up to date with the master.
func (s *Sentinel) follow(master *RedisServer) int {
	text, _ := master.Ask("INFO", "replication")
	return strings.Count(fmt.Sprint(text), "state=online")
}

// Master is who the sentinels that answer agree on, and which calls itself so too. It
// waits until there is one.
func (s *Sentinel) Master() (master *RedisServer) {
	s.t.Helper()
	await(s.t, "a master that is agreed on", func() bool {
		addresses := map[string]bool{}
		for _, watcher := range s.Sentinels {
			if at, ok := list(watcher.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)); ok && len(at) == 2 {
				addresses[net.JoinHostPort(at[0], at[1])] = true
			}
		}
		for _, node := range s.Nodes {
			if role, err := node.Ask("ROLE"); err == nil && addresses[node.address] && len(addresses) == 1 {
				master = node
				return strings.HasPrefix(fmt.Sprint(role), "[master")
			}
		}
		return false
	})
	return master
}

// AwaitAnother waits until another than old is the master.
func (s *Sentinel) AwaitAnother(old *RedisServer) (master *RedisServer) {
	s.t.Helper()
	await(s.t, "another master", func() bool {
		master = s.Master()
		return master != old
	})
	return master
}

// fields makes a map of a reply of names and values.
func fields(reply any, err error) map[string]string {
	m := map[string]string{}
	switch pairs := reply.(type) {
	case map[any]any:
		for name, value := range pairs {
			m[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(pairs); i += 2 {
			m[fmt.Sprint(pairs[i])] = fmt.Sprint(pairs[i+1])
		}
	}
	return m
}

func list(reply any, err error) (texts []string, ok bool) {
	all, ok := reply.([]any)
	for _, one := range all {
		texts = append(texts, fmt.Sprint(one))
	}
	return texts, ok && err == nil
}
