package servicetest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A master that is killed, and one that only hangs, gives way. When the sentinels make a
// replica of one that has come back is theirs to say, and may take a minute.
func TestOwnSentinel(t *testing.T) {
	t.Parallel()
	s := OwnSentinel(t)
	first := s.Master()
	if first != s.Nodes[0] {
		t.Fatalf("the master is %s", first.address)
	}
	first.Stop()
	second := s.AwaitAnother(first)
	first.Start()
	await(t, "a replica", func() bool { return s.follow(second) >= 1 })
	second.Freeze()
	third := s.AwaitAnother(second)
	second.Thaw()
	if now := s.Master(); now != third {
		t.Errorf("who has woken is the master again: %s", now.address)
	}
}

func TestOwnCluster(t *testing.T) {
	t.Parallel()
	c := OwnCluster(t)
	masters := map[*RedisServer]bool{}
	for _, key := range []string{"a", "b", "c"} {
		masters[c.MasterOf(key)] = true
	}
	if len(masters) != shards {
		t.Fatalf("a, b and c are on %d nodes", len(masters))
	}
	old := c.MasterOf("a")
	old.Stop()
	if taken := c.AwaitAnother("a", old); masters[taken] {
		t.Error("another master took over, not the replica")
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, OwnRedis(t).URL)
	client := redis.NewClient(&redis.Options{
		Addr: p.listener.Addr().String(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	defer func() { _ = client.Close() }()
	ping := func() (took time.Duration, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err = client.Ping(ctx).Err()
		return time.Since(begun), err
	}
	works := func(after Fault) {
		t.Helper()
		p.Set(None)
		if await(t, "through again", func() bool { _, err := ping(); return err == nil }); p.Open() == 0 {
			t.Errorf("after %q: no connection", after)
		}
	}
	works(None)
	p.Delay(100 * time.Millisecond)
	if took, err := ping(); err != nil || took < 100*time.Millisecond {
		t.Errorf("slow: %v after %s", err, took)
	}
	p.Delay(0)
	for _, f := range []Fault{Silent, Reset, Cut} {
		p.Set(f)
		if took, err := ping(); err == nil || (f == Silent) != (took >= time.Second) {
			t.Errorf("%s: %v after %s", f, err, took)
		}
		works(f)
	}
}
