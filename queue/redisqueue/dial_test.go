package redisqueue

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestDial(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379", "rediss://user:pass@host:6380/3", "redis-cluster://a,b:7001,c",
		"redis-sentinel://user:pass@a,b:26380?master=main&db=2",
	} {
		client, err := Dial(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if c, ok := client.(*redis.ClusterClient); ok {
			if want := []string{"a:6379", "b:7001", "c:6379"}; !slices.Equal(c.Options().Addrs, want) {
				t.Errorf("%s: addresses %v, want %v", url, c.Options().Addrs, want)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A URL is configuration and may hold a password: no error quotes it.
func TestDialRefuses(t *testing.T) {
	for _, url := range []string{
		"", "127.0.0.1:6379", "http://user:secret@host", "redis://user:secret@host:port/x",
		"redis-cluster://", "redis-cluster://user:secret@a,,b", "redis-cluster://user:secret@:7000", "redis-cluster://user:secret?tail@a:7000", "redis-sentinel://user:x?secret=y@a",
		"redis-sentinel://user:secret@a", "redis-sentinel://user:secret@a?master=m&db=x", "redis-sentinel://u:secret@a?%zz",
		"redis://h:6379/abc", "redis://h:99999", "redis://h:6379/0?colour=red", "redis-cluster://a:7000/3",
		"redis-cluster://a:70000", "redis-cluster://a?db=1", "redis-sentinel://a?master=m&sentinel_password=secret",
	} {
		client, err := Dial(url)
		if err == nil {
			t.Errorf("%q was accepted", url)
			_ = client.Close()
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes the password: %v", err)
		}
	}
}
