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

func TestOldRedisIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{
		"6.0.16": true, "5.0.7": true, "6.2.0": false, "7.0.15": false, "8.2.1": false, "10.0.0": false, "": false, "unknown": false,
	} {
		err := judgeVersion("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n")
		var old *VersionError
		if got := errors.As(err, &old); got != refused || got && old.Version != version {
			t.Errorf("%q: %v, want refused %v", version, err, refused)
		}
	}
}
