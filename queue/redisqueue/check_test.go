package redisqueue

import (
	"errors"
	"testing"
)

// volatile-* evict only keys with an expiry, and a line has one; they are
// refused like the rest.
func TestEvictingRedisIsRefused(t *testing.T) {
	for _, tt := range []struct {
		info   string
		policy string // "" is accepted
	}{
		{"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", ""},
		{"# Memory\r\nmaxmemory:1000000\r\nmaxmemory_policy:noeviction\r\n", ""},
		{"# Memory\r\nmaxmemory:1000000\r\nmaxmemory_policy:allkeys-lru\r\n", "allkeys-lru"},
		{"# Memory\r\nmaxmemory:1000000\r\nmaxmemory_policy:volatile-ttl\r\n", "volatile-ttl"},
		{"", ""},
	} {
		err := judgeMemory(tt.info)
		var eviction *EvictionError
		if got := errors.As(err, &eviction); got != (tt.policy != "") || got && eviction.Policy != tt.policy {
			t.Errorf("%q: %v, want policy %q refused", tt.info, err, tt.policy)
		}
	}
}
