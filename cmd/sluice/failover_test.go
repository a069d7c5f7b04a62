package main

import (
	"strings"
	"testing"
	"time"

	"sluice/servicetest"
)

// lineKey is what holds the slot of the default line.
const lineKey = "sluice:{default}:waiting"

// TestFailOver has visitors wait at two instances while the server that holds their line
// dies, or hangs and comes back believing that it is still in charge. Another takes over
// without anybody's help; all go in by their places, once.
func TestFailOver(t *testing.T) {
	t.Parallel()
	type many struct {
		url    string
		master func() *servicetest.RedisServer
		// another waits until another than old has taken over.
		another func(old *servicetest.RedisServer)
	}
	kinds := map[string]func(t *testing.T) many{
		"sentinel": func(t *testing.T) many {
			s := servicetest.OwnSentinel(t)
			return many{s.URL, s.Master, func(old *servicetest.RedisServer) { s.AwaitAnother(old) }}
		},
		"cluster": func(t *testing.T) many {
			c := servicetest.OwnCluster(t)
			return many{
				c.URL, func() *servicetest.RedisServer { return c.MasterOf(lineKey) },
				func(old *servicetest.RedisServer) { c.AwaitAnother(lineKey, old) },
			}
		},
	}
	ends := map[string]struct {
		fall, rise func(*servicetest.RedisServer)
	}{
		"killed": {(*servicetest.RedisServer).Stop, (*servicetest.RedisServer).Start},
		"frozen": {(*servicetest.RedisServer).Freeze, (*servicetest.RedisServer).Thaw},
	}
	for kind, start := range kinds {
		for end, how := range ends {
			t.Run(kind+"/"+end, func(t *testing.T) {
				t.Parallel()
				servers := start(t)
				shared := append(inTrouble,
					"SLUICE_REDIS="+servers.url, "SLUICE_DATABASE="+servicetest.MySQL(t), "SLUICE_SECRET="+strings.Repeat("shared-secret-", 3))
				v := newVigil(t, 150, serveEmbedded(t, shared...), serveEmbedded(t, shared...))
				v.some(10)

				master := servers.master()
				how.fall(master)
				// What it took and did not pass on goes with it, as after a loss: who has
				// a token keeps it, who has not fetched theirs is let in again, in front.
				fell := time.Now()
				v.join(5)
				servers.another(master)
				t.Logf("another took over after %s", time.Since(fell).Round(time.Millisecond))
				v.orders()
				t.Logf("back after %s", v.back().Round(time.Millisecond))
				how.rise(master)
				v.join(5)
				eventually(t, "those who came meanwhile stand in line", func() bool { return v.count() == 160 })
				v.judge(fell)
			})
		}
	}
}
