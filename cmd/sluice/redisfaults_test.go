package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/servicetest"
)

// Redis is in trouble for longer than any deadline of ours, and once for longer than
// somebody may be silent who is near the head.
const (
	faultFor     = 4 * time.Second
	longFaultFor = 15 * time.Second
)

// ailing is a Redis that a test may do anything to, and the network in front of it.
type ailing struct {
	*testing.T
	server *servicetest.RedisServer
	client *redis.Client
	wire   *servicetest.Proxy
	folder string
}

func (r *ailing) command(args ...any) {
	r.Helper()
	if err := r.client.Do(r.Context(), args...).Err(); err != nil {
		r.Fatalf("%.100q: %v", args, err)
	}
}

// TestRedisFaults has visitors wait while their Redis is in each kind of trouble. They
// are told to come again, at once or after 2 s; tokens order; and afterwards, without
// anybody's help, all go in by their places, once.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, over func(*ailing)
		loses       bool          // Redis forgets
		served      bool          // everybody is answered all the same
		lasts       time.Duration // faultFor, if not said
	}{
		"killed, and empty after": {
			begin: func(r *ailing) { r.server.Stop() }, over: func(r *ailing) { r.server.Start() }, loses: true,
		},
		"killed, and back with an older copy": {
			begin: func(r *ailing) { r.command("SAVE"); time.Sleep(time.Second); r.server.Stop() },
			over:  func(r *ailing) { r.server.Start() }, loses: true,
		},
		"frozen": {
			begin: func(r *ailing) { r.server.Freeze() }, over: func(r *ailing) { r.server.Thaw() },
			lasts: longFaultFor,
		},
		"slow": {
			begin: func(r *ailing) { r.wire.Delay(2 * time.Second) }, over: func(r *ailing) { r.wire.Delay(0) },
		},
		"half-open connections": {
			begin: func(r *ailing) { r.wire.Set(servicetest.Silent) }, over: func(r *ailing) { r.wire.Set(servicetest.None) },
		},
		"connections reset": {
			begin: func(r *ailing) { r.wire.Set(servicetest.Reset) }, over: func(r *ailing) { r.wire.Set(servicetest.None) },
		},
		"cut off in the middle of an answer": {
			begin: func(r *ailing) { r.wire.Set(servicetest.Cut) }, over: func(r *ailing) { r.wire.Set(servicetest.None) },
		},
		"out of memory": {
			begin: func(r *ailing) { r.command("CONFIG", "SET", "maxmemory", "1") },
			over:  func(r *ailing) { r.command("CONFIG", "SET", "maxmemory", "0") },
		},
		"a replica that only reads": {
			begin: func(r *ailing) { r.command("REPLICAOF", "127.0.0.1", "1") },
			over:  func(r *ailing) { r.command("REPLICAOF", "NO", "ONE") },
		},
		"it cannot write its disk": {
			// What it would rename its copy to is a folder with something in it.
			begin: func(r *ailing) {
				if err := os.MkdirAll(filepath.Join(r.folder, "dump.rdb", "in the way"), 0o700); err != nil {
					r.Fatal(err)
				}
				r.command("CONFIG", "SET", "save", "3600 1")
				r.command("BGSAVE")
				eventually(r.T, "its copy has failed", func() bool {
					info, _ := r.server.Ask("INFO", "persistence")
					return strings.Contains(fmt.Sprint(info), "rdb_last_bgsave_status:err")
				})
			},
			over: func(r *ailing) {
				if err := os.RemoveAll(filepath.Join(r.folder, "dump.rdb")); err != nil {
					r.Fatal(err)
				}
				r.command("SAVE")
			},
		},
		"loading what it had": {
			begin: func(r *ailing) {
				much := []any{"MSET"} // it looks up from its work after each KiB
				for n := range 200 {
					much = append(much, n, strings.Repeat("x", 2<<10))
				}
				r.command(much...)
				r.command("CONFIG", "SET", "rdbcompression", "no")
				r.command("SAVE")
				r.server.Stop()
				r.server.Start()
				if info, err := r.client.Info(r.Context(), "persistence").Result(); err != nil || !strings.Contains(info, "\nloading:1") {
					r.Fatalf("it does not load: %v %v", info, err)
				}
			},
			over: func(*ailing) {}, loses: true,
		},
		"emptied": {
			begin: func(r *ailing) { r.command("FLUSHALL") }, over: func(*ailing) {}, loses: true, served: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &ailing{T: t, folder: t.TempDir()}
			args := []string{"--dir", r.folder}
			if name == "loading what it had" {
				args = append(args, "--key-load-delay", "30000", "--loading-process-events-interval-bytes", "1024") // µs for each key
			}
			r.server = servicetest.OwnRedis(t, args...)
			r.client = r.server.Client()
			r.wire = servicetest.NewProxy(t, r.server.URL)
			shop := serveEmbedded(t, append(inTrouble, "SLUICE_REDIS="+r.wire.URL, "SLUICE_SECRET="+strings.Repeat("shared-secret-", 3))...)
			v := newVigil(t, 100, shop)
			v.some(10)

			fault.begin(r)
			var lost time.Time
			if fault.loses {
				lost = time.Now()
			}
			v.join(5)
			eventually(t, "somebody is told to come again, or nobody has to", func() bool {
				return fault.served || v.told("503 queue_unavailable") > 0
			})
			v.orders()
			time.Sleep(cmp.Or(fault.lasts, faultFor))
			v.orders()
			fault.over(r)
			t.Logf("back after %s", v.back().Round(time.Millisecond))
			eventually(t, "those who came meanwhile stand in line", func() bool { return v.count() == 105 })
			v.judge(lost)
		})
	}
}

// A policy that throws visitors away, set while the line is served, is said at once; so
// is that it is over.
func TestEvictionIsNoticed(t *testing.T) {
	t.Parallel()
	server := servicetest.OwnRedis(t, "--maxmemory", "100mb")
	shop := serveEmbedded(t, "SLUICE_REDIS="+server.URL, "SLUICE_SECRET="+strings.Repeat("shared-secret-", 3))
	client := server.Client()
	set := func(policy string) {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("allkeys-lru")
	shop.log.await(t, "maxmemory-policy is allkeys-lru")
	set("noeviction")
	shop.log.await(t, "Redis keeps what it has again")
}
